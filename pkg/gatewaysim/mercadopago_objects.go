package gatewaysim

import (
	"strconv"
	"strings"
	"time"
)

const base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func (g mercadopago) body(p *pay, st *step, h *happening, _ int) []byte {
	topic, _, _ := strings.Cut(h.typ, ".")
	o := object{}
	if !g.nameless(p, h) {
		o = o.with("id", raw(h.id))
	}
	seller := any(raw("444555666"))
	if topic == "order" || p.oddities>>1&1 == 1 {
		seller = "444555666"
	}
	o = append(o, field{"live_mode", true}, field{"type", topic}, field{"date_created", st.at.Format(time.RFC3339)}, field{"user_id", seller}, field{"api_version", "v1"})
	if topic == "topic_chargebacks_wh" {
		return append(o, field{"actions", []string{"changed_case_status"}}, field{"version", st.at.Unix()}, field{"data", g.caseData(p, st)}).bytes()
	}
	action := h.typ
	if !strings.Contains(action, ".") {
		action = "created"
	}
	return append(o, field{"action", action}, field{"data", g.data(p, st, topic)}).bytes()
}

// data is what a notification says beside its topic: an id, and of orders
// their state. The twins that the other API sends have ids of their own.
func (g mercadopago) data(p *pay, st *step, topic string) object {
	switch {
	case topic == "stop_delivery_op_wh":
		return object{{"description", "fraud risk"}, {"merchant_order", 5200000001}, {"payment_id", raw(p.number())}, {"site_id", "MLB"}}
	case topic == "order" && p.isOrder():
		return g.orderData(p, &st.state).with("version", p.version(st))
	case topic == "order":
		return object{{"id", "ORD01" + strings.ToUpper(p.reference[:4]) + p.id}, {"status", "processed"}, {"status_detail", "accredited"}, {"version", p.version(st)}}
	case topic == "payment" && p.isOrder():
		return object{{"id", p.number()}}
	case topic == "payment":
		return object{{"id", p.id}}
	}
	return object{{"id", "5" + p.number()[:9]}}
}

// number is a payment's number; an order has one beside it.
func (p *pay) number() string {
	if p.isOrder() {
		return strconv.FormatUint(10_000_000_000+p.oddities%89_999_999_999, 10)
	}
	return p.id
}

func (g mercadopago) caseData(p *pay, st *step) object {
	o := object{{"checkout", "PRO"}, {"date_updated", "0001-01-01T00:00:00Z"}, {"id", raw(st.dispute.id)}}
	if p.oddities>>2&1 == 1 {
		o = o.with("payment_id", raw(p.number()))
	}
	return append(o, field{"product_id", "PRODUCT0001"}, field{"site_id", "MLB"}, field{"transaction_intent_id", ""})
}

func mercadopagoWord(st *state) (status, detail string) {
	status, detail, _ = strings.Cut(st.word, "/")
	return status, detail
}

// units spells an amount of centavos as the Payments API does: 250, 58.8.
func units(cents int64) raw { return reais(cents, 1) }

// units2 spells it as the Orders API does, as a text.
func units2(cents int64) string { return string(reais(cents, 0)) }

// asked is what was captured, or is to be.
func (p *pay) asked(st *state) int64 {
	if st.captured > 0 {
		return st.captured
	}
	return p.amount
}

// payment is a payment of the Payments API. The list of refunds in it is at
// times left to the address of its own.
func (g mercadopago) payment(p *pay, st *state) object {
	status, detail := mercadopagoWord(st)
	gross := p.asked(st)
	fees, net := []object{}, int64(0)
	if st.feeKnown {
		net = gross - st.fee
		half := st.fee / 2
		fees = append(fees,
			object{{"type", "mercadopago_fee"}, {"amount", units(st.fee - half)}, {"fee_payer", "collector"}},
			object{{"type", "financing_fee"}, {"amount", units(1234)}, {"fee_payer", "payer"}},
			object{{"type", "application_fee"}, {"amount", units(half)}, {"fee_payer", "collector"}})
	}
	refunds := g.refunds(p, st)
	if p.oddities>>3&3 == 0 {
		refunds = []object{}
	}
	return object{
		{"id", raw(p.id)}, {"status", status}, {"status_detail", detail}, {"live_mode", true}, {"currency_id", p.currency},
		{"date_created", p.made().Format(time.RFC3339)}, {"date_last_updated", st.at.Format(time.RFC3339)}, {"date_of_expiration", nil},
		{"transaction_amount", units(gross)}, {"transaction_amount_refunded", units(st.refunded())}, {"captured", status != "authorized"},
		{"transaction_details", object{{"net_received_amount", units(net)}, {"total_paid_amount", units(gross)}, {"installment_amount", 0}}},
		{"fee_details", fees}, {"charges_details", []object{}}, {"refunds", refunds},
		{"external_reference", p.reference}, {"collector_id", 444555666}, {"payment_method_id", p.method}, {"description", "Pedido – ação"},
	}
}

func (g mercadopago) refunds(p *pay, st *state) []object {
	list := []object{}
	for _, r := range st.refunds {
		list = append(list, object{
			{"id", raw(r.id)}, {"payment_id", raw(p.number())}, {"amount", units(r.amount)}, {"status", r.word},
			{"date_created", r.at.Format(time.RFC3339)}, {"refund_mode", "standard"},
		})
	}
	return list
}

func (g mercadopago) chargeback(p *pay, st *state) object {
	var covered any
	switch st.dispute.word {
	case "reimbursed":
		covered = true
	case "settled":
		covered = false
	}
	return object{
		{"id", raw(st.dispute.id)}, {"payments", []object{{{"id", raw(p.number())}}}}, {"currency", p.currency}, {"amount", units(st.dispute.amount)},
		{"reason", st.dispute.reason}, {"coverage_applied", covered}, {"coverage_elegible", true}, {"documentation_status", "pending"}, {"live_mode", true},
	}
}

// orderData is what order notifications say of an order.
func (g mercadopago) orderData(p *pay, st *state) object {
	status, detail := mercadopagoWord(st)
	o := object{{"id", p.id}, {"type", "online"}, {"external_reference", p.reference}, {"status", status}, {"status_detail", detail}}
	if st.captured > 0 {
		o = o.with("total_paid_amount", units2(st.captured))
	}
	if status == "action_required" {
		return o // these come without transactions
	}
	payments := []object{{
		{"id", "PAY01" + p.id[5:]}, {"amount", units2(p.asked(st))}, {"status", status}, {"status_detail", detail}, {"reference", object{{"id", p.number()}}},
	}}
	refunds, cases := []object{}, []object{}
	for _, r := range st.refunds {
		refunds = append(refunds, object{{"id", r.id}, {"transaction_id", "PAY01" + p.id[5:]}, {"amount", units2(r.amount)}, {"status", r.word}})
	}
	if d := st.dispute; d != nil && d.formal {
		cases = append(cases, object{{"id", "CHB" + d.id}, {"transaction_id", "PAY01" + p.id[5:]}, {"case_id", d.id}, {"amount", units2(d.amount)}, {"status", d.word}})
	}
	return o.with("transactions", object{{"payments", payments}, {"refunds", refunds}, {"chargebacks", cases}})
}

func (g mercadopago) order(p *pay, st *state) object {
	return append(g.orderData(p, st), field{"country_code", []string{"BR", "BRA"}[p.oddities>>5&1]}, field{"total_amount", units2(p.amount)},
		field{"user_id", "444555666"}, field{"created_date", p.made().Format(time.RFC3339)}, field{"last_updated_date", st.at.Format(time.RFC3339)})
}
