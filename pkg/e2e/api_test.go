package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeAPI is the lookup API of all gateways at one address. It says what a
// test has told it, to the account whose key is shown.
type fakeAPI struct {
	url string

	mu     sync.Mutex
	sales  map[string]sale // by source and id
	fails  map[string]int  // status to answer instead
	delays map[string]time.Duration
	asked  map[string]int
}

func newFakeAPI(t testing.TB) *fakeAPI {
	t.Helper()
	a := &fakeAPI{sales: map[string]sale{}, fails: map[string]int{}, delays: map[string]time.Duration{}, asked: map[string]int{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g, id := a.question(r)
	source := ""
	if g != nil {
		key := r.Header.Get("access_token")
		if key == "" {
			key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		for _, acct := range accounts {
			if key == apiKeyOf(g, acct) {
				source = sourceName(g, acct)
			}
		}
	}
	if source == "" {
		http.Error(w, `{}`, http.StatusUnauthorized)
		return
	}
	key := source + " " + id
	a.mu.Lock()
	a.asked[key]++
	delay, status := a.delays[key], a.fails[key]
	s, known := a.sales[key]
	a.mu.Unlock()
	time.Sleep(delay)
	switch {
	case status != 0:
		http.Error(w, `{}`, status)
	case !known:
		http.Error(w, `{}`, http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(g.answer(r.URL.Path, s)))
	}
}

// question says which payment of which gateway is asked for. Ids are read
// from the escaped path: an id that broke out of its segment is another one.
func (a *fakeAPI) question(r *http.Request) (*gateway, string) {
	if r.URL.Path == "/refunds" {
		return &pagpolarGateway, r.URL.Query().Get("sale_identifier")
	}
	for prefix, g := range map[string]*gateway{"/v1/payment_intents/": &stripeGateway, "/v3/payments/": &asaasGateway, "/sales/": &pagpolarGateway} {
		if escaped, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix); ok && !strings.Contains(escaped, "/") {
			return g, strings.TrimPrefix(r.URL.Path, prefix)
		}
	}
	return nil, ""
}

// says makes an answer true for an account of a gateway.
func (a *fakeAPI) says(g *gateway, account string, s sale) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sales[sourceName(g, account)+" "+s.id] = s
}

// fail makes questions about a payment fail; 0 ends that.
func (a *fakeAPI) fail(g *gateway, id string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails[g.name+" "+id] = status
}

// slow makes answers about a payment slow.
func (a *fakeAPI) slow(g *gateway, id string, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delays[g.name+" "+id] = delay
}

func (a *fakeAPI) questions(g *gateway, id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[g.name+" "+id]
}
