package queue

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/umavez/umavez/pkg/event"
)

// subjectPrefix begins the subjects of stream WEBHOOKS.
const subjectPrefix = "webhooks."

// Subject is where an event's message lives:
//
//	webhooks.<provider>.<account>.<payment token>.<event row id>
//
// Keyed by payment for people and filters, ended by the row id so that there
// is one message a subject. Nothing in a Notice can add a token or a wildcard:
// what is not plain goes in as a hash.
func Subject(n event.Notice) string {
	return subjectPrefix + nameToken(n.Provider) + "." + nameToken(n.Account) + "." +
		event.PaymentToken(n.PaymentRef) + "." + strconv.FormatInt(n.ID, 10)
}

// nameToken lets names through and hashes what cannot be one.
func nameToken(name string) string {
	if event.NamePattern.MatchString(name) {
		return name
	}
	return event.PaymentToken("\x00" + name)
}

// Address is what a subject says.
type Address struct {
	EventID           int64
	Provider, Account string
	PaymentToken      string
}

var token = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ParseSubject reads a subject made by Subject. Anybody who may publish can
// put others into the stream; they are refused here.
func ParseSubject(subject string) (Address, error) {
	rest, ok := strings.CutPrefix(subject, subjectPrefix)
	if !ok {
		return Address{}, fmt.Errorf("subject does not begin with %s", subjectPrefix)
	}
	parts := strings.Split(rest, ".")
	if len(parts) != 4 {
		return Address{}, fmt.Errorf("subject has %d tokens after %q, not 4", len(parts), subjectPrefix)
	}
	for _, p := range parts[:3] {
		if !token.MatchString(p) {
			return Address{}, fmt.Errorf("subject has a malformed token")
		}
	}
	id, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || id <= 0 || parts[3] != strconv.FormatInt(id, 10) {
		return Address{}, fmt.Errorf("subject ends with no row id")
	}
	return Address{EventID: id, Provider: parts[0], Account: parts[1], PaymentToken: parts[2]}, nil
}
