package gatewaysim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (g standardWebhooks) body(p *pay, st *step, h *happening, _ int) []byte {
	if p.acct.name == swMapped {
		return swMappedBody(p, st, h, h.id).bytes()
	}
	return swGenericBody(h, st, h.id, swData(p, st, h, true)).bytes()
}

func swGenericBody(h *happening, st *step, id string, data any) object {
	return object{{"type", h.typ}, {"timestamp", st.at.Format(time.RFC3339)}, {"id", id}, {"data", data}}
}

// swData is the payload of the profile "generic".
func swData(p *pay, st *step, h *happening, live bool) object {
	d := object{{"payment_id", p.id}, {"reference", p.reference}, {"currency", p.currency}, {"livemode", live}}
	switch {
	case h.refund >= 0:
		r := st.refunds[h.refund]
		return d.with("refund_id", r.id).with("amount", r.amount).with("amount_refunded", st.refundShown)
	case strings.HasPrefix(h.typ, "payment.chargeback."):
		return d.with("dispute_id", st.dispute.id).with("amount", st.dispute.amount)
	case h.typ == "payment.paid":
		d = d.with("status", "paid").with("amount", st.captured)
		switch p.oddities % 4 { // fee and net are optional
		case 0:
			return d.with("fee", st.fee)
		case 1:
			return d.with("net", st.captured-st.fee)
		case 2:
			return d.with("fee", st.fee).with("net", st.captured-st.fee).with("sequence", st.at.Unix()-p.steps[0].at.Unix())
		}
		return d
	}
	return d.with("amount", p.amount)
}

// swMappedTypes are the words of the mapped shape. The attempts that came to
// nothing share one type, and are told apart by the state.
var swMappedTypes = map[string]string{
	"payment.created": "charge.created", "payment.pending": "charge.shown", "payment.authorized": "charge.reserved", "payment.paid": "charge.settled",
	"payment.partially_refunded": "charge.given-back", "payment.refunded": "charge.given-back", "payment.refund_failed": "charge.give-back-bounced",
	"payment.failed": "charge.changed", "payment.canceled": "charge.changed", "payment.expired": "charge.changed",
	"payment.chargeback.opened": "complaint.opened", "payment.chargeback.won": "complaint.rejected", "payment.chargeback.lost": "complaint.granted",
	"invoice.paid": "invoice.settled",
}

// swMapping describes the mapped shape in umavez's settings.
var swMapping = map[string]string{
	"TYPE_PATH": "event.name", "TIMESTAMP_PATH": "event.at", "TIME_FORMAT": "unix", "TEST_PATH": "event.rehearsal",
	"EVENTS": "charge.created=pending,charge.shown=pending,charge.reserved=authorized,charge.settled=paid,charge.given-back=refund," +
		"charge.give-back-bounced=refund_failed,charge.changed=by_status,complaint.opened=disputed,complaint.rejected=dispute_won," +
		"complaint.granted=charged_back,invoice.*=none",
	"PAYMENT_ID_PATH": "complaint.*=complaint.charge,*=charge.code",
	"STATUS_PATH":     "charge.state", "STATUS_MAP": "REFUSED=failed,REVOKED=canceled,OVERDUE=expired",
	"AMOUNT_PATH": "charge.gross", "NET_PATH": "charge.left", "AMOUNT_UNIT": "decimal", "CURRENCY_PATH": "money", "REFERENCE_PATH": "charge.order",
	"REFUND_ID_PATH": "give_back.code", "REFUND_AMOUNT_PATH": "give_back.value", "REFUND_TOTAL_PATH": "give_back.sum",
	"DISPUTE_ID_PATH": "complaint.code", "DISPUTE_AMOUNT_PATH": "complaint.value",
	"DEDUPE": "fields", "DEDUPE_FIELDS": "id,event.name",

	"API_AUTH": "X-Api-Key: {key}", "LOOKUP_URL": "/charges?code={id}", "LOOKUP_ID_PATH": "charges.0.code", "LOOKUP_STATUS_PATH": "charges.0.state",
	"LOOKUP_STATUS_MAP": "OPEN=pending,RESERVED=authorized,SETTLED=paid,PART_GIVEN_BACK=partially_refunded,GIVEN_BACK=refunded," +
		"REFUSED=failed,REVOKED=canceled,OVERDUE=expired,COMPLAINT=disputed,COMPLAINT_GRANTED=charged_back",
	"LOOKUP_AMOUNT_PATH": "charges.0.gross", "LOOKUP_NET_PATH": "charges.0.left", "LOOKUP_CURRENCY_PATH": "charges.0.money", "LOOKUP_REFERENCE_PATH": "charges.0.order",
	"LOOKUP_REFUNDS_URL": "/charges/{id}/give-backs", "LOOKUP_REFUNDS_PATH": ".", "LOOKUP_REFUND_ID_PATH": "code", "LOOKUP_REFUND_AMOUNT_PATH": "value",
	"LOOKUP_REFUND_STATUS_PATH": "state", "LOOKUP_REFUND_STATUS_MAP": "succeeded=succeeded,failed=failed",
	"LOOKUP_DISPUTES_PATH": "charges.0.complaints", "LOOKUP_DISPUTE_ID_PATH": "code", "LOOKUP_DISPUTE_AMOUNT_PATH": "value",
	"LOOKUP_DISPUTE_STATUS_PATH": "state", "LOOKUP_DISPUTE_STATUS_MAP": "open=open,won=won,lost=lost",
}

