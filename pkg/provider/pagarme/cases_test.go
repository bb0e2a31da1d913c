package pagarme_test

import (
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// credited plays bodies in their order, without lookups, and counts captures.
func credited(t *testing.T, bodies ...string) (payment.Payment, int) {
	t.Helper()
	r := &receiver{t: t, held: map[string]payment.Payment{}, captures: map[string]int{}}
	events := claimsOf(t, build(t, source()), history{bodies: bodies})
	order := make([]int, len(events))
	for i := range order {
		order[i] = i
	}
	if waiting := r.play(events, order); len(waiting) > 0 {
		t.Fatalf("waits: %v", waiting)
	}
	return r.held[ref], r.captures[ref]
}

const (
	paidCharge   = `{"id":"` + ref + `","code":"PED-1001","amount":10000,"paid_amount":10000,"status":"paid","currency":"BRL"}`
	failedCharge = `{"id":"` + ref + `","code":"PED-1001","amount":10000,"status":"failed","currency":"BRL"}`
)

// The Pix of one payment sets off charge.paid, order.paid and invoice.paid.
func TestCase_D13_PagarmeThreeEventsOfOnePaymentCreditOnce(t *testing.T) {
	t.Parallel()
	p, captures := credited(t,
		told(1, "charge.paid", paidCharge), told(1, "order.paid", order("paid", paidCharge)),
		told(1, "invoice.paid", `{"id":"in_1","amount":10000,"charge":{"id":"`+ref+`"}}`), told(2, "charge.paid", paidCharge))
	if p.Status != payment.StatusPaid || p.Captured.Value != 10000 || captures != 1 {
		t.Errorf("%s, captured %d, %d times", p.Status, p.Captured.Value, captures)
	}
}

func TestCase_C7_PagarmeAFailedChargeThatIsPaidAfterAllCreditsOnce(t *testing.T) {
	t.Parallel()
	p, captures := credited(t, told(1, "charge.payment_failed", failedCharge), told(1, "order.payment_failed", order("failed", failedCharge)), told(4, "charge.paid", paidCharge))
	if p.Status != payment.StatusPaid || captures != 1 {
		t.Errorf("%s, captured %d times", p.Status, captures)
	}
}

func TestCase_C1_PagarmeALateOlderEventDoesNotWin(t *testing.T) {
	t.Parallel()
	p, _ := credited(t, told(4, "charge.paid", paidCharge), told(1, "charge.pending", strings.Replace(failedCharge, "failed", "pending", 1)), told(2, "charge.payment_failed", failedCharge))
	if p.Status != payment.StatusPaid {
		t.Errorf("ends as %s", p.Status)
	}
}

// A refund that is all we hear of walks through paid, and books both.
func TestCase_C12_PagarmeARefundBeforeItsPaymentBooksBoth(t *testing.T) {
	t.Parallel()
	refunded := strings.Replace(paidCharge, `"status":"paid"`, `"status":"canceled","canceled_amount":10000`, 1)
	p, captures := credited(t, told(1, "charge.pending", strings.Replace(failedCharge, "failed", "pending", 1)), told(5, "charge.refunded", refunded), told(4, "charge.paid", paidCharge))
	if p.Status != payment.StatusRefunded || p.Refunded != 10000 || captures != 1 || p.Net() != 0 {
		t.Errorf("%s, refunded %d, captured %d times", p.Status, p.Refunded, captures)
	}
}

// The sandbox has nothing in its bodies by which it could be told.
func TestCase_D9_PagarmeATestAccountIsKeptOutByItsID(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	m := p.Parse(sign(login, change(paidBody, account, "acc_TEST00000000000001", "Loja Exemplo", "Loja Exemplo - test"), now))[0]
	if m.Disposition != provider.Quarantine {
		t.Errorf("%s %s", m.Disposition, m.Reason)
	}
}

// The digest covers bytes, not values: fractional zeros and escapes count.
func TestCase_A1_PagarmeSignaturesCoverTheBytesAsSent(t *testing.T) {
	t.Parallel()
	p := build(t, signedSource(published()))
	for name, body := range map[string]string{
		"the last zeros of the time": strings.Replace(vectorBody, "05.1200000Z", "05.12Z", 1),
		"an escaped slash":           strings.Replace(vectorBody, "Loja Exemplo", `Loja\u0020Exemplo`, 1),
		"another order of names":     strings.Replace(vectorBody, `"currency":"BRL","payment_method":"pix"`, `"payment_method":"pix","currency":"BRL"`, 1),
		"an amount with a fraction":  strings.Replace(vectorBody, `"amount":14990`, `"amount":14990.0`, 1),
	} {
		if body == vectorBody {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, reason := p.Verify(signed(vectorHeader, []byte(body))); reason != provider.ReasonMismatch {
			t.Errorf("%s: reason %q", name, reason)
		}
	}
}

func TestWhatNobodyCanBeAskedAboutIsQuarantinedWithTheSetting(t *testing.T) {
	t.Parallel()
	src := source()
	src.Lookup = provider.LookupNever
	p := build(t, src)
	for _, body := range []string{
		told(1, "chargeback.received", `{"id":"cbk_1","charge":{"id":"`+ref+`"}}`),
		told(1, "order.paid", order("paid", strings.Replace(paidCharge, `"status":"paid"`, `"status":"splendid"`, 1))),
	} {
		r := sign(login, []byte(body), now)
		if claims, err := p.Facts(eventOf(p, src, r)); err == nil {
			t.Errorf("%+v\n%s", claims, body)
		}
	}
	src.Lookup = provider.LookupInDoubt
	p = build(t, src)
	for _, body := range []string{
		told(1, "chargeback.received", `{"id":"cbk_1","charge":{"id":"`+ref+`"}}`),
		told(1, "order.paid", order("paid", strings.Replace(paidCharge, `"status":"paid"`, `"status":"splendid"`, 1))),
		told(1, "order.canceled", order("canceled", strings.Replace(failedCharge, "failed", "canceled", 1))),
		told(1, "charge.updated", paidCharge),
		told(1, "invoice.paid", `{"id":"in_1","charge":{"id":"`+ref+`"}}`),
	} {
		// A claim without facts and without an amount is what is looked up.
		claims, err := p.Facts(eventOf(p, src, sign(login, []byte(body), now)))
		if err != nil || len(claims) != 1 || len(claims[0].Facts) != 0 || claims[0].Expected.Known {
			t.Errorf("in doubt it is not looked up: %+v, %v\n%s", claims, err, body)
		}
	}
}

// Where fees are known by lookups only, a capture asks for one.
func TestInDoubtACaptureAsksForItsFee(t *testing.T) {
	t.Parallel()
	src := source()
	src.Lookup, src.Setting = provider.LookupInDoubt, settings("AUTH", "basic", "PAYABLES", "true")
	p := build(t, src)
	r := sign(login, []byte(told(1, "charge.paid", paidCharge)), now)
	claims, err := p.Facts(eventOf(p, src, r))
	if err != nil {
		t.Fatal(err)
	}
	if res := payment.Apply(payment.Payment{GatewayID: ref}, claims[0]); res.Need != payment.NeedFeeAmount {
		t.Errorf("need %q", res.Need)
	}
	snap := payment.Snapshot{Claim: payment.Claim{GatewayID: ref, Currency: "BRL", Captured: payment.Of(10000), Facts: []payment.Fact{
		status(payment.StatusPaid), {Kind: payment.FactFee, ID: ref, Amount: payment.Of(119)}}}, ObservedAt: now}
	res, _ := payment.Resolve(payment.Payment{GatewayID: ref}, &snap, claims[0], policy)
	if res.Need != "" || res.Payment.Fee != 119 || res.Payment.Status != payment.StatusPaid {
		t.Errorf("%+v", res)
	}
}
