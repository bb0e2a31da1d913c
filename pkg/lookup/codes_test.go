package lookup

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

type codeGateway struct{ provider.Provider }

func (codeGateway) Traits() provider.Traits { return provider.Traits{LookupRate: 5, LookupBurst: 10} }
func (codeGateway) Lookup(context.Context, *http.Client, string) (payment.Claim, error) {
	return payment.Claim{GatewayID: "CHAR_1"}, nil
}
func (codeGateway) Resolve(context.Context, *http.Client, *event.Event) ([]payment.Claim, error) {
	return nil, provider.ErrNotFound
}

// Codes may be posted by strangers: their number must not keep a payment waiting.
func TestWhatIsAskedAboutCodesDoesNotHoldUpPayments(t *testing.T) {
	t.Parallel()
	a := New(Config{Concurrency: 4, Timeout: time.Second, BreakAfter: 3, Open: time.Minute})
	t.Cleanup(a.Close)
	src := provider.Source{Provider: "pagbank", Account: "default"}
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { _, _ = a.Resolve(t.Context(), src, codeGateway{}, codeGateway{}, &event.Event{}) })
	}
	time.Sleep(50 * time.Millisecond)
	defer wg.Wait()
	_, err := a.Ask(t.Context(), src, codeGateway{}, "CHAR_1")
	var wait *WaitError
	if errors.As(err, &wait) {
		t.Errorf("a payment waits: %v", err)
	}
}
