// Package provider is the contract between umavez and one payment gateway.
//
// A gateway is one folder below this one that implements Provider. Its code
// is pure but for Lookup: Verify and Parse see one request, Facts one stored
// event. None of them knows a database, a broker or another gateway.
//
// The order is fixed: nothing is parsed, and nothing of a body is kept in
// events, before Verify has accepted the raw bytes.
package provider

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
)

// Request is one HTTP request to a webhook address, read up to the limit.
type Request struct {
	Header http.Header
	Query  string // raw, as sent
	// Path is what follows the account in the address, without the slash
	// between, unescaped: "pix" of /webhooks/efi/loja/pix. It is "" for a
	// gateway without Traits.OwnsPath.
	Path string
	// Peer is who sent the request: the right-most hop that is not one of our
	// own proxies. Invalid when it is not known.
	Peer netip.Addr
	// ClientVerified: the sender showed a client certificate that our TLS
	// listener, or a trusted proxy before it, has verified.
	ClientVerified bool
	Body           []byte // exact bytes, after content-encoding was undone
	Now            time.Time
}

// Provider is one configured account of a gateway. Implementations are safe
// for concurrent use and are built by the Factory of their folder.
type Provider interface {
	// Verify checks the request's credentials on its raw bytes, in constant
	// time, against every active secret. It returns the label of the secret
	// that matched ("1" is the first of the list), or why none did.
	Verify(r Request) (secret string, reason Reason)

	// Parse splits a verified request into events and derives each one's key.
	// It never fails: what cannot be read comes back as one Message with
	// Disposition Quarantine and a reason, keyed by the hash of its bytes.
	Parse(r Request) []Message

	// Facts reads what a stored event claims. Claims are empty for an event
	// that is purely informational. An error means that a person must look:
	// the event is quarantined with the error's text as its reason, so that
	// text names fields, never values that may be personal.
	Facts(e *event.Event) ([]payment.Claim, error)

	// Lookup asks the gateway what it says of one payment now. The client
	// has deadlines, no redirects and a rate limit already. Errors are
	// ErrNotFound, ErrMismatch, *RetryError or anything else (retried too).
	Lookup(ctx context.Context, client *http.Client, paymentRef string) (payment.Claim, error)

	// Traits says what the rooms must know about the gateway's contract.
	Traits() Traits
}

// Traits are the parts of a gateway's contract that are not code.
type Traits struct {
	// BodyAuthenticated: the credentials cover the body, or come from the
	// gateway alone, so that its facts may move money. False: a lookup must.
	BodyAuthenticated bool
	// CanLookup: the configuration suffices to look payments up.
	CanLookup bool
	// Success and Unauthorized are the exact answers, by the contract.
	Success, Unauthorized Answer
	// LookupRate is the default limit in requests a second, within the
	// gateway's published one; Burst goes with it.
	LookupRate  float64
	LookupBurst int
	// SignedHeaders are the header names kept beside the body. A name that
	// begins with a question mark is a query parameter's: "?data.id". Never
	// list one that carries a secret.
	SignedHeaders []string
	// OwnsPath: the gateway appends to the address, or a secret is part of it;
	// Verify reads Request.Path. Without it such addresses do not exist.
	OwnsPath bool
	// EmptyBodies: the gateway sends requests without a body on purpose (a
	// probe), and Parse knows them. Without it an empty body is refused, since
	// something on the way has lost it.
	EmptyBodies bool
	// OtherCredentials: requests are authenticated by something else than the
	// webhook secrets (a published key set, a client certificate), so that the
	// source needs none.
	OtherCredentials bool
}

// Answer is an HTTP answer: status, and a short constant body.
type Answer struct {
	Status int
	Body   string
}

// Disposition says what is to become of a message once it is stored.
type Disposition string

// The dispositions.
const (
	Process    Disposition = "process"
	Ignore     Disposition = "ignore"     // settled at once, with a reason
	Quarantine Disposition = "quarantine" // settled at once, a person looks
)

// Message is one event of a verified request.
type Message struct {
	DedupeKey       string // from event.Key; never empty
	ProviderEventID string
	Type            string
	PaymentRef      string // "" when it concerns no payment
	OccurredAt      time.Time
	Test            bool
	Body            []byte // this event's own bytes: those of the request, or of its part
	Disposition     Disposition
	Reason          string // for Ignore and Quarantine
	// Reopen: a repeat of this message asks for processing again although it
	// was settled (the gateway gives two facts one key).
	Reopen bool
}

// Reason is why credentials were refused; the set is fixed, for metrics.
type Reason string

// The reasons. ReasonNone means accepted.
const (
	ReasonNone      Reason = ""
	ReasonMissing   Reason = "credentials_missing"
	ReasonMalformed Reason = "credentials_malformed"
	ReasonMismatch  Reason = "digest_differs" // the body or the secret is another one
	ReasonToken     Reason = "token_differs"
	ReasonTooOld    Reason = "timestamp_too_old" // the digest is right: clock skew or a replay
	ReasonTooNew    Reason = "timestamp_too_new"
	ReasonAddress   Reason = "address_not_allowed" // not one of the source's ALLOWED_IPS
	ReasonNoClient  Reason = "client_certificate_missing"
	// ReasonUnavailable: the credentials could not be checked now (a key set
	// that is not to be had). The sender is asked to come again.
	ReasonUnavailable Reason = "keys_unavailable"
)

// The reasons of settled messages that gateways share.
const (
	ReasonTestEvent     = "test_event"
	ReasonEmptyData     = "empty_data"
	ReasonInformational = "informational"
	ReasonUnknownType   = "unknown_type"
	ReasonUnreadable    = "unreadable"
)
