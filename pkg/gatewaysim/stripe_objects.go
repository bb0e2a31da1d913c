package gatewaysim

import (
	"strings"
	"time"
)

// expansion is the set of paths that a request expands, relative to the
// object at hand. Webhook bodies are never expanded.
type expansion map[string]bool

func (e expansion) has(path string) bool {
	for p := range e {
		if p == path || strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (e expansion) below(path string) expansion {
	sub := expansion{}
	for p := range e {
		if rest, ok := strings.CutPrefix(p, path+"."); ok {
			sub[rest] = true
		}
	}
	return sub
}

func unix(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Unix()
}

func (p *pay) lowerCurrency() string { return strings.ToLower(p.currency) }

func (g stripe) metadata(p *pay) object { return object{{"order_id", p.reference}} }

// intent is the PaymentIntent.
func (g stripe) intent(p *pay, st *state, expand expansion) object {
	manual := p.kind == KindCaptured || p.kind == KindAuthorized || p.kind == KindExpired || p.kind == KindCanceled
	method, capturable := "automatic_async", int64(0)
	if manual {
		method = "manual"
	}
	if st.word == "requires_capture" {
		capturable = p.amount
	}
	var charge, lastError any
	if st.charge != "" {
		charge = st.charge
		if expand.has("latest_charge") {
			charge = g.charge(p, st, expand.below("latest_charge"))
		}
	}
	if st.failed {
		lastError = object{{"type", "card_error"}, {"code", "card_declined"}, {"decline_code", "insufficient_funds"}, {"charge", st.charge}}
	}
	return object{
		{"id", p.id}, {"object", "payment_intent"}, {"amount", p.amount}, {"amount_capturable", capturable},
		{"amount_received", st.captured}, {"cancellation_reason", orNull(st.cancelReason)}, {"canceled_at", unix(st.canceledAt)},
		{"capture_method", method}, {"created", p.made().Unix()}, {"currency", p.lowerCurrency()}, {"customer", nil},
		{"description", "Pedido – São João \u2028 nº " + p.reference}, {"latest_charge", charge}, {"last_payment_error", lastError},
		{"livemode", true}, {"metadata", g.metadata(p)}, {"payment_method_types", []string{p.method}}, {"status", st.word},
	}
}

// made is when the payment was made; bodies are built after the history.
func (p *pay) made() time.Time { return p.steps[0].at }

func (g stripe) charge(p *pay, st *state, expand expansion) object {
	paid := st.chargeWord == "succeeded"
	var txn any
	if st.feeKnown {
		txn = st.feeTxn
		if expand.has("balance_transaction") {
			txn = g.chargeTxn(p, st)
		}
	}
	o := object{
		{"id", st.charge}, {"object", "charge"}, {"amount", p.amount}, {"amount_captured", st.captured},
		{"amount_refunded", st.refundShown}, {"balance_transaction", txn}, {"captured", st.captured > 0},
		{"created", st.chargeAt.Unix()}, {"currency", p.lowerCurrency()}, {"disputed", st.dispute != nil},
		{"livemode", true}, {"metadata", g.metadata(p)}, {"paid", paid}, {"payment_intent", p.id},
		{"refunded", st.captured > 0 && st.refundShown == st.captured}, {"status", st.chargeWord},
	}
	if expand.has("refunds") {
		o = o.with("refunds", stripeList("/v1/charges/"+st.charge+"/refunds", g.refunds(p, st), 10, ""))
	}
	return o
}

// refunds are all refunds, the newest first.
func (g stripe) refunds(p *pay, st *state) []object {
	list := []object{}
	for i := len(st.refunds) - 1; i >= 0; i-- {
		list = append(list, g.refund(p, st, &st.refunds[i]))
	}
	return list
}

func (g stripe) refund(p *pay, st *state, r *refund) object {
	var failedTxn, why any
	if r.word == "failed" {
		failedTxn, why = r.txn+"f", "expired_or_canceled_card"
	}
	return object{
		{"id", r.id}, {"object", "refund"}, {"amount", r.amount}, {"balance_transaction", r.txn}, {"charge", st.charge},
		{"created", r.at.Unix()}, {"currency", p.lowerCurrency()}, {"failure_balance_transaction", failedTxn}, {"failure_reason", why},
		{"metadata", object{}}, {"payment_intent", p.id}, {"reason", "requested_by_customer"}, {"status", r.word},
	}
}

func (g stripe) dispute(p *pay, st *state) object {
	d := st.dispute
	txns := []object{}
	if d.out != "" {
		txns = append(txns, g.txn(p, d.out, -d.amount, d.fee, "adjustment", "dispute", d.at))
	}
	if d.back != "" {
		txns = append(txns, g.txn(p, d.back, d.amount, 0, "adjustment", "dispute_reversal", d.backAt))
	}
	return object{
		{"id", d.id}, {"object", "dispute"}, {"amount", d.amount}, {"balance_transactions", txns}, {"charge", st.charge},
		{"created", d.at.Unix()}, {"currency", p.lowerCurrency()}, {"is_charge_refundable", !d.formal}, {"livemode", true},
		{"metadata", object{}}, {"payment_intent", p.id}, {"reason", d.reason}, {"status", d.word},
	}
}

func (g stripe) chargeTxn(p *pay, st *state) object {
	return g.txn(p, st.feeTxn, st.captured, st.fee, "charge", "charge", st.chargeAt)
}

func (g stripe) txn(p *pay, id string, amount, fee int64, typ, category string, at time.Time) object {
	details := []object{}
	if fee > 0 {
		details = append(details, object{{"amount", fee}, {"currency", p.lowerCurrency()}, {"type", "stripe_fee"}})
	}
	return object{
		{"id", id}, {"object", "balance_transaction"}, {"amount", amount}, {"created", at.Unix()}, {"currency", p.lowerCurrency()},
		{"exchange_rate", nil}, {"fee", fee}, {"fee_details", details}, {"net", amount - fee},
		{"reporting_category", category}, {"status", "available"}, {"type", typ},
	}
}
