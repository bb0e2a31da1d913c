// Package providertest is the conformance suite that every gateway's folder
// runs over itself. A gateway's test fills a Spec and calls Run; the suite
// tries what real senders and forgers send, and checks what the rest of
// umavez takes for granted:
//
//   - Verify accepts exactly the credentials of the configured secrets, says
//     which secret it was, and never panics;
//   - Parse never panics and never loses a request: at least one message, with
//     a key, a disposition of the fixed set, and a reason that quotes nothing
//     of the body;
//   - Facts never panics, and its errors quote nothing of the body;
//   - golden bodies give golden keys, references, dispositions and facts;
//   - amounts are exact;
//   - Lookup maps the gateway's statuses, compares what it got with what it
//     asked for, and turns failures into the errors of package provider.
//
// The package is imported by tests only. What a gateway does not have is left
// empty in its Spec, and that part of the suite does not run.
package providertest

import (
	"net/http"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Spec describes one gateway to the suite. Factory, Source, Now, Sign and
// Body are required.
type Spec struct {
	// Factory builds the gateway from Source, or from a changed copy of it.
	Factory provider.Factory
	// Source is complete: at least two webhook secrets that share no prefix,
	// an API key if the gateway has lookups. Production is true. APIBase is
	// replaced by the suite's own server.
	Source provider.Source

	// Now is the clock of every request of the suite.
	Now time.Time
	// Sign returns the request in which the gateway would send body: all
	// headers, the query, the body itself, Now set to now. For a shared token
	// it ignores the body. A gateway whose credentials depend on fields of
	// the body (an id in the query) derives them as well as it can.
	Sign func(secret string, body []byte, now time.Time) provider.Request

	// CredentialHeader is the header that carries the credentials;
	// CredentialQuery the query parameter, for gateways that use the address
	// instead; CredentialPath says that they are the rest of the address's
	// path. Exactly one is set.
	CredentialHeader, CredentialQuery string
	CredentialPath                    bool
	// BodySigned: the credentials are a digest over the body, so a body with
	// one byte changed must be refused. False for shared tokens.
	BodySigned bool
	// CaseMatters: the credential with letter cases swapped must be refused
	// (tokens, mostly; hexadecimal digests may go either way).
	CaseMatters bool
	// Refused are further requests that Verify must refuse, with the reason:
	// rows of the gateway's contract, such as a time-stamp that is too old.
	Refused []Credential
	// Accepted are further requests that Verify must accept. Label is the
	// label of the secret that matches.
	Accepted []Credential

	// Body is one authentic, complete JSON (or form) body of an event that
	// moves money. The suite damages it in many ways.
	Body []byte
	// Form says that bodies are application/x-www-form-urlencoded. The
	// JSON-specific parts do not run then.
	Form bool
	// Batch says that one request may be an array of events: an array gives
	// one message for each element, an empty one a single ignored message.
	// Without it an array is quarantined.
	Batch bool
	// Parts says that a body is an object with a list of events in it, and that
	// each message keeps the bytes of its own element. Body has one element.
	Parts bool
	// EmptyData are authentic bodies whose payload is empty in one of the
	// ways that the contract names (null, {}, [], absent). They are ignored
	// with provider.ReasonEmptyData.
	EmptyData [][]byte
	// TestBodies are bodies that the gateway marks as tests. With
	// Source.Production they are stored with Test set, and ignored.
	TestBodies [][]byte

	// GoldenDir holds pairs of files: <name>.json (or .form), a body, and
	// <name>.golden, what Describe says of it. "" is "testdata". With the
	// environment variable UMAVEZ_UPDATE_GOLDEN=1 the golden files are
	// written instead of compared; read the difference before you commit it.
	GoldenDir string
	// GoldenHeader is added to the requests of the golden bodies.
	GoldenHeader http.Header

	// Keys are pairs of bodies whose dedupe keys must be equal or must differ.
	Keys []KeyPair

	// Amounts builds every spelling of a body that claims the amount of so
	// many cents in a currency of two digits: 820 gives the bodies with 8.2,
	// 8.20 and "8.20" where the gateway sends decimals. The suite tries 0.01
	// to 100.00. Nil when bodies carry no amounts.
	Amounts func(cents int64) [][]byte
	// AmountOf reads the amount that Amounts (and LookupAmounts) varied from
	// the claim; nil reads Captured.
	AmountOf func(payment.Claim) payment.Minor
	// OutOfRange are bodies whose amounts are beyond 64 bits, negative or not
	// exact in the minor unit: Parse quarantines them, or Facts answers with
	// an error that speaks of the amount.
	OutOfRange [][]byte

	// Lookups are rows of the gateway's table of statuses. Empty when the
	// gateway has no lookups; then Traits().CanLookup must be false.
	Lookups []Lookup
	// LookupRef is a payment reference and LookupAnswer a handler that, for
	// whatever address it is asked, gives a good answer about LookupRef. The
	// suite asks for other references and expects provider.ErrMismatch, and
	// changes the answer as it changes bodies.
	LookupRef    string
	LookupAnswer http.HandlerFunc
	// LookupAmounts is Amounts for the answers of the lookup.
	LookupAmounts func(cents int64) []http.HandlerFunc
	// BadRequestIsMissing says that the gateway answers 400 where others answer
	// 404.
	BadRequestIsMissing bool
	// Around, when not nil, stands before every answer of the lookups: it
	// answers what a gateway is asked besides (for an access token), and passes
	// the rest on.
	Around func(http.Handler) http.Handler
	// CheckLookup inspects one request of the first Lookups row: address,
	// key header, pinned version. nil error when it is as the contract says.
	CheckLookup func(r *http.Request) error
}

// Credential is one request whose credentials are tried.
type Credential struct {
	Name    string
	Request provider.Request
	Reason  provider.Reason // of a refusal; ReasonNone in Accepted
	Label   string          // of the secret, in Accepted
}

// KeyPair is two bodies and whether they are the same event.
type KeyPair struct {
	Name string
	A, B []byte
	Same bool
}

// Lookup is one answer of the gateway's API and what it must be taken for.
type Lookup struct {
	Name   string
	Ref    string           // asked for
	Answer http.HandlerFunc // the gateway, for this row
	// Status is the canonical status that applying the claim to an unknown
	// payment leads to ("" is not checked).
	Status payment.Status
	// Facts are compared in full when they are not nil.
	Facts []payment.Fact
	// Claim, when not nil, is compared in full.
	Claim *payment.Claim
	// Err, when not nil, is the error expected, by errors.Is.
	Err error
	// Setting are settings of this row's source, over those of Spec.Source.
	Setting map[string]string
}
