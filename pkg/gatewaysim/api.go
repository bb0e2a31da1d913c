package gatewaysim

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// APIHandler serves the lookup APIs of all gateways at one address: Stripe's
// below /v1, Asaas' below /v3, PagPolar's at /sales and /refunds. The API key
// says which account asks; an account sees its own payments only.
func (s *Sim) APIHandler() http.Handler {
	mux := http.NewServeMux()
	for name, g := range gateways {
		for _, a := range s.accounts {
			if a.gateway.name() == name {
				g.serve(mux, s)
				break
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := mix(s.cfg.Seed, streamAPI, s.apiSeq.Add(1))
		if !s.misbehave(w, r, call) {
			mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, call)))
		}
	})
}

type callKey struct{}

// misbehave waits as long as configured and says whether it has answered
// already, with an error.
func (s *Sim) misbehave(w http.ResponseWriter, r *http.Request, call uint64) bool {
	api := s.api.Load()
	wait := api.Latency
	if j := api.Jitter; j > 0 {
		wait += time.Duration(mix(call, 1) % uint64(j))
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return true
		}
	}
	switch h := mix(call, 2); {
	case chance(h, api.TooMany):
		after := max(1, int((api.RetryAfter+time.Second-1)/time.Second))
		w.Header().Set("Retry-After", strconv.Itoa(after))
		answer(w, http.StatusTooManyRequests, object{{"error", object{{"message", "Too many requests"}}}})
		return true
	case chance(mix(call, 3), api.ServerErrors):
		status := http.StatusInternalServerError
		if h%2 == 0 {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, object{{"error", object{{"message", "Something went wrong"}}}})
		return true
	}
	return false
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(appendJSON(nil, v))
}

// accountOf finds the account that a key belongs to.
func (s *Sim) accountOf(gateway, key string) *account {
	for _, a := range s.accounts {
		if a.gateway.name() == gateway && key != "" && a.APIKey == key {
			return a
		}
	}
	return nil
}

// view is what the API says of a payment at this request: nil while the
// payment is not public, or is another account's.
func (s *Sim) view(r *http.Request, a *account, id string) (*pay, *state) {
	p := s.byID[objectKey{a, id}]
	if p == nil {
		return nil, nil
	}
	pub := s.places[p.index].Load()
	if pub == nil {
		return nil, nil
	}
	n := int(pub.steps)
	call, _ := r.Context().Value(callKey{}).(uint64)
	api := s.api.Load()
	fresh := time.Since(time.Unix(0, pub.at)) < api.StaleFor
	if n > 1 && fresh && p.steps[n-1].mayLag && chance(mix(call, 4), api.Stale) {
		n--
	}
	return p, &p.steps[n-1].state
}
