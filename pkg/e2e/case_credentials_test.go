package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refusal waits for the newest line about a gateway in the list of refused
// requests that is younger than a time.
func (w *testWorld) refusal(g *gateway, since time.Time, holds func(reason, detail string) bool) (all []string) {
	w.t.Helper()
	type line struct{ Reason, Detail string }
	eventually(w.t, 5*time.Second, "the refused request is in the list", func() bool {
		all = nil
		for _, l := range queryAll[line](w.t, w.db, `
SELECT reason, COALESCE(detail, '') FROM rejected_deliveries WHERE provider = $1 AND account = $2 AND at >= $3`, g.name, g.home(), since) {
			all = append(all, l.Reason+": "+l.Detail)
			if holds(l.Reason, l.Detail) {
				return true
			}
		}
		return false
	})
	return all
}

func TestCase_A15_EitherSpellingOfASignedIdWillDoAndARefusalShowsWhatWasSigned(t *testing.T) {
	w, g := inWorld(t), &mercadopagoOrders
	secrets := secretsOf(g, "pedidos")
	begun := time.Now().Add(-time.Second)
	send := func(s sale, secret, signed, sent string) (reply, []byte) {
		body := g.body(newHook("paid", "evt_"+s.id+signed+sent, s))
		return w.post(g.with("pedidos", mercadopagoCredentials(secret, signed, sent, "order"), body)), body
	}
	for name, spell := range map[string]func(id string) (signed, sent string){
		"as sent":            func(id string) (string, string) { return id, id },
		"in lower case":      func(id string) (string, string) { return strings.ToLower(id), id },
		"sent in lower case": func(id string) (string, string) { return strings.ToLower(id), strings.ToLower(id) },
	} {
		s := newSale(g).paid()
		w.api.tells(g, s)
		signed, sent := spell(s.id)
		if r, _ := send(s, secrets[1], signed, sent); r.status != 200 {
			t.Errorf("%s: %d %q", name, r.status, r.body)
		}
		w.wantCredited(g, s)
	}
	s := newSale(g).paid()
	for name, c := range map[string]struct{ secret, signed string }{
		"another secret": {"mp_e2e_another_secret_0123456789", s.id}, "another id": {secrets[0], "ORD01ANOTHER"}, "upper case of a letter": {secrets[0], strings.Replace(s.id, "ORD", "OrD", 1)},
		"nothing": {secrets[0], ""},
	} {
		r, body := send(s, c.secret, c.signed, s.id)
		if r.status != 401 {
			t.Errorf("signed with %s: %d %q, want 401", name, r.status, r.body)
		}
		if _, found := w.withBody(g, body); found {
			t.Errorf("signed with %s: stored", name)
		}
	}
	// On-call sees both texts that would have done, without the secret.
	lines := w.refusal(g, begun, func(reason, detail string) bool {
		return reason == "digest_differs" && strings.Contains(detail, "id:"+s.id+";request-id:") && strings.Contains(detail, "id:"+strings.ToLower(s.id)+";request-id:")
	})
	for _, l := range lines {
		if strings.Contains(l, secrets[0]) || strings.Contains(l, secrets[1]) {
			t.Error("the list of refused requests shows a secret")
		}
	}
}

