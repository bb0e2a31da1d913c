package mercadopago_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func refundItem(id, amount, status string) string {
	return fmt.Sprintf(`{"id":%s,"payment_id":%s,"amount":%s,"status":%q,"date_created":"2026-01-04T10:00:00.000-04:00"}`, id, payID, amount, status)
}

// pay answers as the Payments API does, at the payment's address with more
// members and at that of its refunds with the list.
func pay(status, detail, more string, list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refunds") {
			fmt.Fprint(w, "["+strings.Join(list, ",")+"]")
			return
		}
		if more != "" {
			more = "," + strings.TrimPrefix(more, ",")
		}
		fmt.Fprintf(w, `{"id":%s,"status":%q,"status_detail":%q,"live_mode":true,"currency_id":"BRL","transaction_amount":250.00,`+
			`"transaction_details":{"net_received_amount":237.52,"total_paid_amount":250},"external_reference":"PED-1001","collector_id":444555666,"captured":true,`+
			`"fee_details":[{"type":"mercadopago_fee","fee_payer":"collector","amount":12.48},{"type":"financing_fee","fee_payer":"payer","amount":30}]%s}`,
			payID, status, detail, more)
	}
}

// ord answers as the Orders API does.
func ord(status, detail, more string) http.HandlerFunc {
	if more != "" {
		more = "," + more
	}
	return answer(fmt.Sprintf(`{"id":%q,"type":"online","status":%q,"status_detail":%q,"country_code":"BR","total_amount":"250.00",`+
		`"total_paid_amount":"250.00","external_reference":"PED-1001","user_id":"444555666"%s}`, ordID, status, detail, more))
}

func is(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }

func refund(id string, cents int64, state payment.RefundState) payment.Fact {
	return payment.Fact{Kind: payment.FactRefund, ID: id, Amount: payment.Of(cents), Refund: state}
}

func disputed(id string, cents int64, state payment.DisputeState) payment.Fact {
	f := payment.Fact{Kind: payment.FactDispute, ID: id, Dispute: state}
	if cents > 0 {
		f.Amount = payment.Of(cents)
	}
	return f
}

func total(cents int64) payment.Fact {
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents), ByID: true}
}

var fee = payment.Fact{Kind: payment.FactFee, ID: payID, Amount: payment.Of(1248)}

