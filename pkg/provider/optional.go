package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
)

// ErrUnresolved is what Facts of a Resolver returns for an event that names
// no payment: a notification code, a chargeback's own number.
var ErrUnresolved = errors.New("the event does not name its payment; the gateway has to be asked")

// Resolver is implemented by gateways some of whose events name something
// else than a payment. For those, Facts returns ErrUnresolved.
type Resolver interface {
	// Resolve asks the gateway what the event is about, outside of any
	// transaction, and returns what it answered. A claim with a GatewayID is
	// looked up as always. One with a Reference alone is about the payment of
	// this source that carries the reference: none, or several, and the event
	// waits for a person. Errors are those of Lookup.
	//
	// Claims that carry facts are taken as the gateway's own word: they were
	// answered, not received.
	Resolve(ctx context.Context, client *http.Client, e *event.Event) ([]payment.Claim, error)
}

// SignedText is one text whose digest a signature may be.
type SignedText struct {
	Name string // which form: "data.id in lower case"
	// Text is what is signed, with "<body>" for the body's bytes. It holds no
	// secret and nothing of a body.
	Text string
	// Secret is the label of the secret whose digest of the text was sent; ""
	// when none was.
	Secret string
	// Accepted says whether Verify accepts this form at all. One that it does
	// not (a body that was written anew) is listed to name the fault.
	Accepted bool
}

// Explainer is implemented by gateways whose credentials are a signature.
type Explainer interface {
	// Explain lists the texts that the sender may have signed, those that
	// Verify tries first. It is for on-call, not for deciding.
	Explain(r Request) []SignedText
}

// ClientCertificate is implemented by gateways whose API wants one.
type ClientCertificate interface {
	// ClientCertificate is shown on every call; nil for none. The pointer
	// stays the same as long as the certificate does.
	ClientCertificate() *tls.Certificate
}

// ClientVerifier is implemented by gateways that may authenticate themselves
// with a client certificate.
type ClientVerifier interface {
	// NeedsClientVerified says that no request is accepted without
	// Request.ClientVerified: ingest has to have a way to find it out.
	NeedsClientVerified() bool
}

// As finds an optional part of the contract in a provider, through whatever
// wraps it.
func As[T any](p Provider) (T, bool) {
	for p != nil {
		if part, ok := p.(T); ok {
			return part, true
		}
		w, ok := p.(interface{ Unwrap() Provider })
		if !ok {
			break
		}
		p = w.Unwrap()
	}
	var none T
	return none, false
}