func TestCase_A15_WhatIsNotTheAddresssIdIsNotBelieved(t *testing.T) {
	w, g := inWorld(t), &mercadopagoGateway
	secret := secretsOf(g, "default")[1]
	asked, named := newSale(g).paid(), newSale(g).paid()
	w.api.tells(g, asked)
	w.api.tells(g, named)
	// The body names another payment: the address is signed, the body is not.
	body := g.body(newHook("paid", "evt_"+named.id, named))
	if r := w.post(g.with("default", mercadopagoCredentials(secret, asked.id, asked.id, "payment"), body)); r.status != 200 {
		t.Errorf("%d %q", r.status, r.body)
	}
	w.wantCredited(g, asked)
	if e := w.about(g, named.id); len(e) != 0 {
		t.Errorf("the payment that an unsigned body names has the events %v", e)
	}
	// The older notifications cannot be checked at all.
	for name, query := range map[string]string{"an older notification": "id=" + asked.id + "&topic=payment", "an address without an id": "type=payment", "nothing": ""} {
		c := mercadopagoCredentials(secret, asked.id, asked.id, "payment")
		c.query = query
		if r := w.post(g.with("default", c, g.body(newHook("paid", "evt_ipn", asked)))); r.status != g.refused {
			t.Errorf("%s: %d %q, want %d", name, r.status, r.body, g.refused)
		}
	}
	// A request id that was changed on the way is not the one that was signed.
	r := g.by(1, body)
	r.header.Set("X-Request-Id", "another")
	if answer := w.post(r); answer.status != g.refused {
		t.Errorf("another request id: %d %q, want %d", answer.status, answer.body, g.refused)
	}
}

// sends are headers of signatures over one body.
type sends struct {
	name   string
	value  func(body []byte) string
	status int
	label  string
}

