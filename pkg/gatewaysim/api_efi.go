package gatewaysim

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// efiTokenUses is how many questions an access token answers before it is
// revoked: long before the hour that its owner was promised.
const efiTokenUses = 200

// efiTokens are the access tokens of one API, and what is left of each.
type efiTokens struct {
	mu   sync.Mutex
	made int
	left map[string]int
	of   map[string]*account
}

func (t *efiTokens) give(a *account) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	token := "sim-access-" + strconv.Itoa(t.made) + "-" + efiClientID(a.source)
	t.left[token], t.of[token] = efiTokenUses, a
	return token
}

func (t *efiTokens) use(token string) *account {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left[token] == 0 {
		return nil
	}
	t.left[token]--
	return t.of[token]
}

func (g efi) serve(mux *http.ServeMux, s *Sim) {
	tokens := &efiTokens{left: map[string]int{}, of: map[string]*account{}}
	refuse := func(w http.ResponseWriter) {
		answer(w, http.StatusUnauthorized, object{{"error", "invalid_client"}, {"error_description", "Invalid or inactive credentials"}})
	}
	mux.HandleFunc("POST /efi/oauth/token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		a := s.accountOf("efi", secret)
		if a == nil || id != efiClientID(a.source) {
			refuse(w)
			return
		}
		answer(w, http.StatusOK, object{{"access_token", tokens.give(a)}, {"token_type", "Bearer"}, {"expires_in", 3600}, {"scope", "pix.read"}})
	})
	mux.HandleFunc("GET /efi/v2/pix/{id}", func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		a := tokens.use(token)
		if a == nil {
			refuse(w)
			return
		}
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil {
			answer(w, http.StatusNotFound, object{{"nome", "pix_nao_encontrado"}, {"mensagem", "Nenhum Pix encontrado para o e2eid informado"}})
			return
		}
		answer(w, http.StatusOK, g.item(p, st, true))
	})
}
