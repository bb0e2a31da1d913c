package gatewaysim_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/mercadopago/sdk-go/pkg/config"
	sdkorder "github.com/mercadopago/sdk-go/pkg/order"
	sdkpayment "github.com/mercadopago/sdk-go/pkg/payment"
	sdkrefund "github.com/mercadopago/sdk-go/pkg/refund"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// elsewhere sends what the library asks of Mercado Pago to the simulator.
type elsewhere struct {
	base string
	http *http.Client
}

func (e elsewhere) Do(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(e.base + "/mercadopago" + r.URL.Path)
	if err != nil {
		return nil, err
	}
	r.URL, r.Host = to, ""
	return e.http.Do(r)
}

// Mercado Pago's own library for Go reads the simulator's API as it does the
// true one.
func TestMercadoPagosLibraryForGoReadsTheSimulatedAPI(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 9, Payments: 300, Gateways: bothOfMercadoPago})
	sim.PublishAll()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	configOf := func(source string) *config.Config {
		c, ok := sim.Credentials(source)
		if !ok {
			t.Fatalf("no credentials of %s", source)
		}
		cfg, err := config.New(c.APIKey, config.WithHTTPClient(elsewhere{api.URL, api.Client()}))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	payments, refunds := sdkpayment.NewClient(configOf("mercadopago")), sdkrefund.NewClient(configOf("mercadopago"))
	orders := sdkorder.NewClient(configOf("mercadopago/orders"))
	cents := func(f float64) int64 { return int64(f*100 + 0.5) } // the library has floats
	seen := map[string]int{}
	for _, want := range sim.Truth() {
		if want.Account == "orders" {
			o, err := orders.Get(t.Context(), want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if o.ID != want.ID || o.ExternalReference != want.Reference || o.TotalAmount != fmt.Sprintf("%d.%02d", want.Expected/100, want.Expected%100) {
				t.Errorf("%+v, want %+v", o, want)
			}
			seen["order "+o.Status]++
			continue
		}
		id, err := strconv.Atoi(want.ID)
		if err != nil {
			t.Fatal(err)
		}
		p, err := payments.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		amount := want.Expected
		if want.Captured > 0 {
			amount = want.Captured
		}
		if p.ID != id || p.CurrencyID != want.Currency || p.ExternalReference != want.Reference || cents(p.TransactionAmount) != amount || cents(p.TransactionAmountRefunded) != want.Refunded {
			t.Errorf("%+v, want %+v", p, want)
		}
		var fees int64
		for _, f := range p.FeeDetails {
			if f.FeePayer == "collector" {
				fees += cents(f.Amount)
			}
		}
		list, err := refunds.List(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var back int64
		for _, r := range list {
			if r.Status == "approved" {
				back += cents(r.Amount)
			}
		}
		if fees != want.Fee || back != want.Refunded || want.Captured > 0 && cents(p.TransactionDetails.NetReceivedAmount) != want.Captured-want.Fee {
			t.Errorf("fees %d, refunds %d, want %+v", fees, back, want)
		}
		seen["payment "+p.Status]++
	}
	for _, status := range []string{"payment pending", "payment approved", "payment authorized", "payment rejected", "payment cancelled", "payment refunded",
		"payment charged_back", "order processed", "order canceled", "order cancelled", "order expired", "order failed", "order refunded", "order charged_back", "order action_required"} {
		if seen[status] == 0 {
			t.Errorf("no %s: %v", status, seen)
		}
	}
}
