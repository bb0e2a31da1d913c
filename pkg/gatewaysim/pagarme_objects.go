package gatewaysim

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

func pagarmeOrderID(p *pay) string { return "or_" + strings.TrimPrefix(p.id, "ch_") }

func pagarmeAboutOrder(typ string) bool { return strings.HasPrefix(typ, "order.") }

func pagarmeTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// charge is the charge of webhooks and of the API. told is false inside of an
// order, which the charge then does not repeat.
func (g pagarme) charge(p *pay, st *state, told bool) object {
	o := object{
		{"id", p.id}, {"code", p.reference}, {"gateway_id", "G" + strconv.FormatUint(p.oddities%1_000_000, 36)},
		{"amount", p.amount},
	}
	if st.captured > 0 && !g.refundedBriefly(p, st) {
		o = o.with("paid_amount", st.captured)
	}
	if canceled := g.canceled(p, st); canceled > 0 {
		o = o.with("canceled_amount", canceled)
	}
	o = append(o, object{
		{"status", st.word}, {"currency", p.currency}, {"payment_method", p.method},
		{"created_at", pagarmeTime(p.made())}, {"updated_at", pagarmeTime(st.at)},
		{"metadata", object{{"order_id", p.reference}}},
		{"customer", object{{"id", "cus_" + p.id[3:]}, {"name", "José – ação"}, {"document", "00000000000"}}},
	}...)
	if !st.receivedAt.IsZero() && !g.refundedBriefly(p, st) {
		o = o.with("paid_at", pagarmeTime(st.receivedAt))
	}
	if !st.canceledAt.IsZero() {
		o = o.with("canceled_at", pagarmeTime(st.canceledAt))
	}
	if told {
		o = o.with("order", object{
			{"id", pagarmeOrderID(p)}, {"code", p.reference}, {"amount", p.amount}, {"currency", p.currency}, {"status", g.orderStatus(st)}, {"closed", true},
		})
	}
	if st.chargeWord != "" {
		o = o.with("last_transaction", object{
			{"id", "tran_" + p.id[3:]}, {"transaction_type", p.method}, {"status", st.chargeWord},
			{"success", !st.failed}, {"amount", p.amount}, {"acquirer_return_code", nil},
		})
	}
	return o
}

// refundedBriefly says whether a charge that was refunded whole is shown as in
// a public sample: without paid_amount and paid_at.
func (pagarme) refundedBriefly(p *pay, st *state) bool {
	return st.word == "canceled" && st.captured == p.amount && p.oddities%3 == 0
}

// canceled is canceled_amount, cumulative: what was refunded, or all of a
// charge that was canceled before it was paid.
func (pagarme) canceled(p *pay, st *state) int64 {
	if st.captured == 0 && st.word == "canceled" {
		return p.amount
	}
	return st.refunded()
}

// orderStatus: a chargeback leaves the order as it was.
func (pagarme) orderStatus(st *state) string {
	switch st.word {
	case "processing":
		return "pending"
	case "overpaid", "underpaid", "chargedback":
		return "paid"
	}
	return st.word
}

func (g pagarme) order(p *pay, st *state) object {
	return object{
		{"id", pagarmeOrderID(p)}, {"code", p.reference}, {"amount", p.amount}, {"currency", p.currency}, {"closed", true},
		{"status", g.orderStatus(st)}, {"items", []object{{{"id", "oi_1"}, {"amount", p.amount}, {"quantity", 1}}}},
		{"metadata", object{{"order_id", p.reference}}}, {"charges", []object{g.charge(p, st, false)}},
	}
}

// payables are one an instalment, and one more when the first was paid out
// early. Their fees add up to the charge's.
func (pagarme) payables(p *pay, st *state) []object {
	if !st.feeKnown {
		return []object{}
	}
	n := int64(1)
	if p.method == "credit_card" {
		n = 1 + int64(p.oddities>>8%4)
	}
	early := int64(0)
	if p.oddities>>16%3 == 0 {
		early = st.fee / 3
	}
	all := []object{}
	amount, fee := st.captured, st.fee-early
	for i := int64(1); i <= n; i++ {
		a, f := amount/(n-i+1), fee/(n-i+1)
		amount, fee = amount-a, fee-f
		antifraud, advanced := f/4, int64(0)
		if i == 1 {
			advanced = early
		}
		all = append(all, object{
			{"id", 7_000_000_000 + int64(p.index)*100 + i}, {"status", "waiting_funds"}, {"amount", a}, {"fee", f - antifraud}, {"anticipation_fee", advanced},
			{"fraud_coverage_fee", antifraud}, {"installment", i}, {"charge_id", p.id}, {"type", "credit"}, {"payment_date", pagarmeTime(st.at)},
		})
	}
	if back := st.refunded(); back > 0 {
		all = append(all, object{{"id", 7_000_000_000 + int64(p.index)*100}, {"amount", -back}, {"fee", -1}, {"installment", 1}, {"charge_id", p.id}, {"type", "refund"}})
	}
	return all
}

// postback is a form of the API v1 to v4. Its brackets are percent-encoded,
// its spaces are pluses in some values and %20 in others.
func (g pagarme) postback(p *pay, st *step, h *happening) []byte {
	state := &st.state
	var b strings.Builder
	add := func(name, value string) {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(name) + "=" + value)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	add("id", p.id)
	add("fingerprint", strings.Repeat("0", 24)+strconv.FormatUint(p.oddities|1<<63, 16))
	add("event", h.typ)
	add("old_status", h.was)
	add("desired_status", "paid")
	add("current_status", state.word)
	add("object", "transaction")
	inner := func(name, value string) { add("transaction["+name+"]", value) }
	inner("object", "transaction")
	inner("status", state.word)
	inner("id", p.id)
	inner("date_created", url.QueryEscape(p.made().UTC().Format("2006-01-02T15:04:05.000Z")))
	inner("date_updated", url.QueryEscape(state.at.UTC().Format("2006-01-02T15:04:05.000Z")))
	inner("amount", number(p.amount))
	inner("authorized_amount", number(p.amount))
	inner("paid_amount", number(state.captured))
	inner("refunded_amount", number(g.canceled(p, state)))
	inner("cost", "50")
	inner("payment_method", p.method)
	inner("soft_descriptor", "Loja+S%C3%A3o%20Jo%C3%A3o")
	inner("metadata][order_id", url.QueryEscape(p.reference))
	return []byte(b.String())
}
