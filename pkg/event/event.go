// Package event holds what a gateway sent us: one Event per webhook message,
// with its exact bytes and the dedupe key that makes it unique, and the words
// for what becomes of it. It knows no gateway, no database and no broker.
package event

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Event is one webhook message as the provider sent it, after its credentials
// were verified. It is immutable once stored.
type Event struct {
	ID              int64 // row id, given by the database
	Provider        string
	Account         string
	DedupeKey       string    // see Key
	ProviderEventID string    // the gateway's own id; "" when it has none
	Type            string    // the gateway's event type, as sent
	PaymentRef      string    // the gateway's payment id; "" when the event concerns none
	OccurredAt      time.Time // the gateway's event time; zero when it sends none
	ReceivedAt      time.Time // the database's clock
	BodySHA256      [sha256.Size]byte
	Secret          string // label of the secret that matched, never the secret
	Test            bool
	Body            []byte   // exact bytes; nil when dropped by retention
	Headers         []Header // the headers that were signed or that Facts needs
}

// Header is one kept request header; names are in canonical form.
type Header struct{ Name, Value string }

// HeaderValue returns the first kept value of a header, or "".
func (e *Event) HeaderValue(name string) string {
	for _, h := range e.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// Status says where a stored event stands.
type Status string

// The statuses of an event; the first two are unfinished.
const (
	StatusPending     Status = "pending"
	StatusParked      Status = "parked"
	StatusProcessed   Status = "processed"
	StatusIgnored     Status = "ignored"
	StatusQuarantined Status = "quarantined"
	StatusDead        Status = "dead"
)

// Outcome refines StatusProcessed; it is "" for the other statuses.
type Outcome string

// The outcomes of a processed event.
const (
	OutcomeApplied  Outcome = "applied"  // it caused a transition or an entry
	OutcomeRepeated Outcome = "repeated" // the fact was already applied
	OutcomeStale    Outcome = "stale"    // late; refused by the state machine
)

// Key builds a dedupe key from its parts. Each part is preceded by its length
// in bytes, so that ("ab","c") and ("a","bc") differ: "2:ab1:c". A key whose
// readable form would be longer than 200 bytes is its prefix of kind and a
// SHA-256 instead, since it is kept in an index.
func Key(kind string, parts ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	b.WriteByte('/')
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(':')
		b.WriteString(p)
	}
	if b.Len() <= 200 && printable(b.String()) {
		return b.String()
	}
	sum := sha256.Sum256([]byte(b.String()))
	return kind + "/sha256:" + hex.EncodeToString(sum[:])
}

// BodyKey is the dedupe key of a message that says no usable name of its own:
// the hash of its bytes.
func BodyKey(body []byte) string {
	sum := sha256.Sum256(body)
	return Key("body", hex.EncodeToString(sum[:]))
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

var plainToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// PaymentToken turns a gateway's payment id into a subject token that can
// inject nothing: the id itself when it is plain, else "h_" and 32 hex digits
// of its SHA-256. An event without payment has the token "none".
func PaymentToken(ref string) string {
	if ref == "" {
		return "none"
	}
	if plainToken.MatchString(ref) {
		return ref
	}
	sum := sha256.Sum256([]byte(ref))
	return "h_" + hex.EncodeToString(sum[:16])
}

// NamePattern is what provider and account names match, so that they can be
// used in URLs, subjects, settings and metric labels as they are.
var NamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// The types of umavez's own events. They enter like any other, so that there
// is one way to move money.
const (
	TypeRegistered = "umavez.registered" // the application registered a payment
	TypeReconcile  = "umavez.reconcile"  // the sweeper wants the gateway asked again
)

// Own says whether an event is umavez's own; it has no body.
func (e *Event) Own() bool { return e.Type == TypeRegistered || e.Type == TypeReconcile }
