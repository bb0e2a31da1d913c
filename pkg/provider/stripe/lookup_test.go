package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func write(w http.ResponseWriter, text string) { _, _ = w.Write([]byte(text)) }

// intentAnswer answers every question with one PaymentIntent of these fields.
func intentAnswer(fields string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		write(w, `{"id":"pi_1Look","object":"payment_intent","currency":"brl","livemode":true,"metadata":{"order_id":"PED-1001"},`+fields+`}`)
	}
}

const (
	paidFields   = `"amount":25000,"amount_received":25000,"status":"succeeded","latest_charge":`
	chargeFields = `"id":"ch_1Look","object":"charge","amount":25000,"amount_captured":25000,"captured":true,"currency":"brl","status":"succeeded","payment_intent":"pi_1Look","livemode":true,` +
		`"balance_transaction":{"id":"txn_1","object":"balance_transaction","amount":25000,"fee":1022,"net":23978,"currency":"brl"}`
)

func refundJSON(id string, amount int, status string) string {
	return fmt.Sprintf(`{"id":%q,"object":"refund","amount":%d,"currency":"brl","status":%q,"payment_intent":"pi_1Look","charge":"ch_1Look"}`, id, amount, status)
}

func refundList(hasMore bool, refunds ...string) string {
	return fmt.Sprintf(`{"object":"list","has_more":%v,"data":[%s]}`, hasMore, strings.Join(refunds, ","))
}

func paid(more string) http.HandlerFunc {
	return intentAnswer(paidFields + `{` + chargeFields + more + `}`)
}

// withDisputes answers the list of disputes too.
func withDisputes(intent http.HandlerFunc, disputes ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/disputes" && r.URL.Query().Get("payment_intent") == "pi_1Look" {
			write(w, refundList(false, disputes...))
			return
		}
		intent(w, r)
	}
}

func answerAbout(string) http.HandlerFunc {
	return withDisputes(paid(`,"disputed":true,"refunds":`+refundList(false, refundJSON("re_1", 1000, "succeeded"))),
		`{"id":"du_1","object":"dispute","amount":24000,"currency":"brl","status":"needs_response","payment_intent":"pi_1Look",`+
			`"balance_transactions":[{"id":"txn_2","object":"balance_transaction","amount":-24000,"fee":5500,"currency":"brl"}]}`)
}

func status(s payment.Status) payment.Fact {
	return payment.Fact{Kind: payment.FactStatus, Status: s}
}

func refundFact(id string, amount int64, s payment.RefundState) payment.Fact {
	return payment.Fact{Kind: payment.FactRefund, ID: id, Amount: payment.Of(amount), Refund: s}
}

func disputeFact(id string, amount int64, s payment.DisputeState) payment.Fact {
	return payment.Fact{Kind: payment.FactDispute, ID: id, Amount: payment.Of(amount), Dispute: s}
}

func feeFact(id string, amount int64) payment.Fact {
	return payment.Fact{Kind: payment.FactFee, ID: id, Amount: payment.Of(amount)}
}

func disputeJSON(id, status string, amount int) string {
	return fmt.Sprintf(`{"id":%q,"object":"dispute","amount":%d,"currency":"brl","status":%q,"payment_intent":"pi_1Look"}`, id, amount, status)
}

func checkLookup(r *http.Request) error {
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/v1/payment_intents/pi_1Look":
		return fmt.Errorf("%s %s", r.Method, r.URL.Path)
	case !slices.Equal(q["expand[]"], []string{"latest_charge.balance_transaction", "latest_charge.refunds"}):
		return fmt.Errorf("expand %q", q["expand[]"])
	case r.Header.Get("Authorization") != "Bearer sk_live_0123456789":
		return errors.New("the key is not where it belongs")
	case r.Header.Get("Stripe-Version") != "2026-02-25.clover":
		return fmt.Errorf("version %q", r.Header.Get("Stripe-Version"))
	case r.Header.Get("Stripe-Account") != "":
		return errors.New("an account although none is configured")
	}
	return nil
}

