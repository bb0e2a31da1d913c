package standardwebhooks

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Facts implements provider.Provider.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	var body jsontext.Value
	if err := provider.Decode(e.Body, &body); err != nil {
		return nil, err
	}
	s := &p.shape
	typ, err := s.typ.Text(body)
	if err != nil || typ == "" || !typ.Clean() {
		return nil, fmt.Errorf("%s is missing or not a clean word", s.typ)
	}
	what, known := s.events.of(string(typ))
	if !known || what == meansNone {
		return nil, nil
	}
	ref, at := s.payment(string(typ), body)
	if ref == "" {
		if emptyAround(body, at) {
			return nil, nil
		}
		return nil, errors.New(missingID(at))
	}
	claim := payment.Claim{GatewayID: ref, Reason: string(typ), At: s.time(body)}
	if claim.Currency, err = s.sums.code(body); err != nil {
		return nil, err
	}
	claim.Reference, claim.Beneficiary = p.whose(body, s.reference, s.owner)
	if what == meansByStatus {
		if what, err = p.byStatus(body); err != nil {
			return nil, err
		}
	}
	if err := p.say(&claim, what, body); err != nil {
		return nil, err
	}
	return []payment.Claim{claim}, nil
}

// byStatus reads what an event means from the status in its body.
func (p *Provider) byStatus(body jsontext.Value) (meaning, error) {
	word, err := p.shape.status.Text(body)
	if err != nil || word == "" {
		return "", fmt.Errorf("%s is missing or not a text", p.shape.status)
	}
	status, known := p.shape.statuses[string(word)]
	if !known {
		return "", fmt.Errorf("%s does not have the status %s", p.src.Variable("STATUS_MAP"), quoted(word))
	}
	return ofStatus(status), nil
}

// say adds to a claim what its event means.
func (p *Provider) say(c *payment.Claim, what meaning, body jsontext.Value) (err error) {
	status := func(s payment.Status) { c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactStatus, Status: s}) }
	switch what {
	case meansLookup: // the sender says more when it is asked
	case meansPending, meansAuthorized, meansFailed, meansCanceled, meansExpired:
		c.Expected, err = p.shape.sums.read(body, p.shape.sums.amount, c.Currency)
		status(payment.Status(what))
	case meansPaid:
		status(payment.StatusPaid)
		err = p.paid(c, body)
	case meansRefund, meansPartly, meansRefunded:
		err = p.refunded(c, what, body)
	case meansRefundPending:
		err = p.refund(c, payment.RefundPending, body)
	case meansRefundFailed:
		err = p.refund(c, payment.RefundFailed, body)
	case meansDisputed:
		err = p.dispute(c, payment.DisputeOpen, payment.StatusDisputed, body)
	case meansDisputeWon:
		// A sender that names no dispute says so by "paid" after "disputed".
		err = p.dispute(c, payment.DisputeWon, payment.StatusPaid, body)
	case meansChargedBack:
		err = p.dispute(c, payment.DisputeLost, payment.StatusChargedBack, body)
	}
	return err
}

// paid reads the gross amount and what the sender kept of it.
func (p *Provider) paid(c *payment.Claim, body jsontext.Value) (err error) {
	s := &p.shape.sums
	if c.Captured, err = s.read(body, s.amount, c.Currency); err != nil {
		return err
	}
	if c.Captured.Known && c.Captured.Value == 0 {
		return fmt.Errorf("%w: %s is zero", errAmount, s.amount)
	}
	fee, netKnown, err := s.kept(body, c.Captured, c.Currency)
	if err != nil {
		return err
	}
	ask := false
	if !netKnown {
		switch p.shape.netMissing {
		case netByLookup:
			fee, ask = payment.Minor{}, true
		case netGross:
			fee = payment.Minor{}
		}
	}
	if fee.Known || ask {
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactFee, ID: c.GatewayID, Amount: fee})
	}
	return nil
}

// refunded reads a refund that was made. Its id is its name; beside it, where
// the sender can be asked, a total says whether others have names that are not
// known yet. Without an id the growth of the total is what is booked.
func (p *Provider) refunded(c *payment.Claim, what meaning, body jsontext.Value) error {
	s := &p.shape
	id, err := name(body, s.refundID)
	if err != nil {
		return err
	}
	total, err := s.sums.read(body, s.refundTotal, c.Currency)
	if err != nil {
		return err
	}
	if id != "" {
		if err := p.refund(c, payment.RefundSucceeded, body); err != nil {
			return err
		}
	}
	switch {
	case id != "" && p.api == nil:
		// The total may count a refund whose event was lost, and nobody can be
		// asked for its name; this one must not wait for it in vain.
	case total.Known:
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: total, ByID: id != ""})
	case id == "" && what == meansRefunded:
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded})
	case id == "":
		c.Facts = append(c.Facts, p.unnamedRefund())
	}
	return nil
}

// unnamedRefund stands for "a part was refunded" in a body that has neither
// id nor total. Where every event is looked up the answer knows more, and it
// is enough that it names one refund; elsewhere the event waits for a person,
// since its repetition could not be told from a second refund.
func (p *Provider) unnamedRefund() payment.Fact {
	least := payment.Of(math.MaxInt64)
	if p.api != nil && p.src.Lookup == provider.LookupAlways {
		least = payment.Of(1)
	}
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: least, ByID: true}
}

// refund reads one refund by its id and amount.
func (p *Provider) refund(c *payment.Claim, state payment.RefundState, body jsontext.Value) error {
	s := &p.shape
	id, err := name(body, s.refundID)
	if err != nil {
		return err
	}
	if id == "" {
		return fmt.Errorf("%s, by which the refund is known, is missing", s.refundID)
	}
	amount, err := s.sums.read(body, s.refundAmount, c.Currency)
	if err != nil {
		return err
	}
	if !amount.Known || amount.Value == 0 {
		return fmt.Errorf("%w: %s is missing or zero", errAmount, s.refundAmount)
	}
	c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefund, ID: id, Amount: amount, Refund: state})
	return nil
}

// dispute reads a dispute by its id, or, where the sender gives none, as a
// status of the payment. Without an amount it is about all that is left.
func (p *Provider) dispute(c *payment.Claim, state payment.DisputeState, unnamed payment.Status, body jsontext.Value) error {
	s := &p.shape
	id, err := name(body, s.disputeID)
	if err != nil {
		return err
	}
	amount, err := s.sums.read(body, s.disputeAmount, c.Currency)
	if err != nil {
		return err
	}
	if amount.Value == 0 {
		amount = payment.Minor{}
	}
	if id == "" {
		f := payment.Fact{Kind: payment.FactStatus, Status: unnamed}
		if unnamed != payment.StatusPaid {
			f.Amount = amount
		}
		c.Facts = append(c.Facts, f)
		return nil
	}
	c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactDispute, ID: id, Amount: amount, Dispute: state})
	return nil
}