func (w *testWorld) signatures(g *gateway, account string, all []sends, request func(value string, body []byte) request) {
	w.t.Helper()
	for _, c := range all {
		s := newSale(g).paid()
		w.api.says(g, account, s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		if r := w.post(request(c.value(body), body)); r.status != c.status {
			w.t.Errorf("%s: %d %q, want %d", c.name, r.status, r.body, c.status)
		}
		found := queryAll[struct{ Secret string }](w.t, w.db, `SELECT secret FROM events WHERE provider = $1 AND account = $2 AND payment_ref = $3`, g.name, account, s.id)
		if len(found) > 0 != (c.status == 200) || len(found) > 0 && found[0].Secret != c.label {
			w.t.Errorf("%s: stored as %v, want secret %q", c.name, found, c.label)
		}
	}
}

func TestCase_A19_AnyOfTheSignaturesOfARolledSecretWillDo(t *testing.T) {
	w := inWorld(t)
	t.Run("stripe", func(t *testing.T) {
		g, stamp := &stripeGateway, fmt.Sprint(time.Now().Unix())
		secrets := secretsOf(g, "default")
		w.in(t).signatures(g, "default", []sends{
			{"the old one first", func(b []byte) string {
				return "t=" + stamp + ",v1=" + stripeDigest("whsec_unknown", stamp, b) + ",v1=" + stripeDigest(secrets[1], stamp, b) + ",v0=junk"
			}, 200, "2"},
			{"the old one alone", func(b []byte) string { return "t=" + stamp + ",v1=" + stripeDigest(secrets[0], stamp, b) }, 200, "1"},
			{"v0 alone", func(b []byte) string { return "t=" + stamp + ",v0=" + stripeDigest(secrets[1], stamp, b) }, 400, ""},
			{"the other account's", func(b []byte) string {
				return "t=" + stamp + ",v1=" + stripeDigest(secretsOf(g, "loja2")[0], stamp, b)
			}, 400, ""},
		}, g.oddly)
	})
	for _, account := range []string{"default", "loja2"} { // shared secrets, and key pairs
		t.Run("standardwebhooks "+account, func(t *testing.T) {
			g, stamp := &standardWebhooksGateway, fmt.Sprint(time.Now().Unix())
			secrets, others := secretsOf(g, account), secretsOf(g, map[string]string{"default": "loja2", "loja2": "default"}[account])
			entry := func(secret string, b []byte) string {
				return standardWebhooksEntry(secret, found(standardWebhooksID, b, ""), stamp, b)
			}
			const unknown = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
			w.in(t).signatures(g, account, []sends{
				{"the newer after an unknown one", func(b []byte) string { return entry(unknown, b) + " " + entry(secrets[1], b) + " v2,AAAA" }, 200, "2"},
				{"the older alone", func(b []byte) string { return entry(secrets[0], b) }, 200, "1"},
				{"junk around", func(b []byte) string { return "garbage v1 v2,AAAA v1, " + entry(secrets[0], b) }, 200, "1"},
				{"an unknown one alone", func(b []byte) string { return entry(unknown, b) }, 401, ""},
				{"the other account's", func(b []byte) string { return entry(others[0], b) }, 401, ""},
				{"another version alone", func(b []byte) string {
					_, value, _ := strings.Cut(entry(secrets[1], b), ",")
					return "v0," + value
				}, 401, ""},
				{"the version of the other kind of key", func(b []byte) string {
					version, value, _ := strings.Cut(entry(secrets[1], b), ",")
					return map[string]string{"v1": "v1a", "v1a": "v1"}[version] + "," + value
				}, 401, ""},
				{"an HMAC by the bytes of a public key", func(b []byte) string {
					return entry("whsec_"+strings.TrimPrefix(secretsOf(g, "loja2")[1], "whpk_"), b)
				}, 401, ""},
				{"a digest by an empty key", func(b []byte) string { return entry("whsec_", b) }, 401, ""},
				{"an empty entry", func([]byte) string { return "v1," }, 401, ""},
			}, func(value string, body []byte) request {
				return g.with(account, credentials{header: http.Header{
					"Webhook-Id": {found(standardWebhooksID, body, "")}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {value},
				}}, body)
			})
		})
	}
}

func TestCase_A19_AKeyThatIsRolledIsGoodBesideItsFollower(t *testing.T) {
	w, g := inWorld(t), &pagarmeGateway
	keys := pagarmeKeys()
	w.signatures(g, "default", []sends{
		{"the older key", func(b []byte) string { return pagarmeSignature(keys["key-e2e-old"], "key-e2e-old", b) }, 200, "kid:key-e2e-old"},
		{"the newer key", func(b []byte) string { return pagarmeSignature(keys["key-e2e-new"], "key-e2e-new", b) }, 200, "kid:key-e2e-new"},
		{"padding and no blanks", func(b []byte) string {
			return strings.ReplaceAll(pagarmeSignature(keys["key-e2e-new"], "key-e2e-new", b), "; ", ";") + "=="
		}, 200, "kid:key-e2e-new"},
		{"the name of the other key", func(b []byte) string { return pagarmeSignature(keys["key-e2e-old"], "key-e2e-new", b) }, 401, ""},
		{"a key that nobody published", func(b []byte) string { return pagarmeSignature(keys["key-e2e-old"], "key-e2e-unknown", b) }, 401, ""},
		{"another algorithm", func(b []byte) string {
			return strings.Replace(pagarmeSignature(keys["key-e2e-new"], "key-e2e-new", b), "RS256", "HS256", 1)
		}, 401, ""},
		{"no algorithm", func(b []byte) string {
			return strings.Replace(pagarmeSignature(keys["key-e2e-new"], "key-e2e-new", b), "RS256", "none", 1)
		}, 401, ""},
		{"the signature of another body", func(b []byte) string { return pagarmeSignature(keys["key-e2e-new"], "key-e2e-new", append(b, ' ')) }, 401, ""},
	}, g.oddly)
	// The password of loja2 is none of the keys' business.
	r := g.with("default", g.sign("loja2", secretsOf(g, "loja2")[0], nil), g.body(newHook("paid", "evt_a19", newSale(g).paid())))
	if answer := w.post(r); answer.status != 401 {
		t.Errorf("a password where signatures are wanted: %d %q", answer.status, answer.body)
	}
}

func TestCase_A21_AnAccountsCredentialsOpenNoOther(t *testing.T) {
	several := func(g *gateway) bool { return len(g.accounts) > 1 }
	inWorld(t).eachThat(several, func(w *testWorld, g *gateway) {
		for i, of := range g.accounts {
			to := g.accounts[1-i]
			s := newSale(g).paid()
			w.api.says(g, of, s)
			w.api.says(g, to, s)
			body := g.body(newHook("paid", "evt_"+s.id, s))
			for _, secret := range secretsOf(g, of) {
				r := g.with(to, g.sign(of, secret, body), body)
				// An address that does not exist is not found.
				if answer := w.post(r); answer.status != g.refused && answer.status != http.StatusNotFound {
					w.t.Errorf("credentials of %s at the address of %s: %d %q", of, to, answer.status, answer.body)
				}
			}
			if n := queryOne[int](w.t, w.db, `SELECT count(*) FROM events WHERE provider = $1 AND payment_ref = $2`, g.name, s.id); n != 0 {
				w.t.Errorf("credentials of %s let %d events in at %s", of, n, to)
			}
			if answer := w.post(g.request(of, secretsOf(g, of)[0], body)); answer.status != 200 {
				w.t.Errorf("credentials of %s at its own address: %d %q", of, answer.status, answer.body)
			}
			w.final(g, s.id)
			if got := queryOne[string](w.t, w.db, `SELECT string_agg(account, ' ') FROM payments WHERE provider = $1 AND gateway_id = $2`, g.name, s.id); got != of {
				w.t.Errorf("the payment is of the accounts %q, want %q", got, of)
			}
		}
	})
}

// All merchants of Pagar.me share its keys, so the account's id is compared.
func TestCase_A21_ASignatureForAnotherMerchantMovesNoMoney(t *testing.T) {
	w, g := inWorld(t), &pagarmeGateway
	s := newSale(g).paid()
	w.api.tells(g, s)
	body := []byte(strings.Replace(string(g.body(newHook("paid", "evt_"+s.id, s))), "acc_E2E01", "acc_ANOTHER", 1))
	w.take(g, body)
	if e := w.settledBody(g, body); e.Status != "quarantined" || !strings.Contains(e.Reason, "PAGARME_ACCOUNT_ID") {
		t.Errorf("another merchant's event is %v", e)
	}
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM payments WHERE gateway_id = $1`, s.id); n != 0 {
		t.Error("another merchant's event made a payment")
	}
}

func TestCase_A25_AnIdThatIsSignedCannotBeChanged(t *testing.T) {
	w, g := inWorld(t), &standardWebhooksGateway
	s, other := newSale(g).paid(), newSale(g).paid()
	w.api.tells(g, s)
	w.api.tells(g, other)
	body := g.body(newHook("paid", "evt_"+s.id, s))
	for name, value := range map[string]string{"Webhook-Id": "evt_another", "Webhook-Timestamp": fmt.Sprint(time.Now().Unix() - 1), "Webhook-Signature": ""} {
		r := g.by(1, body)
		r.header.Set(name, value)
		if answer := w.post(r); answer.status != 401 {
			t.Errorf("another %s: %d %q, want 401", name, answer.status, answer.body)
		}
	}
	if _, found := w.withBody(g, body); found {
		t.Error("a body under a changed id is stored")
	}
	// The sender's own new id is a new event, and one credit all the same.
	w.take(g, body)
	w.take(g, g.body(newHook("paid", "evt_again_"+s.id, s)))
	w.take(g, g.body(newHook("paid", "evt_"+other.id, other)))
	w.wantCredited(g, s)
	w.wantCredited(g, other)
	if e := w.about(g, s.id); len(e) != 2 {
		t.Errorf("two ids are %v", e)
	}
}

// The body's id is the key at Mercado Pago, and nobody signs it: whoever
// borrows one must not take the other's place.
func TestCase_A25_ABorrowedIdSwallowsNoOtherPayment(t *testing.T) {
	w, g := inWorld(t), &mercadopagoGateway
	var all []sale
	for range 3 {
		s := newSale(g).paid()
		w.api.tells(g, s)
		w.take(g, g.body(newHook("paid", "evt_borrowed", s)))
		w.take(g, g.body(newHook("paid", "evt_borrowed", s))) // each with a request id of its own
		all = append(all, s)
	}
	for _, s := range all {
		w.wantCredited(g, s)
		if e := w.about(g, s.id); len(e) != 1 || e[0].Deliveries != 2 {
			t.Errorf("one body with two request ids is %v", e)
		}
	}
}
