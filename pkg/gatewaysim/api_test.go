package gatewaysim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// ask sends one request to the API and decodes the answer.
func ask(t *testing.T, base, path string, header http.Header) (int, map[string]any, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if len(body) > 0 {
		dec := json.NewDecoder(strings.NewReader(string(body)))
		dec.UseNumber()
		if err := dec.Decode(&m); err != nil {
			t.Fatalf("%s: %v: %s", path, err, body)
		}
	}
	return resp.StatusCode, m, resp.Header
}

func keyHeader(t *testing.T, s *gatewaysim.Sim, source string) http.Header {
	t.Helper()
	c, ok := s.Credentials(source)
	if !ok {
		t.Fatalf("no credentials of %s", source)
	}
	if strings.HasPrefix(source, "asaas") {
		return http.Header{"access_token": {c.APIKey}}
	}
	return http.Header{"Authorization": {"Bearer " + c.APIKey}}
}

func find(t *testing.T, s *gatewaysim.Sim, gateway string, kind gatewaysim.Kind) (int, gatewaysim.Payment) {
	t.Helper()
	for i, p := range s.Truth() {
		if p.Gateway == gateway && p.Account == "default" && p.Kind == kind {
			return i, p
		}
	}
	t.Fatalf("no payment of kind %s at %s", kind, gateway)
	return 0, gatewaysim.Payment{}
}

func serve(t *testing.T, s *gatewaysim.Sim) string {
	t.Helper()
	srv := httptest.NewServer(s.APIHandler())
	t.Cleanup(srv.Close)
	return srv.URL
}

var paymentPath = map[string]string{"stripe": "/v1/payment_intents/", "asaas": "/v3/payments/", "pagpolar": "/sales/"}

func TestTheAPIWantsItsOwnAccountsKey(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 200, Gateways: threeAndASecond})
	s.PublishAll()
	base := serve(t, s)
	for gateway, path := range paymentPath {
		_, p := find(t, s, gateway, gatewaysim.KindCreated)
		other := "asaas"
		if gateway == "asaas" {
			other = "stripe"
		}
		for name, header := range map[string]http.Header{
			"none":              {},
			"another gateway's": keyHeader(t, s, other),
			"empty bearer":      {"Authorization": {"Bearer "}},
		} {
			if status, _, _ := ask(t, base, path+p.ID, header); status != http.StatusUnauthorized {
				t.Errorf("%s with key %s: status %d, want 401", gateway, name, status)
			}
		}
		if status, m, _ := ask(t, base, path+p.ID, keyHeader(t, s, gateway)); status != http.StatusOK || m["id"] == nil {
			t.Errorf("%s: status %d, %v", gateway, status, m)
		}
		if status, _, _ := ask(t, base, path+"no-such-id", keyHeader(t, s, gateway)); status != http.StatusNotFound {
			t.Errorf("%s: an unknown id gives %d, want 404", gateway, status)
		}
	}
	_, p := find(t, s, "stripe", gatewaysim.KindPaid)
	if status, _, _ := ask(t, base, paymentPath["stripe"]+p.ID, keyHeader(t, s, "stripe/loja2")); status != http.StatusNotFound {
		t.Errorf("another account's payment gives %d, want 404", status)
	}
}

func TestTheAPIKnowsWhatWasPublished(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 200})
	base, header := serve(t, s), keyHeader(t, s, "asaas")
	i, p := find(t, s, "asaas", gatewaysim.KindExpiredThenPaid)
	status := func() any {
		code, m, _ := ask(t, base, "/v3/payments/"+p.ID, header)
		if code == http.StatusNotFound {
			return nil
		}
		return m["status"]
	}
	if got := status(); got != nil {
		t.Errorf("before the first step: %v", got)
	}
	s.Publish(i, 0)
	if got := status(); got != "PENDING" {
		t.Errorf("after the first step: %v", got)
	}
	s.Publish(i, p.Steps-1)
	s.Publish(i, 0) // a late one takes nothing back
	if got := status(); got != "RECEIVED" {
		t.Errorf("after the last step: %v", got)
	}
}

func TestStripesAPIExpandsOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 300})
	s.PublishAll()
	base, header := serve(t, s), keyHeader(t, s, "stripe")
	_, p := find(t, s, "stripe", gatewaysim.KindPartRefunded)
	path := "/v1/payment_intents/" + p.ID
	_, plain, _ := ask(t, base, path, header)
	charge, ok := plain["latest_charge"].(string)
	if !ok {
		t.Fatalf("latest_charge is expanded without being asked for: %v", plain["latest_charge"])
	}
	query := url.Values{"expand[]": {"latest_charge.balance_transaction", "latest_charge.refunds"}}
	_, full, _ := ask(t, base, path+"?"+query.Encode(), header)
	for _, field := range []string{"latest_charge.balance_transaction.fee", "latest_charge.balance_transaction.net", "latest_charge.refunds.data.0.status", "latest_charge.refunds.has_more"} {
		if _, ok := at(full, field); !ok {
			t.Errorf("no %s in %v", field, full["latest_charge"])
		}
	}
	_, c, _ := ask(t, base, "/v1/charges/"+charge, header)
	if _, isText := c["balance_transaction"].(string); !isText || c["refunds"] != nil {
		t.Errorf("a charge is expanded without being asked for: %v", c)
	}
	if code, txn, _ := ask(t, base, "/v1/balance_transactions/"+c["balance_transaction"].(string), header); code != http.StatusOK || txn["fee"] == nil {
		t.Errorf("balance transaction: %d %v", code, txn)
	}
}

