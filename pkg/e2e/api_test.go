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
	g, path := a.gateway(r)
	if g != nil && g.serve != nil && g.serve(w, r, path) {
		return
	}
	account := ""
	if g != nil {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if g.key != nil {
			key = g.key(r)
		}
		for _, acct := range g.accounts {
			if key == apiKeyOf(g, acct) {
				account = acct
			}
		}
	}
	if account == "" {
		http.Error(w, `{}`, http.StatusUnauthorized)
		return
	}
	key := sourceName(g, account) + " " + g.asks(path, r.URL.Query())
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
		_, _ = w.Write([]byte(g.answer(r, s)))
	}
}

// gateway says whose API is asked, and the rest of the escaped path.
func (a *fakeAPI) gateway(r *http.Request) (*gateway, string) {
	for _, g := range gateways {
		if path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/"+g.String()+"/"); ok {
			return g, "/" + path
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

// tells makes an answer true for the account that the cases use.
func (a *fakeAPI) tells(g *gateway, s sale) { a.says(g, g.home(), s) }

// homeKey names a payment of that account.
func homeKey(g *gateway, id string) string { return sourceName(g, g.home()) + " " + id }

// fail makes questions about a payment fail; 0 ends that.
func (a *fakeAPI) fail(g *gateway, id string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails[homeKey(g, id)] = status
}

// slow makes answers about a payment slow.
func (a *fakeAPI) slow(g *gateway, id string, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delays[homeKey(g, id)] = delay
}

func (a *fakeAPI) questions(g *gateway, id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[homeKey(g, id)]
}
