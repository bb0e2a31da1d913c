package pagbank

import (
	"regexp"
	"strings"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// kind is what a body of format A is, by the first letters of its id.
type kind string

const (
	kindOrder      kind = "order"
	kindCharge     kind = "charge"
	kindCheckout   kind = "checkout"
	kindChargeback kind = "chargeback"
	kindUnknown    kind = ""
)

// body is the JSON of format A: an order, or one of its charges by itself.
type body struct {
	charge
	Charges []charge `json:"charges"`
}

// maxCharges bounds an order: each charge is a payment to lock.
const maxCharges = 50

func decode(raw []byte) (b body, err error) {
	err = provider.Decode(raw, &b)
	return b, err
}

func (b *body) kind() kind {
	for prefix, k := range map[string]kind{"ORDE_": kindOrder, "CHAR_": kindCharge, "CHEC_": kindCheckout, "CBKS_": kindChargeback} {
		if strings.HasPrefix(string(b.ID), prefix) {
			return k
		}
	}
	return kindUnknown
}

// payments are the charges that a body tells of, those of an order with its
// reference where they have none.
func (b *body) payments() []charge {
	switch b.kind() {
	case kindCharge:
		return []charge{b.charge}
	case kindOrder:
		for i := range b.Charges {
			if b.Charges[i].Reference == "" {
				b.Charges[i].Reference = b.Reference
			}
		}
		return b.Charges
	}
	return nil
}

const (
	reasonRecurring  = "not_supported: X-Payload-Signature is that of the recurring payments, whose algorithm and key are not published; look at the payment in PagBank's panel"
	reasonChargeback = "not_supported: a chargeback (CBKS_) whose fields are not published; look at it in PagBank's panel. The dispute comes as a notification code too"
)

// Parse gives the one message of a request.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	if n, ok := readNotification(r.Body); ok {
		return []provider.Message{n.message(r.Body)}
	}
	if recurring(r.Header[TokenHeader], r.Header[RecurringHeader]) {
		return provider.Quarantined(r.Body, "recurring", reasonRecurring)
	}
	b, err := decode(r.Body)
	switch {
	case err != nil:
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	case b.ID == "":
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": id is missing")
	case !b.ID.Clean():
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": id is not a clean identifier")
	}
	m := provider.Message{Type: string(b.kind()), Body: r.Body, Disposition: provider.Process}
	switch b.kind() {
	case kindCharge, kindOrder:
		return p.parseCharges(m, &b)
	case kindCheckout: // the payments of a checkout have bodies of their own
		m.Type, m.Disposition, m.Reason = typed(kindCheckout, b.Status), provider.Ignore, provider.ReasonInformational
	case kindChargeback:
		return provider.Quarantined(r.Body, m.Type, reasonChargeback)
	default:
		m.Disposition, m.Reason = provider.Ignore, provider.ReasonUnknownType
	}
	m.DedupeKey = event.BodyKey(r.Body)
	return []provider.Message{m}
}

// parseCharges completes the message of a body that tells of charges. One
// without any is an order before its payment: there is something to ask only
// where somebody may be asked.
func (p *Provider) parseCharges(m provider.Message, b *body) []provider.Message {
	all := b.payments()
	if len(all) > maxCharges {
		return provider.Quarantined(m.Body, m.Type, provider.ReasonUnreadable+": more than 50 charges")
	}
	if len(all) == 0 {
		m.DedupeKey = event.BodyKey(m.Body)
		if p.src.APIKey == "" || p.src.Lookup == provider.LookupNever {
			m.Disposition, m.Reason = provider.Ignore, provider.ReasonInformational
		}
		return []provider.Message{m}
	}
	for i := range all {
		if all[i].ID == "" || !all[i].ID.Clean() {
			return provider.Quarantined(m.Body, m.Type, provider.ReasonUnreadable+": the id of a charge is missing or not a clean identifier")
		}
	}
	main := mainCharge(all)
	m.Type, m.PaymentRef = typed(b.kind(), main.Status), string(main.ID)
	if len(all) == 1 && main.Status == "PAID" { // elsewhere it would be the time of other charges too
		m.OccurredAt = instant(main.PaidAt)
	}
	m.DedupeKey = stateKey(all)
	return []provider.Message{m}
}

// mainCharge is the one that a message is filed under: the paid one of an
// order's attempts, else the last.
func mainCharge(all []charge) *charge {
	for i := range all {
		if all[i].Status == "PAID" {
			return &all[i]
		}
	}
	return &all[len(all)-1]
}

// stateKey is the key of format A: all that Facts reads. PagBank gives no
// event id, and suggests the hash of the body, or charge, status and amounts.
// The first would take an order's body and its charge's for two events; the
// second would lose a charge that is paid again after a cancellation. Two
// bodies with this key differ in nothing that could move money; those times
// are part of it is what tells the second payment from the first.
func stateKey(all []charge) string {
	parts := make([]string, 0, 10*len(all))
	for i := range all {
		c := &all[i]
		parts = append(parts, string(c.ID), string(c.Status), string(c.Reference), string(c.PaidAt), string(c.Amount.Currency),
			string(c.Amount.Value), string(c.Amount.Summary.Paid), string(c.Amount.Summary.Refunded))
	}
	return event.Key("state", parts...)
}

var plainWord = regexp.MustCompile(`^[A-Z_]{1,40}$`)

// typed is the type of a message: PagBank has none, so what it is about and
// the status stand for it, "charge.PAID".
func typed(k kind, status provider.Text) string {
	if !plainWord.MatchString(string(status)) {
		return string(k)
	}
	return string(k) + "." + string(status)
}
