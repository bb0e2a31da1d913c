package processor

import (
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// A code that says "refunded" with its amount must not book a receipt of the
// attempt that was never paid, either.
func TestACodeWithTheAmountOfARefundBooksNoReceipt(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	w.process(w.receive(withReference(failedAttempt("pay_1"), "pay_1", "PED-1")))
	g.says["code-1"] = []payment.Claim{{Reference: "PED-1", Currency: "BRL", Captured: payment.Of(1000), Facts: []payment.Fact{
		{Kind: payment.FactStatus, Status: payment.StatusRefunded, Amount: payment.Of(1000)}}}}
	code := w.receiveBody("", []byte("code-1"))
	w.process(code)
	w.wantStatus("pay_1", payment.StatusFailed)
	if l := w.ledger("pay_1"); len(l) != 0 {
		t.Errorf("booked %q; %+v", l, w.event(code))
	}
}
