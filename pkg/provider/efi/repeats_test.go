package efi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// The contract's list of a callback's fields has no nature of a refund, and
// the API's may: what the API calls taken back is that, at once.
func TestANatureThatOnlyTheAPITellsIsNoContradiction(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	told := with(devolucoes(devolucao("m", "49.90", "DEVOLVIDO")))
	answered := with(devolucoes(devolucao("m", "49.90", "DEVOLVIDO", `"natureza":"MED_FRAUDE"`)))
	r := sign(token, []byte(`{"pix":[`+told+`]}`), now)
	claims, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0]))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: withToken(answer(answered))}}, pixID)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	res, _ := payment.Resolve(l.p, &payment.Snapshot{Claim: seen, ObservedAt: now.Add(240 * time.Hour)}, claims[0], payment.Policy{Lag: time.Minute})
	if !l.take(res) || l.p.Status != payment.StatusChargedBack || l.p.ChargedBack != 4990 || l.p.Refunded != 0 {
		t.Errorf("needs %q; %s, %d charged back, %d refunded", res.Need, l.p.Status, l.p.ChargedBack, l.p.Refunded)
	}
}

// Nothing of a body is believed, so what an event came to hangs on when the
// API was asked. A call that Efí sends once more is looked at once more.
func TestARepeatOfARefundIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	item := with(devolucoes(devolucao("a", "49.90", "DEVOLVIDO")))
	if m := p.Parse(sign(token, []byte(`{"pix":[`+item+`]}`), now)); !m[0].Reopen {
		t.Errorf("%s is not", m[0].Type)
	}
}

func TestAPixBesideTheTestWordIsAPix(t *testing.T) {
	t.Parallel()
	m := build(t, source()).Parse(sign(token, []byte(`{"evento":"teste_webhook","pix":[`+paidItem+`]}`), now))
	if len(m) != 1 || m[0].Disposition != provider.Process || m[0].PaymentRef != pixID {
		t.Errorf("%+v", m)
	}
}