func swMappedBody(p *pay, st *step, h *happening, id string) object {
	o := object{{"id", id}, {"event", object{{"name", swMappedTypes[h.typ]}, {"at", st.at.Unix()}}}, {"money", p.currency}}
	if strings.HasPrefix(h.typ, "payment.chargeback.") {
		return o.with("complaint", object{{"code", st.dispute.id}, {"charge", p.id}, {"value", swDecimal(p, st.dispute.amount, p.oddities)}})
	}
	gross := p.amount
	if st.captured > 0 {
		gross = st.captured
	}
	charge := object{{"code", p.id}, {"state", swState(st)}, {"gross", swDecimal(p, gross, p.oddities)}, {"order", p.reference}}
	if st.feeKnown && p.oddities%3 > 0 {
		charge = charge.with("left", swDecimal(p, st.captured-st.fee, p.oddities>>1))
	}
	o = o.with("charge", charge)
	if h.refund >= 0 {
		r := st.refunds[h.refund]
		o = o.with("give_back", object{{"code", r.id}, {"value", swDecimal(p, r.amount, p.oddities>>2)}, {"sum", swDecimal(p, st.refundShown, p.oddities>>3)}})
	}
	return o
}

// swState is the mapped shape's word for a state.
func swState(st *step) string { return swStates[string(st.status)] }

var swStates = map[string]string{
	"pending": "OPEN", "authorized": "RESERVED", "paid": "SETTLED", "partially_refunded": "PART_GIVEN_BACK", "refunded": "GIVEN_BACK",
	"failed": "REFUSED", "canceled": "REVOKED", "expired": "OVERDUE", "disputed": "COMPLAINT", "charged_back": "COMPLAINT_GRANTED",
}

// swDecimal spells an amount in major units: as a number with as many digits
// as it needs, or as a text with all of them.
func swDecimal(p *pay, minor int64, oddity uint64) any {
	if p.currency == "JPY" {
		return raw(strconv.FormatInt(minor, 10))
	}
	text := fmt.Sprintf("%d.%02d", minor/100, minor%100)
	if oddity%2 == 0 {
		return text
	}
	return raw(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}

// test gives rehearsals, and messages without content.
func (g standardWebhooks) test(p *pay, st *step, h *happening, variant uint64) ([]byte, http.Header) {
	id := "msg_" + randomText(newRand(variant, streamRequest), 24, base62)
	if p.acct.name == swMapped {
		o := swMappedBody(p, st, h, id)
		o[1].value = object{{"name", "charge.settled"}, {"at", st.at.Unix()}, {"rehearsal", variant%2 == 0}}
		if variant%2 == 1 {
			o[3] = field{"charge", nil}
		}
		return o.bytes(), nil
	}
	switch variant % 4 {
	case 0:
		return swGenericBody(h, st, id, nil).bytes(), nil
	case 1:
		return swGenericBody(h, st, id, object{}).bytes(), nil
	}
	return swGenericBody(h, st, id, swData(p, st, h, false)).bytes(), nil
}

func (g standardWebhooks) malformed(p *pay, body []byte, variant uint64) []byte {
	id := "msg_" + randomText(newRand(variant, streamRequest), 24, base62)
	head, name := `{"id":"`+id+`","type":"payment.paid","data":`, "payment_id"
	if p.acct.name == swMapped {
		head, name = `{"id":"`+id+`","event":{"name":"charge.settled","at":1767225600},"charge":`, "code"
	}
	switch variant % 5 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2: // no payment
		return []byte(head + `{"amount":100,"currency":"BRL"}}`)
	case 3: // an id of an odd kind
		return []byte(head + `{"` + name + `":{"a":1},"amount":100}}`)
	}
	return []byte("not json at all " + id)
}