// lookupRows is the table of section 8 of the contract.
func lookupRows() []providertest.Lookup {
	row := func(name string, want payment.Status, h http.HandlerFunc, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: name, Ref: "pi_1Look", Answer: h, Status: want, Facts: facts}
	}
	simple := func(status, more string) http.HandlerFunc {
		return intentAnswer(`"amount":25000,"amount_received":0,"status":"` + status + `"` + more)
	}
	bad := func(name string, want error, h http.HandlerFunc) providertest.Lookup {
		return providertest.Lookup{Name: name, Ref: "pi_1Look", Answer: h, Err: want}
	}
	fee := feeFact("txn_1", 1022)
	rows := []providertest.Lookup{
		row("succeeded is paid, with its fee", payment.StatusPaid, paid(`,"refunds":`+refundList(false)), status(payment.StatusPaid), fee),
		row("requires_payment_method is pending", payment.StatusPending, simple("requires_payment_method", ""), status(payment.StatusPending)),
		row("requires_payment_method after an error is failed", payment.StatusFailed, simple("requires_payment_method", `,"last_payment_error":{"code":"card_declined"}`), status(payment.StatusFailed)),
		row("requires_confirmation is pending", payment.StatusPending, simple("requires_confirmation", ""), status(payment.StatusPending)),
		row("requires_action is pending", payment.StatusPending, simple("requires_action", ""), status(payment.StatusPending)),
		row("processing is pending", payment.StatusPending, simple("processing", ""), status(payment.StatusPending)),
		row("requires_capture is authorized", payment.StatusAuthorized, simple("requires_capture", ""), status(payment.StatusAuthorized)),
		row("canceled is canceled", payment.StatusCanceled, simple("canceled", `,"cancellation_reason":"abandoned"`), status(payment.StatusCanceled)),
		row("canceled because it expired is expired", payment.StatusExpired, simple("canceled", `,"cancellation_reason":"expired"`), status(payment.StatusExpired)),
		row("canceled automatically is canceled in the pinned version", payment.StatusCanceled, simple("canceled", `,"cancellation_reason":"automatic"`), status(payment.StatusCanceled)),
		row("paid without a charge", payment.StatusPaid, intentAnswer(paidFields+`null`), status(payment.StatusPaid)),
		row("partly refunded; a failed and a waiting refund do not count", payment.StatusPartiallyRefunded,
			paid(`,"amount_refunded":1000,"refunds":`+refundList(false, refundJSON("re_1", 1000, "succeeded"), refundJSON("re_2", 500, "failed"), refundJSON("re_3", 700, "pending"))),
			status(payment.StatusPaid), refundFact("re_1", 1000, payment.RefundSucceeded), refundFact("re_2", 500, payment.RefundFailed), refundFact("re_3", 700, payment.RefundPending), fee),
		row("CASES B23: refunded although still succeeded", payment.StatusRefunded,
			paid(`,"refunded":true,"amount_refunded":25000,"refunds":`+refundList(false, refundJSON("re_1", 25000, "succeeded"))),
			status(payment.StatusPaid), refundFact("re_1", 25000, payment.RefundSucceeded), fee),
		row("an inquiry moves nothing", payment.StatusPaid, withDisputes(paid(`,"disputed":true,"refunds":`+refundList(false)), disputeJSON("du_1", "warning_under_review", 25000)),
			status(payment.StatusPaid), disputeFact("du_1", 25000, payment.DisputeInquiry), fee),
		row("an open dispute", payment.StatusDisputed, withDisputes(paid(`,"disputed":true,"refunds":`+refundList(false)), disputeJSON("du_1", "under_review", 20000)),
			status(payment.StatusPaid), disputeFact("du_1", 20000, payment.DisputeOpen), fee),
		row("a lost dispute", payment.StatusChargedBack, withDisputes(paid(`,"disputed":true,"refunds":`+refundList(false)), disputeJSON("du_1", "lost", 25000)),
			status(payment.StatusPaid), disputeFact("du_1", 25000, payment.DisputeLost), fee),
		row("a won dispute is paid", payment.StatusPaid, withDisputes(paid(`,"disputed":true,"refunds":`+refundList(false)), disputeJSON("du_1", "won", 25000)),
			status(payment.StatusPaid), disputeFact("du_1", 25000, payment.DisputeWon), fee),
		row("a fee in another currency is known and not booked", payment.StatusPaid,
			intentAnswer(paidFields+strings.Replace(`{`+chargeFields+`,"refunds":`+refundList(false)+`}`, `"net":23978,"currency":"brl"`, `"net":23978,"currency":"usd"`, 1)), status(payment.StatusPaid), feeFact("txn_1", 0)),
		row("refund, dispute and fees together", payment.StatusDisputed, answerAbout(""),
			status(payment.StatusPaid), refundFact("re_1", 1000, payment.RefundSucceeded), disputeFact("du_1", 24000, payment.DisputeOpen), feeFact("txn_2", 5500), fee),
		bad("a status that we do not know", provider.ErrUnreadable, simple("sleeping", "")),
		bad("a test payment for a production source", provider.ErrMismatch, func(w http.ResponseWriter, _ *http.Request) {
			write(w, `{"id":"pi_1Look","object":"payment_intent","currency":"brl","livemode":false,"amount":1,"status":"processing"}`)
		}),
		bad("another object under the same id", provider.ErrMismatch, func(w http.ResponseWriter, _ *http.Request) {
			write(w, `{"id":"pi_1Look","object":"charge","livemode":true,"status":"succeeded"}`)
		}),
		bad("a charge that was not expanded", provider.ErrUnreadable, intentAnswer(paidFields+`"ch_1Look"`)),
		bad("a charge of another payment", provider.ErrMismatch, intentAnswer(paidFields+`{`+strings.Replace(chargeFields, `"payment_intent":"pi_1Look"`, `"payment_intent":"pi_2"`, 1)+`}`)),
		bad("a refund of another payment", provider.ErrMismatch, paid(`,"refunds":`+refundList(false, strings.ReplaceAll(refundJSON("re_1", 1, "succeeded"), "pi_1Look", "pi_2")))),
		bad("an amount beyond 64 bits", provider.ErrUnreadable, intentAnswer(`"amount":12345678901234567890,"status":"processing"`)),
		bad("a negative capture", provider.ErrUnreadable, intentAnswer(`"amount":1,"amount_received":-1,"status":"succeeded"`)),
	}
	rows[0].Claim = &payment.Claim{
		GatewayID: "pi_1Look", Currency: "BRL", Expected: payment.Of(25000), Captured: payment.Of(25000),
		Reference: "PED-1001", Reason: "lookup", Facts: []payment.Fact{status(payment.StatusPaid), fee},
	}
	return append(rows, chargeRows()...)
}

