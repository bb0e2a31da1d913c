// Package settlement holds what the processor and its storage say to each
// other about one batch: the unfinished events that were loaded, the decision
// that is taken under the payments' locks, and the verdict on each event. It
// is the noun between the two, so that neither knows the other.
package settlement

import (
	"errors"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/payment"
)

// Ref names a payment.
type Ref struct{ Provider, Account, GatewayID string }

// String is the form in which an event says what it waits for.
func (r Ref) String() string { return r.Provider + "/" + r.Account + "/" + r.GatewayID }

// RefOf is the payment that an event concerns.
func RefOf(e *event.Event) Ref { return Ref{e.Provider, e.Account, e.PaymentRef} }

// ReferenceOf is the form in which an event says that it waits for a payment
// that carries a reference, of which it does not know the id.
func ReferenceOf(provider, account, reference string) string {
	return provider + "/" + account + "/by reference/" + reference
}

// Compare orders refs, for locks that are taken in one order.
func (r Ref) Compare(o Ref) int {
	for _, pair := range [][2]string{{r.Provider, o.Provider}, {r.Account, o.Account}, {r.GatewayID, o.GatewayID}} {
		if pair[0] < pair[1] {
			return -1
		} else if pair[0] > pair[1] {
			return 1
		}
	}
	return 0
}

// Work is an unfinished event.
type Work struct {
	Event    event.Event
	State    event.Status // pending or parked
	Turn     int32        // 1, and one more for each revival
	Attempts int          // failures so far
	Parks    int          // times parked for Reason so far
	Since    time.Time    // when it was received, revived or first parked
	Reason   string       // why it is parked
	// ReasonSince is since when it has been parked for that reason.
	ReasonSince time.Time
	// Sibling: it was not asked for, and came along with another event of its
	// payment.
	Sibling bool
}

// Handle names one turn of an event: what a transaction may claim is what was
// loaded, and not a revival of it that happened since.
type Handle struct {
	EventID int64
	Turn    int32
}

// Handle names the turn that was loaded.
func (w *Work) Handle() Handle { return Handle{w.Event.ID, w.Turn} }

// Registration is what the application told us of a payment.
type Registration struct {
	Expected                         payment.Minor
	Currency, Beneficiary, Reference string
}

// Held is a payment as it stands, with its registration if there is one.
type Held struct {
	Payment    payment.Payment
	Exists     bool
	Registered *Registration
}

// Batch is what Load found.
type Batch struct {
	Works []Work       // unfinished ones of those asked for, and parked ones of the same payments
	Held  map[Ref]Held // without a lock: good for deciding what to ask the gateway
	// Now is the database's clock when the batch was loaded. A lookup that
	// starts after this call was loaded observes the gateway at Now or later.
	Now time.Time
}

// Verdict is what becomes of one event. A parked or pending verdict keeps it
// unfinished.
type Verdict struct {
	EventID int64
	Turn    int32
	Status  event.Status
	Outcome event.Outcome // for processed
	Reason  string

	// For parked and pending ones:
	Delay       time.Duration // until it is due
	Attempts    int
	Parks       int
	Since       time.Time // zero: now
	ReasonSince time.Time // zero: now
	LastError   string
	WaitingFor  string
}

// Settled says whether the verdict ends the event.
func (v *Verdict) Settled() bool {
	return v.Status != event.StatusPending && v.Status != event.StatusParked
}

// Move is one transition of a payment, the event that caused it, and its
// ledger entries.
type Move struct {
	EventID    int64
	Transition payment.Transition
	Entries    []ledger.Entry
	Subject    string // of its domain event
	Payload    []byte // of its domain event, JSON
}

// Change is all that a batch does to one payment.
type Change struct {
	Payment payment.Payment // as it stands afterwards
	Moves   []Move
}

// Decision is what a batch's transaction writes.
type Decision struct {
	Verdicts []Verdict
	Changes  []Change
	// Awaited, in the form of Verdict.WaitingFor, has come: what waits for it
	// is due at once.
	Awaited []string
}

// Decide is called under the locks, with the events that this transaction
// could claim and the payments as they are. It is pure. It may be called again
// when the transaction is run again.
type Decide func(claimed map[int64]bool, held map[Ref]Held) (Decision, error)

// How a transaction can fail, as far as the processor must tell it apart.
// Any other error stops the batch as it is, and would again.
var (
	// ErrRetry: a deadlock, a serialization failure or a lock time-out; the
	// same transaction may be run again as it is.
	ErrRetry = errors.New("transaction to be run again")
	// ErrUnknownOutcome: the commit was sent and its answer lost.
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")
	// ErrUnavailable: no connection, or the server is going away; nothing
	// was committed.
	ErrUnavailable = errors.New("database unavailable")
)
