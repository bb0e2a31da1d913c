package mercadopago_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// caseEvent is the stored event of a chargeback that names no payment, with
// one number in the address and one in the body.
func caseEvent(t *testing.T, p provider.Provider, inQuery, inBody string) *event.Event {
	t.Helper()
	b := changer(body(t, "chargeback_without_payment"))("310000000000000007", inBody)
	r := signedQuery(secret, "data.id="+inQuery+"&type=topic_chargebacks_wh", b, clock)
	m := p.Parse(r)[0]
	if m.Disposition != provider.Process || m.PaymentRef != "" {
		t.Fatalf("%+v", m)
	}
	e := providertest.EventOf(p, source(), r, m)
	if _, err := p.Facts(e); !errors.Is(err, provider.ErrUnresolved) {
		t.Fatalf("Facts: %v, want that the gateway be asked", err)
	}
	return e
}

func TestAChargebackThatNamesNoPaymentIsAskedFor(t *testing.T) {
	t.Parallel()
	p := build(t)
	resolver, ok := provider.As[provider.Resolver](p)
	if !ok {
		t.Fatal("no Resolver")
	}
	const id = "310000000000000007"
	for name, c := range map[string]struct {
		answer string
		want   []string
		err    error
	}{
		"objects":            {`{"id":` + id + `,"payments":[{"id":98765432101},{"id":"98765432102"}],"coverage_applied":null}`, []string{payID, "98765432102"}, nil},
		"numbers":            {`{"id":"` + id + `","payments":[98765432101,"98765432101"]}`, []string{payID}, nil},
		"the library's form": {`{"id":"` + id + `","payment_id":98765432101,"status":"new"}`, []string{payID}, nil},
		"none":               {`{"id":` + id + `,"payments":[]}`, nil, provider.ErrUnreadable},
		"a word":             {`{"id":` + id + `,"payments":["../x"]}`, nil, provider.ErrUnreadable},
		"a list in the list": {`{"id":` + id + `,"payments":[[1]]}`, nil, provider.ErrUnreadable},
		"an id of no kind":   {`{"id":` + id + `,"payments":[{"id":[]}]}`, nil, provider.ErrUnreadable},
		"no id":              {`{"payments":[1]}`, nil, provider.ErrMismatch},
		"another case":       {`{"id":1,"payments":[1]}`, nil, provider.ErrMismatch},
		"no JSON":            {`<html>`, nil, provider.ErrUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientOf(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/chargebacks/"+id || r.Header.Get("Authorization") != "Bearer "+apiKey {
					t.Errorf("asks %s", r.URL)
				}
				fmt.Fprint(w, c.answer)
			})
			claims, err := resolver.Resolve(context.Background(), client, caseEvent(t, p, id, id))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			var got []string
			for _, claim := range claims {
				got = append(got, claim.GatewayID)
				if len(claim.Facts) > 0 || claim.Captured.Known {
					t.Errorf("the case itself moves money: %+v", claim)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("payments %q, want %q", got, c.want)
			}
		})
	}
}

// It is not established that the number in the address is the case's.
func TestTheNumberInTheBodyIsAskedForWhenTheSignedOneIsNotKnown(t *testing.T) {
	t.Parallel()
	p := build(t)
	resolver, _ := provider.As[provider.Resolver](p)
	var asked []string
	client := clientOf(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.URL.Path != "/v1/chargebacks/22" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"id":22,"payments":[{"id":`+payID+`}]}`)
	})
	claims, err := resolver.Resolve(context.Background(), client, caseEvent(t, p, "11", "22"))
	if err != nil || len(claims) != 1 || claims[0].GatewayID != payID || !slices.Equal(asked, []string{"/v1/chargebacks/11", "/v1/chargebacks/22"}) {
		t.Errorf("%+v, %v, asked %q", claims, err, asked)
	}
	asked = nil
	if _, err := resolver.Resolve(context.Background(), client, caseEvent(t, p, "33", "33")); !errors.Is(err, provider.ErrNotFound) || len(asked) != 1 {
		t.Errorf("%v, asked %q", err, asked)
	}
	if _, err := resolver.Resolve(context.Background(), client, caseEvent(t, p, "abc", `"..%2f"`)); !errors.Is(err, provider.ErrNotFound) || len(asked) != 1 {
		t.Errorf("%v, asked %q", err, asked)
	}
	r := sign(secret, body(t, "payment_updated"), clock)
	if _, err := resolver.Resolve(context.Background(), client, providertest.EventOf(p, source(), r, p.Parse(r)[0])); !errors.Is(err, provider.ErrUnreadable) {
		t.Errorf("a payment's notification: %v", err)
	}
}

func TestAPassingFailureOfACaseIsToBeRetried(t *testing.T) {
	t.Parallel()
	p := build(t)
	resolver, _ := provider.As[provider.Resolver](p)
	client := clientOf(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	var retry *provider.RetryError
	if _, err := resolver.Resolve(context.Background(), client, caseEvent(t, p, "1", "2")); !errors.As(err, &retry) {
		t.Error(err)
	}
}
