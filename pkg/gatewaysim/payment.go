package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// Payment is the truth about one payment, at the end of its history.
// Amounts are in minor units of Currency.
type Payment struct {
	Gateway     string         `json:"gateway"`
	Account     string         `json:"account"`
	ID          string         `json:"id"` // the gateway's
	Kind        Kind           `json:"kind"`
	Reference   string         `json:"reference"`
	Beneficiary string         `json:"beneficiary"`
	Status      payment.Status `json:"status"`
	Currency    string         `json:"currency"`
	Expected    int64          `json:"expected"` // what was asked for first
	Captured    int64          `json:"captured"`
	Refunded    int64          `json:"refunded"`
	ChargedBack int64          `json:"charged_back"` // by disputes that are open or lost
	Fee         int64          `json:"fee"`
	Net         int64          `json:"net"` // captured - fee - refunded - charged_back

	// Heard: at least one webhook that concerns the payment is sent. Nobody
	// can know of a payment that is not heard of.
	Heard bool `json:"heard"`
	// TailLost: the webhooks of the last step that changed anything are all
	// lost; the final state is found by a lookup for an event that comes
	// later, or by reconciliation.
	TailLost bool `json:"tail_lost"`
	// Steps is how many steps the history has.
	Steps int `json:"steps"`
}

// Owner is whose money a balance is, and in which currency.
type Owner struct {
	Beneficiary string
	Currency    string
}

// pay is a payment with its history.
type pay struct {
	index       int
	acct        *account
	kind        Kind
	id          string
	reference   string
	beneficiary string
	currency    string // upper case
	amount      int64  // asked for
	method      string
	numericID   bool // PagPolar: the id is a JSON number
	oddities    uint64
	steps       []step
	heard       bool
	tailLost    bool
}

// step is one step of a history: the state after it, and the webhooks that
// tell of it.
type step struct {
	state
	events []happening
	// mayLag: an API answer from before this step contradicts its webhooks,
	// so that a receiver notices (see the package comment).
	mayLag bool
}

// happening is one webhook event of a step.
type happening struct {
	typ    string
	id     string // the gateway's event id; PagPolar has none that lasts
	refund int    // index of the refund it is about, or -1
	was    string // previous value, for events that carry one
	noise  bool   // tells nothing about the payment's state
}

// state is all that a gateway knows of a payment at one time.
type state struct {
	at       time.Time
	status   payment.Status
	word     string // the gateway's own status
	captured int64
	fee      int64
	feeKnown bool
	refunds  []refund
	dispute  *dispute

	charge       string // Stripe: latest charge
	chargeWord   string // Stripe: its status; "" without charge
	chargeAt     time.Time
	feeTxn       string // Stripe: balance transaction of the charge
	cancelReason string
	canceledAt   time.Time
	failed       bool // the last attempt failed
	refundShown  int64

	deleted     bool // Asaas
	confirmedAt time.Time
	receivedAt  time.Time
	interest    int64
}

type refund struct {
	id, txn string
	amount  int64
	word    string // the gateway's own status
	done    bool
	at      time.Time
}

type dispute struct {
	id, word, reason string
	amount, fee      int64
	out, back        string // Stripe: balance transactions
	withdrawn        bool   // the money is away: open or lost
	formal           bool   // not a mere inquiry
	at, backAt       time.Time
}

func (s *state) refunded() int64 {
	var sum int64
	for _, r := range s.refunds {
		if r.done {
			sum += r.amount
		}
	}
	return sum
}

func (s *state) chargedBack() int64 {
	if s.dispute == nil || !s.dispute.withdrawn {
		return 0
	}
	return s.dispute.amount
}

func (s *state) fees() int64 {
	var sum int64
	if s.feeKnown {
		sum = s.fee
	}
	if s.dispute != nil && s.dispute.formal {
		sum += s.dispute.fee
	}
	return sum
}

func (s *state) copy() state {
	c := *s
	c.refunds = append([]refund(nil), s.refunds...)
	if s.dispute != nil {
		d := *s.dispute
		c.dispute = &d
	}
	return c
}

func (p *pay) truth() Payment {
	last := &p.steps[len(p.steps)-1]
	t := Payment{
		Gateway: p.acct.gateway.name(), Account: p.acct.name, ID: p.id, Kind: p.kind,
		Reference: p.reference, Beneficiary: p.beneficiary, Status: last.status,
		Currency: p.currency, Expected: p.amount, Captured: last.captured,
		Refunded: last.refunded(), ChargedBack: last.chargedBack(), Fee: last.fees(),
		Heard: p.heard, TailLost: p.tailLost, Steps: len(p.steps),
	}
	t.Net = t.Captured - t.Fee - t.Refunded - t.ChargedBack
	return t
}