func paymentLookups() []providertest.Lookup {
	row := func(status, detail string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: status + " " + detail, Ref: payID, Answer: pay(status, detail, ""), Status: leads, Facts: facts}
	}
	const half, whole = `"transaction_amount_refunded":100`, `"transaction_amount_refunded":250`
	one, two := refundItem("11", "100", "approved"), refundItem("12", "150.00", "approved")
	first, second := refund("11", 10000, payment.RefundSucceeded), refund("12", 15000, payment.RefundSucceeded)
	with := func(r providertest.Lookup, name, more string, list ...string) providertest.Lookup {
		words := strings.Fields(r.Name)
		r.Name, r.Answer = r.Name+", "+name, pay(words[0], words[1], more, list...)
		return r
	}
	in := func(items ...string) string { return `,"refunds":[` + strings.Join(items, ",") + `]` }
	rows := []providertest.Lookup{
		row("approved", "accredited", payment.StatusPaid, paid(), fee),
		row("pending", "pending_waiting_transfer", payment.StatusPending, is(payment.StatusPending)),
		row("pending", "pending_waiting_payment", payment.StatusPending, is(payment.StatusPending)),
		row("pending", "pending_challenge", payment.StatusPending, is(payment.StatusPending)),
		row("in_process", "offline_process", payment.StatusPending, is(payment.StatusPending)),
		row("in_process", "pending_contingency", payment.StatusPending, is(payment.StatusPending)),
		row("in_process", "pending_review_manual", payment.StatusPending, is(payment.StatusPending)),
		row("in_process", "deferred_retry", payment.StatusPending, is(payment.StatusPending)),
		row("authorized", "pending_capture", payment.StatusAuthorized, is(payment.StatusAuthorized)),
		row("rejected", "cc_rejected_high_risk", payment.StatusFailed, is(payment.StatusFailed)),
		row("rejected", "rejected_by_bank", payment.StatusFailed, is(payment.StatusFailed)),
		row("cancelled", "expired", payment.StatusExpired, is(payment.StatusExpired)),
		row("cancelled", "by_collector", payment.StatusCanceled, is(payment.StatusCanceled)),
		row("cancelled", "by_payer", payment.StatusCanceled, is(payment.StatusCanceled)),
		row("in_mediation", "pending", payment.StatusDisputed, disputed(payID, 0, payment.DisputeClaim), fee),
		row("charged_back", "in_process", payment.StatusDisputed, is(payment.StatusDisputed), fee),
		row("charged_back", "settled", payment.StatusChargedBack, is(payment.StatusChargedBack), fee),
		row("charged_back", "reimbursed", payment.StatusPaid, paid(), disputed(payID, 0, payment.DisputeWon), fee),
		row("refunded", "by_admin", payment.StatusRefunded, paid(), is(payment.StatusRefunded), fee),
		with(row("approved", "partially_refunded", payment.StatusPartiallyRefunded, paid(), first, fee), "listed", half+in(one)),
		with(row("approved", "partially_refunded", payment.StatusPartiallyRefunded, paid(), first, fee), "listed at its own address", half, one),
		with(row("approved", "partially_refunded", payment.StatusPartiallyRefunded, paid(), first, fee), "without a sum", "", one),
		with(row("approved", "partially_refunded", "", paid(), total(10000), fee), "not listed yet", half),
		with(row("approved", "partially_refunded", "", paid(), total(math.MaxInt64), fee), "with neither list nor sum", ""),
		with(row("approved", "accredited", payment.StatusPartiallyRefunded, paid(), first, fee), "with a refund of which the detail does not tell", half, one),
		with(row("approved", "accredited", payment.StatusPaid, paid(), refund("11", 10000, payment.RefundPending), fee), "with a refund on its way", in(refundItem("11", "100", "in_process"))),
		with(row("approved", "accredited", payment.StatusPaid, paid(), refund("11", 10000, payment.RefundPending), fee), "with a refund that is authorized", in(refundItem("11", "100", "authorized"))),
		with(row("approved", "accredited", payment.StatusPaid, paid(), refund("11", 10000, payment.RefundFailed), fee), "with a refund that was rejected", in(refundItem("11", "100", "rejected"))),
		with(row("approved", "accredited", payment.StatusPaid, paid(), refund("11", 10000, payment.RefundFailed), fee), "with a refund that was cancelled", in(refundItem("11", "100", "cancelled"))),
		with(row("approved", "accredited", payment.StatusPaid, paid(), fee), "with a refund of a state of tomorrow", in(refundItem("11", "100", "dreamt"))),
		with(row("refunded", "refunded", payment.StatusRefunded, paid(), first, second, fee), "listed", whole+in(one, two)),
		with(row("refunded", "refunded", payment.StatusRefunded, paid(), first, second, fee), "listed at its own address", whole+in(one), one, two),
		with(row("refunded", "refunded", payment.StatusRefunded, paid(), first, is(payment.StatusRefunded), fee), "listed in part", whole+in(one), one),
		with(row("in_mediation", "pending", payment.StatusDisputed, disputed(payID, 0, payment.DisputeClaim), first, fee), "after a refund", half+in(one)),
		with(row("charged_back", "in_process", payment.StatusDisputed, is(payment.StatusDisputed), first, fee), "after a refund", half+in(one)),
		with(row("charged_back", "settled", payment.StatusChargedBack, is(payment.StatusChargedBack), first, fee), "after a refund that is listed at its own address", half+in(), one),
		with(row("charged_back", "in_process", payment.StatusDisputed, is(payment.StatusDisputed), fee), "with a sum that no list explains", half+in()),
		with(row("charged_back", "reimbursed", payment.StatusPartiallyRefunded, paid(), disputed(payID, 0, payment.DisputeWon), first, fee), "after a refund", half+in(one)),
		with(row("approved", "accredited", payment.StatusPaid, paid()), "without fees yet", `"x":1`),
	}
	rows[len(rows)-1].Answer = answer(`{"id":"` + payID + `","status":"approved","status_detail":"accredited","currency_id":"BRL","transaction_amount":250,"fee_details":[]}`)
	whole1 := payment.Claim{GatewayID: payID, Currency: "BRL", Expected: payment.Of(25000), Captured: payment.Of(25000), Reference: "PED-1001", Reason: "lookup", Facts: []payment.Fact{paid(), fee}}
	rows[0].Claim = &whole1
	open := payment.Claim{GatewayID: payID, Currency: "BRL", Expected: payment.Of(25000), Reference: "PED-1001", Reason: "lookup", Facts: []payment.Fact{is(payment.StatusPending)}}
	rows[1].Claim = &open
	return append(rows, paymentFaults()...)
}

