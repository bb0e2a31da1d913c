package e2e

import (
	"net/http"
	"testing"
)

// What a request shows beside its secrets: a client certificate that a proxy
// has verified, and the address that it comes from.
func TestCase_A23_SendersAreJudgedByAllThatWasAskedOfThem(t *testing.T) {
	w := ownWorld(t, map[string]string{
		"INGEST_TRUSTED_PROXIES": "127.0.0.1/32", "INGEST_CLIENT_VERIFIED_HEADER": "X-Client-Verify: SUCCESS",
		"EFI_AUTH": "mtls", "EFI_WEBHOOK_SECRETS": "", "EFI_LOJA2_ALLOWED_IPS": "34.193.116.226",
		"IUGU_ALLOWED_IPS": "98.82.243.132,54.207.210.151",
	})
	send := func(r request, header http.Header) reply {
		for name, values := range header {
			r.header[name] = values
		}
		return w.post(r)
	}
	verified, from := "X-Client-Verify", "X-Forwarded-For"
	t.Run("efi by certificate", func(t *testing.T) {
		g := &efiGateway
		s := newSale(g).paid()
		w.api.tells(g, s)
		body := g.body(newHook("paid", "", s))
		bare := func() request { return g.with("default", credentials{suffix: "/pix"}, body) }
		for _, c := range []struct {
			name   string
			header http.Header
			status int
		}{
			{"without a certificate", nil, 401}, {"with one that failed", http.Header{verified: {"FAILED"}}, 401}, {"with two answers", http.Header{verified: {"SUCCESS", "FAILED"}}, 401},
			{"with an empty answer", http.Header{verified: {""}}, 401}, {"with one that was verified", http.Header{verified: {"SUCCESS"}}, 200},
		} {
			if r := send(bare(), c.header); r.status != c.status {
				t.Errorf("%s: %d %q, want %d", c.name, r.status, r.body, c.status)
			}
		}
		w.in(t).wantCredited(g, s)
	})
	t.Run("addresses", func(t *testing.T) {
		for _, c := range []struct {
			name   string
			hops   []string
			status int
		}{
			{"the gateway's", []string{"34.193.116.226"}, 200}, {"the gateway's last", []string{"203.0.113.9, 34.193.116.226"}, 200},
			{"the gateway's before another", []string{"34.193.116.226, 203.0.113.9"}, 403}, {"another", []string{"203.0.113.9"}, 403},
			{"the gateway's in a header before another", []string{"34.193.116.226", "203.0.113.9"}, 403}, {"none", nil, 403}, {"nonsense", []string{"34.193.116.226.example"}, 403},
		} {
			g := &efiGateway
			body := g.body(newHook("paid", "", newSale(g).paid()))
			r := send(g.request("loja2", secretsOf(g, "loja2")[0], body), http.Header{from: c.hops})
			if r.status != c.status {
				t.Errorf("%s: %d %q, want %d", c.name, r.status, r.body, c.status)
			}
		}
		g := &iuguGateway
		body := g.body(newHook("paid", "", newSale(g).paid()))
		for address, status := range map[string]int{"98.82.243.132": 200, "54.207.210.151": 200, "34.193.116.226": 403} {
			if r := send(g.by(0, body), http.Header{from: {address}}); r.status != status {
				t.Errorf("iugu from %s: %d %q, want %d", address, r.status, r.body, status)
			}
		}
		if r := send(g.oddly("iugu-e2e-another-0123456789", body), http.Header{from: {"98.82.243.132"}}); r.status != 401 {
			t.Errorf("from the right address without the token: %d %q", r.status, r.body)
		}
	})
}

// A key set that is not to be had says nothing of a signature: neither yes nor
// no, but come again.
func TestCase_G13_WithoutItsKeysPagarmeIsAskedToComeAgain(t *testing.T) {
	w, g := ownWorld(t, map[string]string{"PAGARME_JWKS_URL": "http://127.0.0.1:1/jwks.json"}), &pagarmeGateway
	body := g.body(newHook("paid", "evt_g13", newSale(g).paid()))
	r := w.post(g.by(1, body))
	if r.status != http.StatusServiceUnavailable {
		t.Errorf("%d %q, want 503", r.status, r.body)
	}
	if _, found := w.withBody(g, body); found {
		t.Error("a body that nobody could check is stored")
	}
	if r := w.post(g.oddly("alg=none; kid=x; signature=", body)); r.status != g.refused {
		t.Errorf("what is no signature at all: %d %q, want %d", r.status, r.body, g.refused)
	}
}
