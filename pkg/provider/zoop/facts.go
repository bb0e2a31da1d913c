package zoop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Facts implements provider.Provider. What a body claims moves money only
// where the operator has switched that on; otherwise it is held against the
// lookup, and an answer that is behind it is asked for again.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	var env envelope
	if err := provider.Decode(e.Body, &env); err != nil {
		return nil, err
	}
	typ := string(env.Type)
	if isOther(typ) || !strings.HasPrefix(typ, transactions) {
		return nil, nil
	}
	ref, err := reference(env.Payload.Object)
	if err != nil {
		return nil, err
	}
	claim, err := p.told(typ, env.Payload.Object, instant(env.CreatedAt))
	switch {
	case err != nil && (p.believeBody || errors.Is(err, errUnit)):
		return nil, fmt.Errorf("payload.object: %w", err)
	case err != nil:
		// Nothing but the id is needed of a body that is a hint: of what it
		// lacks or says in another shape, the API is asked all the same.
		claim = payment.Claim{GatewayID: ref}
	}
	claim.At, claim.Reason = instant(env.CreatedAt), typ
	if !p.believeBody && late(e, p.src.LookupLag) {
		claim.Facts = slices.DeleteFunc(claim.Facts, passing)
	}
	return []payment.Claim{claim}, nil
}

// told reads the object of an event.
func (p *Provider) told(typ string, object jsontext.Value, at time.Time) (payment.Claim, error) {
	var t transaction
	if err := provider.Decode(object, &t); err != nil {
		return payment.Claim{}, err
	}
	r := rules[typ] // an unknown type: stageAsk
	if r.stage == stageByObject {
		r = byObject(statuses[t.Status])
	}
	return p.claim(&t, r, at)
}

// byObject is what transaction.canceled means for an object of that status;
// where the status is none that a cancellation leaves, the lookup decides.
func byObject(r rule) rule {
	switch r.stage {
	case stagePaid, stagePart, stageReturned, stageCanceled:
		return r
	}
	return rule{stage: stageAsk}
}

// late says whether an event was older than the API may be behind when it
// came. The lookup that follows is ahead of it then.
func late(e *event.Event, lag time.Duration) bool {
	at := e.OccurredAt
	return !at.IsZero() && !e.ReceivedAt.IsZero() && at.Before(e.ReceivedAt.Add(-lag-payment.Resolution))
}

// passing facts may not be true any more when they are read late: a dispute
// was won since, a failed attempt repeated. Held against the present, they
// would ask the gateway again and again for what is past.
func passing(f payment.Fact) bool {
	switch f.Kind {
	case payment.FactStatus:
		return f.Otherwise != "" || f.Status != payment.StatusPaid && f.Status != payment.StatusRefunded && f.Status != payment.StatusChargedBack
	case payment.FactUndo:
		return true
	}
	return false
}

// claim reads a transaction in the terms of one rule. at is when it was so.
func (p *Provider) claim(t *transaction, r rule, at time.Time) (payment.Claim, error) {
	a, err := t.amounts()
	if err != nil {
		return payment.Claim{}, err
	}
	c := payment.Claim{GatewayID: string(t.ID), Currency: string(t.Currency), Expected: a.original, Reference: p.reference(t)}
	if !c.Expected.Known {
		c.Expected = a.left
	}
	c.Beneficiary = p.src.Owner(c.Reference)
	if p.settings.ownerSeller {
		c.Beneficiary = text(t.Seller)
	}
	switch r.stage {
	case stageAttempt:
		c.Facts = status(r.status)
	case stagePaid, stagePart, stageDisputed:
		err = p.standing(&c, t, a, r)
	case stageReturned:
		err = p.returned(&c, t, a)
	case stageCanceled:
		paid, known := t.wasPaid(a)
		switch {
		case paid:
			err = p.returned(&c, t, a)
		case !p.believeBody: // our record may know of a payment that the object does not show
			c.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusRefunded, Otherwise: payment.StatusCanceled}}
		case known || a.refunded() == 0:
			c.Facts = status(payment.StatusCanceled)
		default:
			err = errors.New("history is missing, and without it a canceled boleto or Pix may have been paid before or not")
		}
	case stageReversed:
		err = p.reversed(&c, t, a, at)
	}
	if err != nil {
		return payment.Claim{}, err
	}
	return c, nil
}

func status(s payment.Status) []payment.Fact {
	return []payment.Fact{{Kind: payment.FactStatus, Status: s}}
}

// standing reads a sale whose money came in and has not all gone back. "paid"
// is said only of one that is not disputed: after "disputed" it means that the
// dispute was won.
func (p *Provider) standing(c *payment.Claim, t *transaction, a amounts, r rule) error {
	if err := t.standing(a); err != nil {
		return err
	}
	c.Captured = a.original
	c.Facts = status(payment.StatusPaid)
	if r.stage == stageDisputed {
		c.Facts = status(r.status)
	}
	switch {
	case a.refunded() > 0:
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(a.refunded())})
	case r.stage == stagePart:
		return errors.New("the status says that a part was refunded, and amount is not below original_amount")
	}
	addFee(c, a)
	return nil
}

// returned reads a sale of which all that was left has gone back.
func (p *Provider) returned(c *payment.Claim, t *transaction, a amounts) error {
	if err := t.captured(a); err != nil {
		return err
	}
	c.Captured = a.original
	c.Facts = status(payment.StatusRefunded)
	addFee(c, a)
	return nil
}

// reversed reads a transaction that was undone between Zoop and the acquirer:
// canceled and, unless the object shows that it never was paid, a credit
// taken back. Where it was not paid after all, both halves add up to nothing.
func (p *Provider) reversed(c *payment.Claim, t *transaction, a amounts, at time.Time) error {
	c.Facts = status(payment.StatusCanceled)
	if paid, known := t.everPaid(); known && !paid || !known && string(t.Captured) == "false" || !a.original.Known {
		return nil
	}
	if err := t.captured(a); err != nil {
		return err
	}
	c.Captured = a.original
	canceled, undo := &c.Facts[0], payment.Fact{Kind: payment.FactUndo, ID: "reversed:" + c.GatewayID, At: at}
	if !at.IsZero() { // a payment falls back to what is later than its undoing
		canceled.At = at.Add(time.Microsecond)
	}
	c.Facts = append(c.Facts, undo)
	return nil
}

// addFee adds what Zoop kept. A fee of zero is no fee yet, or none any more;
// neither is worth remembering.
func addFee(c *payment.Claim, a amounts) {
	if a.fee.Value > 0 {
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactFee, ID: c.GatewayID, Amount: a.fee})
	}
}

// reference is the application's order id.
func (p *Provider) reference(t *transaction) string {
	if p.settings.metadata != "" {
		return member(t.Metadata, p.settings.metadata)
	}
	if ref := text(t.ReferenceID); ref != "" {
		return ref
	}
	return member(t.Metadata, "reference_id")
}