// chargeRows are payments of the old Charges API, which have no PaymentIntent.
func chargeRows() []providertest.Lookup {
	answer := func(fields string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/charges/py_1" {
				http.NotFound(w, r)
				return
			}
			write(w, `{"id":"py_1","object":"charge","amount":9900,"currency":"brl","livemode":true,`+fields+`}`)
		}
	}
	row := func(name string, want payment.Status, fields string) providertest.Lookup {
		return providertest.Lookup{Name: "charge: " + name, Ref: "py_1", Status: want, Answer: answer(fields)}
	}
	return []providertest.Lookup{
		row("pending", payment.StatusPending, `"status":"pending","captured":true`),
		row("failed", payment.StatusFailed, `"status":"failed","captured":false`),
		row("not captured is authorized", payment.StatusAuthorized, `"status":"succeeded","captured":false,"amount_captured":0`),
		row("released is canceled", payment.StatusCanceled, `"status":"succeeded","captured":false,"amount_captured":0,"refunded":true`),
		row("captured is paid", payment.StatusPaid, `"status":"succeeded","captured":true,"amount_captured":6000,"refunds":{"data":[],"has_more":false}`),
		row("refunded", payment.StatusRefunded, `"status":"succeeded","captured":true,"amount_captured":6000,"refunds":{"has_more":false,"data":[{"id":"re_9","object":"refund","amount":6000,"status":"succeeded","charge":"py_1"}]}`),
		{Name: "charge: one that belongs to a PaymentIntent", Ref: "py_1", Err: provider.ErrMismatch, Answer: answer(`"status":"pending","payment_intent":"pi_1"`)},
	}
}