func paymentFaults() (rows []providertest.Lookup) {
	for name, h := range map[string]http.HandlerFunc{
		"a status of tomorrow":             pay("dreamt", "accredited", ""),
		"no status":                        pay("", "", ""),
		"approved with another detail":     pay("approved", "of_tomorrow", ""),
		"charged back with another detail": pay("charged_back", "of_tomorrow", ""),
		"charged back without detail":      pay("charged_back", "", ""),
		"a refund of nothing":              pay("approved", "accredited", `"refunds":[`+refundItem("11", "0", "approved")+`]`),
		"a refund without id":              pay("approved", "accredited", `"refunds":[{"amount":1,"status":"approved"}]`),
		"a refund below zero":              pay("approved", "accredited", `"refunds":[`+refundItem("11", "-1", "approved")+`]`),
		"a refund in fractions of a cent":  pay("approved", "accredited", `"refunds":[`+refundItem("11", "1.001", "approved")+`]`),
		"refunds that are no list":         answer(`{"id":` + payID + `,"status":"approved","currency_id":"BRL","transaction_amount":1,"refunds":{}}`),
		"no currency":                      answer(`{"id":` + payID + `,"status":"approved","status_detail":"accredited","transaction_amount":1}`),
		"no amount":                        answer(`{"id":` + payID + `,"status":"approved","status_detail":"accredited","currency_id":"BRL"}`),
		"an amount of zero":                answer(`{"id":` + payID + `,"status":"approved","status_detail":"accredited","currency_id":"BRL","transaction_amount":0}`),
		"an amount out of range":           answer(`{"id":` + payID + `,"status":"approved","status_detail":"accredited","currency_id":"BRL","transaction_amount":12345678901234567890}`),
		"a fee that is a word":             answer(`{"id":` + payID + `,"status":"approved","status_detail":"accredited","currency_id":"BRL","transaction_amount":1,"fee_details":[{"fee_payer":"collector","amount":"x"}]}`),
		"fees below zero":                  answer(`{"id":` + payID + `,"status":"approved","status_detail":"accredited","currency_id":"BRL","transaction_amount":1,"fee_details":[{"fee_payer":"collector","amount":-1}]}`),
	} {
		rows = append(rows, providertest.Lookup{Name: name, Ref: payID, Answer: h, Err: provider.ErrUnreadable})
	}
	return append(rows,
		providertest.Lookup{Name: "another seller's payment", Ref: payID, Answer: pay("approved", "accredited", ""), Err: provider.ErrMismatch, Setting: map[string]string{"USER_ID": "444555667"}},
		providertest.Lookup{Name: "this seller's payment", Ref: payID, Answer: pay("approved", "accredited", ""), Status: payment.StatusPaid, Setting: map[string]string{"USER_ID": "444555666"}},
		providertest.Lookup{Name: "an id that is neither", Ref: "PAY01KDXQ8M5N7P9R2S4T6V8W0X1Z", Answer: pay("approved", "accredited", ""), Err: provider.ErrMismatch},
		providertest.Lookup{Name: "an order's id in lower case", Ref: strings.ToLower(ordID), Answer: pay("approved", "accredited", ""), Err: provider.ErrMismatch},
	)
}

