package gatewaysim

import (
	"encoding/base64"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
)

// pagarmeBase is before all of Pagar.me's addresses here: its API, and the
// host where it publishes its keys.
const pagarmeBase = "/pagarme"

func (g pagarme) serve(mux *http.ServeMux, s *Sim) {
	mux.HandleFunc("GET "+pagarmeBase+"/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{{"keys", g.published(s)}})
	})
	handle := func(pattern string, h func(*http.Request, *account) (any, bool)) {
		mux.HandleFunc("GET "+pagarmeBase+"/core/v5"+pattern, func(w http.ResponseWriter, r *http.Request) {
			key, password, _ := r.BasicAuth()
			a := s.accountOf("pagarme", key)
			if a == nil || password != "" || a.name == pagarmeLegacy {
				answer(w, http.StatusUnauthorized, object{{"message", "Authorization has been denied for this request."}})
				return
			}
			o, ok := h(r, a)
			if !ok { // as it comes: the contract knows of both
				status := http.StatusNotFound
				if len(r.URL.Path)%2 == 0 {
					status = http.StatusBadRequest
				}
				answer(w, status, object{{"message", "Not found."}})
				return
			}
			answer(w, http.StatusOK, o)
		})
	}
	handle("/charges/{id}", func(r *http.Request, a *account) (any, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil || p.id != r.PathValue("id") {
			return nil, false
		}
		return g.charge(p, st, true), true
	})
	handle("/orders/{id}", func(r *http.Request, a *account) (any, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil || p.id == r.PathValue("id") {
			return nil, false
		}
		return g.order(p, st), true
	})
	handle("/payables", func(r *http.Request, a *account) (any, bool) {
		p, st := s.view(r, a, r.URL.Query().Get("charge_id"))
		if p == nil {
			return pagarmePage(r, nil), true
		}
		return pagarmePage(r, g.payables(p, st)), true
	})
}

// published are the keys of all accounts; the same keys serve every merchant.
func (pagarme) published(s *Sim) []object {
	encode := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	keys := []object{{{"kty", "EC"}, {"use", "sig"}, {"kid", "of-another-kind"}, {"crv", "P-256"}, {"x", "AQ"}, {"y", "AQ"}}}
	for _, a := range s.accounts {
		if a.gateway.name() == "pagarme" && a.name != pagarmeLegacy {
			key := pagarmeKey(&a.Credentials)
			keys = append(keys, object{
				{"kty", "RSA"}, {"use", "sig"}, {"alg", "RS256"}, {"kid", pagarmeKeyID(key)}, {"n", encode(key.N)}, {"e", encode(big.NewInt(int64(key.E)))},
			})
		}
	}
	return keys
}

// pagarmePage is a page of two of a list, with the address of the next.
func pagarmePage(r *http.Request, all []object) object {
	const size = 2
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	from, to := min((page-1)*size, len(all)), min(page*size, len(all))
	next := any(nil)
	if to < len(all) {
		q := url.Values{"charge_id": {r.URL.Query().Get("charge_id")}, "page": {strconv.Itoa(page + 1)}, "size": {strconv.Itoa(size)}}
		next = "https://api.pagar.me/core/v5/payables?" + q.Encode()
	}
	return object{{"data", all[from:to]}, {"paging", object{{"total", len(all)}, {"previous", nil}, {"next", next}}}}
}
