package pagbank_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func TestAnOrderWithoutChargesIsAskedForItsCharges(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	ask := func(body, answered string) (claims []payment.Claim, path string, err error) {
		claims, err = p.Resolve(context.Background(), over(func(w http.ResponseWriter, r *http.Request) {
			path = r.URL.Path
			if r.Header.Get("Authorization") != "Bearer "+token {
				t.Error("no bearer token")
			}
			fmt.Fprint(w, answered)
		}), &event.Event{Body: []byte(body)})
		return claims, path, err
	}
	claims, path, err := ask(emptyOrder, paidOrder)
	if err != nil || path != "/orders/"+orderID || providertest.DiffClaims([]payment.Claim{{GatewayID: chargeID, Reason: "order"}}, claims) != "" {
		t.Errorf("%s: %+v, %v", path, claims, err)
	}
	if claims, _, err := ask(emptyOrder, emptyOrder); err != nil || len(claims) != 0 {
		t.Errorf("an order that still has none: %+v, %v", claims, err)
	}
	for name, row := range map[string]struct {
		body, answered string
		want           error
	}{
		"another order":           {emptyOrder, strings.Replace(paidOrder, orderID, "ORDE_x", 1), provider.ErrMismatch},
		"a charge without an id":  {emptyOrder, `{"id":"` + orderID + `","charges":[{"status":"PAID"}]}`, provider.ErrUnreadable},
		"an order of 51 charges":  {emptyOrder, `{"id":"` + orderID + `","charges":[` + strings.Repeat(`{"id":"CHAR_1"},`, 50) + `{"id":"CHAR_1"}]}`, provider.ErrUnreadable},
		"an answer without an id": {emptyOrder, `{}`, provider.ErrMismatch},
	} {
		if claims, _, err := ask(row.body, row.answered); !errors.Is(err, row.want) {
			t.Errorf("%s: %+v, %v", name, claims, err)
		}
	}
	if claims, path, err := ask(paidCharge, paidOrder); err == nil || path != "" {
		t.Errorf("a charge is asked about at %q: %+v", path, claims)
	}
}

func TestWhatCannotBeAskedIsSaidWithItsSetting(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey, src.Lookup = "", provider.LookupNever
	p := build(t, src)
	if _, err := resolve(t, p, nil); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "PAGBANK_API_KEY") {
		t.Error(err)
	}
	if m := p.Parse(sign(token, []byte(emptyOrder), clock))[0]; m.Disposition != provider.Ignore || m.Reason != provider.ReasonInformational {
		t.Errorf("an order without charges, and nobody to ask: %+v", m)
	}
	p = build(t, with(source(), settings{"EMAIL": ""}))
	if _, err := resolve(t, p, nil); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "PAGBANK_EMAIL") {
		t.Error(err)
	}
	if _, err := p.Facts(formEvent()); err == nil || errors.Is(err, provider.ErrUnresolved) || !strings.Contains(err.Error(), "PAGBANK_EMAIL") {
		t.Errorf("a code without the e-mail address: %v", err)
	}
}