func orderLookups() []providertest.Lookup {
	row := func(status, detail, more string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: strings.TrimSpace(status + " " + detail + " " + more), Ref: ordID, Answer: ord(status, detail, more), Status: leads, Facts: facts}
	}
	refunds := func(items ...string) string { return `"transactions":{"refunds":[` + strings.Join(items, ",") + `]}` }
	cases := func(status string) string {
		return `"transactions":{"chargebacks":[{"id":"CHB1","case_id":"200000000000000001","amount":"240.00","status":"` + status + `"}]}`
	}
	const one = `{"id":"REF1","amount":"100.00","status":"processed"}`
	first := refund("REF1", 10000, payment.RefundSucceeded)
	rows := []providertest.Lookup{
		row("processed", "accredited", "", payment.StatusPaid, paid()),
		row("created", "created", "", payment.StatusPending, is(payment.StatusPending)),
		row("processing", "in_process", "", payment.StatusPending, is(payment.StatusPending)),
		row("processing", "pending_review_manual", "", payment.StatusPending, is(payment.StatusPending)),
		row("at_terminal", "", "", payment.StatusPending, is(payment.StatusPending)),
		row("action_required", "waiting_payment", "", payment.StatusPending, is(payment.StatusPending)),
		row("action_required", "waiting_transfer", "", payment.StatusPending, is(payment.StatusPending)),
		row("action_required", "pending_challenge", "", payment.StatusPending, is(payment.StatusPending)),
		row("action_required", "check_on_terminal", "", payment.StatusPending, is(payment.StatusPending)),
		row("action_required", "waiting_capture", "", payment.StatusAuthorized, is(payment.StatusAuthorized)),
		row("failed", "failed", "", payment.StatusFailed, is(payment.StatusFailed)),
		row("canceled", "canceled", "", payment.StatusCanceled, is(payment.StatusCanceled)),
		row("cancelled", "cancelled", "", payment.StatusCanceled, is(payment.StatusCanceled)),
		row("expired", "expired", "", payment.StatusExpired, is(payment.StatusExpired)),
		row("processed", "partially_refunded", refunds(one), payment.StatusPartiallyRefunded, paid(), first),
		row("processed", "partially_refunded", "", "", paid(), total(math.MaxInt64)),
		row("processed", "refunded", refunds(`{"id":"REF1","amount":"250","status":"approved"}`), payment.StatusRefunded, paid(), refund("REF1", 25000, payment.RefundSucceeded)),
		row("refunded", "refunded", refunds(one), payment.StatusRefunded, paid(), first, is(payment.StatusRefunded)),
		row("refunded", "refunded", "", payment.StatusRefunded, paid(), is(payment.StatusRefunded)),
		row("charged_back", "in_process", cases("in_process"), payment.StatusDisputed, paid(), disputed("CHB1", 24000, payment.DisputeOpen)),
		row("charged_back", "settled", cases("settled"), payment.StatusChargedBack, paid(), disputed("CHB1", 24000, payment.DisputeLost)),
		row("charged_back", "reimbursed", cases("reimbursed"), payment.StatusPaid, paid(), disputed("CHB1", 24000, payment.DisputeWon)),
		row("charged_back", "in_process", "", payment.StatusDisputed, is(payment.StatusDisputed)),
		row("charged_back", "settled", "", payment.StatusChargedBack, is(payment.StatusChargedBack)),
		row("charged_back", "reimbursed", "", payment.StatusPaid, paid(), disputed(ordID, 0, payment.DisputeWon)),
	}
	rows[0].Claim = &payment.Claim{GatewayID: ordID, Currency: "BRL", Expected: payment.Of(25000), Captured: payment.Of(25000), Reference: "PED-1001", Reason: "lookup", Facts: []payment.Fact{paid()}}
	with := func(name, text string, captured int64, currency string, settings map[string]string) {
		claim := payment.Claim{GatewayID: ordID, Currency: currency, Captured: payment.Of(captured), Reason: "lookup", Facts: []payment.Fact{paid()}}
		if strings.Contains(text, "total_amount") {
			claim.Expected = payment.Of(25000)
		}
		rows = append(rows, providertest.Lookup{Name: name, Ref: ordID, Claim: &claim, Setting: settings,
			Answer: answer(`{"id":"` + ordID + `","status":"processed","status_detail":"accredited",` + text + `}`)})
	}
	with("a part was captured", `"country_code":"BRA","total_amount":"250.00","total_paid_amount":"200.00"`, 20000, "BRL", nil)
	with("paid with interest", `"country_code":"BRA","total_amount":"250.00","total_paid_amount":"262.50"`, 25000, "BRL", nil)
	with("only the paid amount", `"country_code":"MX","total_paid_amount":"120"`, 12000, "MXN", nil)
	with("a currency of its own", `"country_code":"BRA","currency":"USD","total_amount":"250.00"`, 25000, "USD", nil)
	with("the currency of the settings", `"total_amount":"250.00"`, 25000, "ARS", map[string]string{"CURRENCY": "ARS"})
	for name, h := range map[string]http.HandlerFunc{
		"a status of tomorrow":           ord("dreamt", "", ""),
		"processed with another detail":  ord("processed", "of_tomorrow", ""),
		"a chargeback of another status": ord("charged_back", "in_process", cases("dreamt")),
		"neither currency nor country":   answer(`{"id":"` + ordID + `","status":"processed","status_detail":"accredited","total_amount":"250.00"}`),
		"a country of tomorrow":          answer(`{"id":"` + ordID + `","status":"processed","country_code":"XX","total_amount":"250.00"}`),
		"no amount":                      answer(`{"id":"` + ordID + `","status":"processed","country_code":"BR"}`),
		"a chargeback without id":        ord("charged_back", "in_process", `"transactions":{"chargebacks":[{"amount":"1","status":"settled"}]}`),
		"a chargeback without amount":    ord("charged_back", "in_process", `"transactions":{"chargebacks":[{"id":"CHB1","status":"settled"}]}`),
	} {
		rows = append(rows, providertest.Lookup{Name: name, Ref: ordID, Answer: h, Err: provider.ErrUnreadable})
	}
	return append(rows, providertest.Lookup{Name: "another seller's order", Ref: ordID, Answer: ord("processed", "accredited", ""),
		Err: provider.ErrMismatch, Setting: map[string]string{"USER_ID": "1"}})
}

func spellings(cents int64) []string {
	s := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	return []string{s, strings.TrimSuffix(strings.TrimSuffix(s, "0"), ".0"), `"` + s + `"`, s + "0"}
}

func paymentAmounts(cents int64) (answers []http.HandlerFunc) {
	for _, s := range spellings(cents) {
		answers = append(answers, answer(`{"id":`+payID+`,"status":"approved","status_detail":"accredited","currency_id":"BRL","transaction_amount":`+s+`}`))
	}
	return answers
}

func orderAmounts(cents int64) (answers []http.HandlerFunc) {
	for _, s := range spellings(cents) {
		answers = append(answers, answer(`{"id":"`+ordID+`","status":"processed","status_detail":"accredited","country_code":"BR","total_amount":`+s+`}`))
	}
	return answers
}