func TestStripesListsHavePages(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 600, Gateways: []string{"stripe"}})
	s.PublishAll()
	base, header := serve(t, s), keyHeader(t, s, "stripe")
	pages := 0
	for _, p := range s.Truth() {
		if p.Kind != gatewaysim.KindRefunded && p.Kind != gatewaysim.KindPartRefunded {
			continue
		}
		query := url.Values{"payment_intent": {p.ID}, "limit": {"1"}}
		var sum int64
		for n := 1; ; n++ {
			_, list, _ := ask(t, base, "/v1/refunds?"+query.Encode(), header)
			data := list["data"].([]any)
			if len(data) != 1 {
				t.Fatalf("page %d has %d refunds", n, len(data))
			}
			amount, _ := data[0].(map[string]any)["amount"].(json.Number).Int64()
			sum += amount
			if pages = max(pages, n); list["has_more"] == false {
				break
			}
			query.Set("starting_after", data[0].(map[string]any)["id"].(string))
		}
		if sum != p.Refunded {
			t.Errorf("%s: the pages add up to %d, the truth is %d", p.ID, sum, p.Refunded)
		}
	}
	if pages != 3 {
		t.Errorf("the longest list has %d pages, want 3", pages)
	}
}

func TestTheOtherListsOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 300})
	s.PublishAll()
	base := serve(t, s)
	_, lost := find(t, s, "stripe", gatewaysim.KindDisputeLost)
	_, disputes, _ := ask(t, base, "/v1/disputes?payment_intent="+lost.ID, keyHeader(t, s, "stripe"))
	if got, _ := at(disputes, "data.0.status"); got != "lost" {
		t.Errorf("dispute status %v", got)
	}
	_, refunded := find(t, s, "asaas", gatewaysim.KindRefunded)
	_, list, _ := ask(t, base, "/v3/payments/"+refunded.ID+"/refunds", keyHeader(t, s, "asaas"))
	if got, _ := at(list, "data.0.status"); got != "DONE" {
		t.Errorf("refund status %v", got)
	}
	_, found, _ := ask(t, base, "/v3/payments?externalReference="+url.QueryEscape(refunded.Reference), keyHeader(t, s, "asaas"))
	if got, _ := at(found, "data.0.id"); got != refunded.ID {
		t.Errorf("found by reference: %v", got)
	}
	_, sale := find(t, s, "pagpolar", gatewaysim.KindPartRefunded)
	_, refunds, _ := ask(t, base, "/refunds?sale_identifier="+sale.ID, keyHeader(t, s, "pagpolar"))
	if got, _ := at(refunds, "data.0.status"); got != "DONE" {
		t.Errorf("refund status %v", got)
	}
}

func TestTheAPIFailsAsConfigured(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 200, API: gatewaysim.API{
		Latency: time.Millisecond, Jitter: time.Millisecond, TooMany: .3, ServerErrors: .3, RetryAfter: 1500 * time.Millisecond}})
	s.PublishAll()
	base, header := serve(t, s), keyHeader(t, s, "pagpolar")
	_, p := find(t, s, "pagpolar", gatewaysim.KindPaid)
	n := map[int]int{}
	begin := time.Now()
	for range 400 {
		status, _, h := ask(t, base, "/sales/"+p.ID, header)
		if n[status]++; status == http.StatusTooManyRequests && h.Get("Retry-After") != "2" {
			t.Fatalf("Retry-After is %q, want 2", h.Get("Retry-After"))
		}
	}
	if spent := time.Since(begin); spent < 400*time.Millisecond {
		t.Errorf("400 answers of at least 1 ms took %s", spent)
	}
	if n[429] < 80 || n[429] > 160 || n[500] == 0 || n[503] == 0 || n[500]+n[503] < 50 || n[500]+n[503] > 125 {
		t.Errorf("answers %v; 120 of 429 and 84 of 5xx expected", n)
	}
}

func TestStaleAnswersEnd(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 200, API: gatewaysim.API{Stale: .5, StaleFor: 400 * time.Millisecond}})
	base, header := serve(t, s), keyHeader(t, s, "pagpolar")
	i, p := find(t, s, "pagpolar", gatewaysim.KindFailedThenPaid)
	s.Publish(i, p.Steps-2)
	for range 20 { // a step that a receiver could not notice is never held back
		if _, m, _ := ask(t, base, "/sales/"+p.ID, header); m["status"] != "REFUSED" {
			t.Fatalf("status %v", m["status"])
		}
	}
	s.Publish(i, p.Steps-1)
	n := map[any]int{}
	for begin := time.Now(); time.Since(begin) < 200*time.Millisecond; {
		_, m, _ := ask(t, base, "/sales/"+p.ID, header)
		n[m["status"]]++
	}
	if n["REFUSED"] == 0 || n["PAID"] == 0 || len(n) != 2 {
		t.Errorf("while the replica lags: %v", n)
	}
	deadline := time.Now().Add(10 * time.Second)
	for fresh := 0; fresh < 50; fresh++ {
		if _, m, _ := ask(t, base, "/sales/"+p.ID, header); m["status"] != "PAID" {
			fresh = 0
		}
		if time.Now().After(deadline) {
			t.Fatal("the replica never catches up")
		}
	}
}