func TestLookupFollowsTheListOfRefundsToItsEnd(t *testing.T) {
	t.Parallel()
	var asked []string
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/refunds" {
			paid(`,"refunds":`+refundList(true, refundJSON("re_1", 100, "succeeded")))(w, r)
			return
		}
		q := r.URL.Query()
		asked = append(asked, q.Get("payment_intent")+" "+q.Get("limit")+" "+q.Get("starting_after"))
		if q.Get("starting_after") == "" {
			write(w, refundList(true, refundJSON("re_1", 100, "succeeded"), refundJSON("re_2", 200, "succeeded")))
			return
		}
		write(w, refundList(false, refundJSON("re_3", 300, "succeeded")))
	}
	p := gatewayOf(t, source())
	claim, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(h)}}, "pi_1Look")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"pi_1Look 100 ", "pi_1Look 100 re_2"}, asked); d != "" {
		t.Error(d)
	}
	want := []payment.Fact{
		status(payment.StatusPaid), refundFact("re_1", 100, payment.RefundSucceeded),
		refundFact("re_2", 200, payment.RefundSucceeded), refundFact("re_3", 300, payment.RefundSucceeded), feeFact("txn_1", 1022),
	}
	if d := providertest.DiffClaims([]payment.Claim{{Facts: want}}, []payment.Claim{{Facts: claim.Facts}}); d != "" {
		t.Error(d)
	}
}

func TestLookupDoesNotFollowAListThatNeverEnds(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]func(n int) string{
		"the same page again and again": func(int) string { return refundList(true, refundJSON("re_1", 1, "succeeded")) },
		"ever new pages":                func(n int) string { return refundList(true, refundJSON(fmt.Sprintf("re_%d", n), 1, "succeeded")) },
		"empty pages that go on":        func(int) string { return refundList(true) },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n++; r.URL.Path == "/v1/refunds" {
					write(w, page(n))
					return
				}
				paid("")(w, r)
			})
			_, err := gatewayOf(t, source()).Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: h}}, "pi_1Look")
			if !errors.Is(err, provider.ErrUnreadable) || n > maxPages+1 {
				t.Errorf("%v after %d requests", err, n)
			}
		})
	}
}

func TestLookupOfAConnectedAccountNamesIt(t *testing.T) {
	t.Parallel()
	src := source()
	src.Setting = settings("ACCOUNT_ID", "acct_1", "API_VERSION", "2025-03-31.basil")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "api.stripe.com" || r.URL.Scheme != "https" || r.Header.Get("Stripe-Account") != "acct_1" || r.Header.Get("Stripe-Version") != "2025-03-31.basil" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		intentAnswer(`"amount":1,"status":"processing"`)(w, r)
	})
	if _, err := gatewayOf(t, src).Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: h}}, "pi_1Look"); err != nil {
		t.Error(err)
	}
}

// Without a charge to compare, only the answer's own id says whose it is.
func TestAnAnswerAboutAnotherPaymentIsAMismatch(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]string{"of a PaymentIntent": "pi_2Other", "of a charge": "ch_2Other"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := intentAnswer(paidFields + `null`)
			if strings.HasPrefix(ref, "ch_") {
				answer = func(w http.ResponseWriter, _ *http.Request) {
					write(w, `{`+strings.Replace(chargeFields, `"payment_intent":"pi_1Look"`, `"payment_intent":null`, 1)+`}`)
				}
			}
			client := &http.Client{Transport: providertest.HandlerTransport{Handler: answer}}
			if _, err := gatewayOf(t, source()).Lookup(context.Background(), client, ref); !errors.Is(err, provider.ErrMismatch) {
				t.Errorf("error %v", err)
			}
		})
	}
}
