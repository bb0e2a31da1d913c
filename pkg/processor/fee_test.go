package processor

import (
	"slices"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

func TestAFeeThatIsOnlyNamedIsLookedUpInDoubtToo(t *testing.T) {
	t.Parallel()
	named := payment.Claim{GatewayID: "pay_1", Currency: "BRL", Captured: payment.Of(1000), Expected: payment.Of(1000), At: start,
		Facts: []payment.Fact{{Kind: payment.FactFee, ID: "fee_pay_1"}}}
	noFee := paid("pay_1")
	noFee.Facts = noFee.Facts[:1]
	for _, mode := range []provider.LookupMode{provider.LookupAlways, provider.LookupInDoubt} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, mode)
			w.gateway.says(noFee)
			w.process(w.receive(noFee))
			w.gateway.says(paid("pay_1"))
			id := w.receive(named)
			w.process(id)
			w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
			if got, want := w.ledger("pay_1"), []string{"capture 1000", "fee 30"}; !slices.Equal(got, want) {
				t.Errorf("ledger %v, want %v", got, want)
			}
			again := w.receive(named)
			w.process(again)
			w.wantEvent(again, event.StatusProcessed, event.OutcomeRepeated)
			w.verify()
		})
	}
}
