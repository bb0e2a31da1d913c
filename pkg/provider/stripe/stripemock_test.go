package stripe

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// startMock builds Stripe's own mock of its API, which checks every request
// against the published OpenAPI description, and runs it on a free port until
// the test ends.
func startMock(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "stripe-mock")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/stripe/stripe-mock").CombinedOutput(); err != nil {
		t.Fatalf("build stripe-mock: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address := make(chan string, 1)
	go func() {
		defer close(address)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, addr, found := strings.Cut(lines.Text(), "Listening for HTTP at address: "); found {
				address <- addr
			}
		}
	}()
	select {
	case addr, ok := <-address:
		if !ok {
			t.Fatal("stripe-mock ended before it listened")
		}
		return "http://" + addr
	case <-time.After(30 * time.Second):
		t.Fatal("stripe-mock does not listen after 30 s")
	}
	return ""
}

// stripe-mock keeps nothing and gives every object the id that was asked for,
// with the contents of a fixture: a payment in test mode whose last attempt
// failed, and a charge that was not captured.
func TestLookupsAgainstStripesOwnMock(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIBase, src.APIKey, src.Production = startMock(t), "sk_test_123", false
	client := &http.Client{Timeout: 10 * time.Second}
	ctx := context.Background()
	p := gatewayOf(t, src)

	t.Run("a PaymentIntent with everything expanded is understood", func(t *testing.T) {
		claim, err := p.Lookup(ctx, client, "pi_1Asked")
		if err != nil {
			t.Fatal(err)
		}
		if claim.GatewayID != "pi_1Asked" || claim.Currency != "USD" || claim.Expected != payment.Of(1099) || claim.Captured.Known {
			t.Errorf("%+v", claim)
		}
		if len(claim.Facts) != 1 || claim.Facts[0].Status != payment.StatusFailed {
			t.Errorf("facts %+v", claim.Facts)
		}
	})
	t.Run("a charge is understood", func(t *testing.T) {
		claim, err := p.Lookup(ctx, client, "ch_1Asked")
		if err != nil {
			t.Fatal(err)
		}
		if claim.GatewayID != "ch_1Asked" || claim.Expected != payment.Of(100) || len(claim.Facts) != 1 || claim.Facts[0].Status != payment.StatusAuthorized {
			t.Errorf("%+v", claim)
		}
	})
	t.Run("the lists take our parameters", func(t *testing.T) {
		for _, by := range []string{"payment_intent", "charge"} {
			a := &answer{g: p.(*gateway), client: client, ref: "x_1Asked"}
			refunds, err := listAll[refund](ctx, a, "refunds", by)
			if err != nil || len(refunds) == 0 || refunds[0].ID == "" {
				t.Errorf("refunds by %s: %d, %v", by, len(refunds), err)
			}
			disputes, err := listAll[dispute](ctx, a, "disputes", by)
			if err != nil || len(disputes) == 0 || disputes[0].Status == "" {
				t.Errorf("disputes by %s: %d, %v", by, len(disputes), err)
			}
		}
	})
	t.Run("a refund, a dispute and a fee of the fixtures become facts", func(t *testing.T) {
		a := &answer{g: p.(*gateway), client: client, ref: "ch_1Asked"}
		a.r.g, a.r.says = p.(*gateway), payment.Claim{Currency: "USD"}
		var c charge
		if err := a.get(ctx, map[string][]string{"expand[]": {"balance_transaction", "refunds"}}, &c, "charges", a.ref); err != nil {
			t.Fatal(err)
		}
		c.Disputed = true
		if err := a.refine(ctx, &c, "payment_intent"); err != nil {
			t.Fatal(err)
		}
		if f := a.r.says.Facts; len(f) != 3 || f[0].Refund != payment.RefundSucceeded || f[0].Amount != payment.Of(100) || f[1].Dispute != payment.DisputeInquiry ||
			f[2].Kind != payment.FactFee || f[2].Amount != payment.Of(0) {
			t.Errorf("%+v", f)
		}
	})
	t.Run("a payment in test mode is not for a production source", func(t *testing.T) {
		live := src
		live.Production = true
		if _, err := gatewayOf(t, live).Lookup(ctx, client, "pi_1Asked"); !errors.Is(err, provider.ErrMismatch) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a wrong key is refused", func(t *testing.T) {
		bad := src
		bad.APIKey = "nonsense"
		if _, err := gatewayOf(t, bad).Lookup(ctx, client, "pi_1Asked"); !errors.Is(err, provider.ErrRefused) {
			t.Errorf("%v", err)
		}
	})
}
