package pagbank_test

import (
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// Row A23: a sandbox that takes an address for a signature believes no body,
// so it does not start without a lookup of each.
func TestCase_A23_PagBankSandboxWithoutSignaturesMustLookEverythingUp(t *testing.T) {
	t.Parallel()
	load := func(more map[string]string) error {
		env := map[string]string{"SOURCES": "pagbank", "ENVIRONMENT": "sandbox", "PAGBANK_WEBHOOK_SECRETS": token,
			"PAGBANK_API_KEY": token, "PAGBANK_SANDBOX_SECRET": addressSecret}
		for k, v := range more {
			env[k] = v
		}
		_, err := registry.LoadWith(func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			map[string]provider.Factory{"pagbank": pagbank.New})
		return err
	}
	if err := load(nil); err != nil {
		t.Error(err)
	}
	for _, mode := range []string{"in_doubt", "never"} {
		if err := load(map[string]string{"PAGBANK_LOOKUP": mode}); err == nil || !strings.Contains(err.Error(), "PAGBANK_LOOKUP") {
			t.Errorf("LOOKUP=%s: %v", mode, err)
		}
	}
	if err := load(map[string]string{"ENVIRONMENT": "production"}); err == nil || !strings.Contains(err.Error(), "PAGBANK_SANDBOX_SECRET") {
		t.Errorf("in production: %v", err)
	}
	if err := load(map[string]string{"PAGBANK_WEBHOOK_SECRETS": ""}); err == nil {
		t.Error("without a token")
	}
}

// Row A23, for the unsigned format: a body that nobody signed moves no money,
// whatever it claims.
func TestCase_A23_PagBankBelievesNothingOfAnUnsignedForm(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, body := range []string{
		form + "&status=3&grossAmount=100.00&reference=PED-1001",
		form + "&id=" + chargeID + "&charges=" + "%5B%7B%22status%22%3A%22PAID%22%7D%5D",
	} {
		if _, reason := p.Verify(unsigned(body, "")); reason != provider.ReasonNone {
			t.Fatalf("refused: %s", reason)
		}
		m := p.Parse(unsigned(body, ""))[0]
		claims, err := p.Facts(&event.Event{Body: []byte(body)})
		if err != provider.ErrUnresolved || len(claims) != 0 || m.PaymentRef != "" {
			t.Errorf("%+v, %v, %+v", claims, err, m)
		}
	}
}

// Row B13: two bodies of one state are one event, and were they two, the
// second would book nothing.
func TestCase_B13_PagBankTwoBodiesOfOneStateCreditOnce(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	held := payment.Payment{GatewayID: chargeID}
	steps := 0
	for _, body := range []string{paidCharge, string(change(paidCharge, `"message":"SUCESSO"`, `"message":"SUCESSO","invoice_number":"7"`)), paidOrder} {
		r := payment.Apply(held, claimOf(t, p, body))
		held, steps = r.Payment, steps+len(r.Transitions)
	}
	if steps != 1 || held.Captured != payment.Of(14990) {
		t.Errorf("%d transitions, captured %+v", steps, held.Captured)
	}
}

// Row B15: a notification carries only a code; the gateway knows the rest, and
// a repeat asks again.
func TestCase_B15_PagBankACodeWithoutStatusIsAskedAboutEachTime(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	m := p.Parse(unsigned(form, ""))[0]
	if !m.Reopen || m.Disposition != provider.Process {
		t.Errorf("%+v", m)
	}
	held := payment.Apply(payment.Payment{GatewayID: chargeID}, claimOf(t, p, paidCharge)).Payment
	for _, row := range []struct {
		number, at string
		want       payment.Status
	}{{"5", "2026-02-20T10:00:00.000-03:00", payment.StatusDisputed}, {"5", "2026-02-20T10:00:00.000-03:00", payment.StatusDisputed},
		{"3", "2026-03-20T10:00:00.000-03:00", payment.StatusPaid}, {"4", "2026-04-20T10:00:00.000-03:00", payment.StatusPaid}} {
		claims, err := resolve(t, p, latin1(t, transactionXML(row.number, lastEvent, row.at)))
		if err != nil {
			t.Fatal(err)
		}
		if r := payment.Apply(held, joined(claims[0])); r.Need != "" || r.Payment.Status != row.want {
			t.Errorf("%s: %s (need %q), want %s", row.number, r.Payment.Status, r.Need, row.want)
		} else {
			held = r.Payment
		}
	}
	if held.ChargedBack != 0 || held.Captured.Value != 14990 {
		t.Errorf("%+v", held)
	}
}

// Row D1: what is null is kept, and says which part is missing.
func TestCase_D1_PagBankNullFieldsAreNotSwallowed(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for body, want := range map[string]provider.Disposition{
		`{"id":null}`: provider.Quarantine,
		`{"id":"` + orderID + `","charges":[null]}`:            provider.Quarantine,
		`{"id":"` + orderID + `","charges":{}}`:                provider.Quarantine,
		`{"id":"` + orderID + `","charges":null}`:              provider.Process, // asked about
		`{"id":"` + chargeID + `","status":null}`:              provider.Process, // Facts: not in the table
		`{"id":"` + chargeID + `","status":"PAID","amount":1}`: provider.Quarantine,
	} {
		m := p.Parse(sign(token, []byte(body), clock))[0]
		if m.Disposition != want {
			t.Errorf("%s: %s (%s), want %s", body, m.Disposition, m.Reason, want)
		}
	}
	if claims, err := p.Facts(formEventOf(`{"id":"` + chargeID + `","status":null}`)); err == nil {
		t.Errorf("a charge without a status: %+v", claims)
	}
	// Paid, and not how much: nothing is credited before somebody says it.
	c := claimOf(t, p, `{"id":"`+chargeID+`","status":"PAID","amount":null}`)
	if r := payment.Apply(payment.Payment{GatewayID: chargeID}, c); r.Need != payment.NeedCapturedAmount {
		t.Errorf("need %q, %+v", r.Need, r.Transitions)
	}
}

// Row D11: the exact answers.
func TestCase_D11_PagBankIsAnsweredWith200(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 {
		t.Errorf("%+v, %+v", tr.Success, tr.Unauthorized)
	}
}
