package e2e

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestCase_A14_FormsAreCheckedAndKeptAsTheyCame(t *testing.T) {
	forms := func(g *gateway) bool { return g.form }
	inWorld(t).eachThat(forms, func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		plain := g.body(newHook("paid", "", s))
		body := append(append([]byte{}, plain...), "&transaction%5Bmetadata%5D%5Bx%5D=a+b%20c&x="...)
		// What a framework would have made of it.
		values, err := url.ParseQuery(string(body))
		if err != nil {
			w.t.Fatal(err)
		}
		w.forge(g, body, []byte(values.Encode()))
		w.forge(g, body, []byte(strings.ReplaceAll(string(body), "%20", "+")))
		w.forge(g, body, []byte(strings.TrimSuffix(string(body), "&x=")))
		w.take(g, body)
		w.wantStored(g, body)
		w.wantCredited(g, s)
		// A mark before the first key is no part of it.
		for _, mark := range []string{"\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbf"} {
			s := newSale(g).paid()
			w.api.tells(g, s)
			body := []byte(mark + string(g.body(newHook("paid", "", s))))
			w.take(g, body)
			w.wantStored(g, body)
			w.wantCredited(g, s)
		}
	})
}

func TestCase_A14_SignaturesOfPostbacksInEverySpelling(t *testing.T) {
	w, g := inWorld(t), &pagarmeV4Gateway
	keys := secretsOf(g, "v4")
	for _, c := range []struct {
		name   string
		value  func(body []byte) []string
		status int
		label  string
	}{
		{"with its prefix", func(b []byte) []string { return []string{"sha1=" + pagarmeV4Digest(keys[1], b)} }, 200, "2"},
		{"without its prefix", func(b []byte) []string { return []string{pagarmeV4Digest(keys[1], b)} }, 200, "2"},
		{"by the older key", func(b []byte) []string { return []string{"sha1=" + pagarmeV4Digest(keys[0], b)} }, 200, "1"},
		{"in upper-case hex", func(b []byte) []string { return []string{"sha1=" + strings.ToUpper(pagarmeV4Digest(keys[1], b))} }, 200, "2"},
		{"by a wrong key", func(b []byte) []string { return []string{"sha1=" + pagarmeV4Digest("ak_live_another", b)} }, 400, ""},
		{"by an empty key", func(b []byte) []string { return []string{"sha1=" + pagarmeV4Digest("", b)} }, 400, ""},
		{"that is the SHA-1 of the body", func(b []byte) []string { s := sha1.Sum(b); return []string{"sha1=" + hex.EncodeToString(s[:])} }, 400, ""},
		{"by the key with a line feed", func(b []byte) []string { return []string{"sha1=" + pagarmeV4Digest(keys[1]+"\n", b)} }, 400, ""},
		{"with another prefix", func(b []byte) []string { return []string{"sha256=" + pagarmeV4Digest(keys[1], b)} }, 400, ""},
		{"with its prefix twice", func(b []byte) []string { return []string{"sha1=sha1=" + pagarmeV4Digest(keys[1], b)} }, 400, ""},
		{"cut short", func(b []byte) []string { return []string{"sha1=" + pagarmeV4Digest(keys[1], b)[:38]} }, 400, ""},
		{"in two headers", func(b []byte) []string {
			return []string{"sha1=" + pagarmeV4Digest(keys[1], b), "sha1=" + pagarmeV4Digest(keys[1], b)}
		}, 400, ""},
		{"of the form written anew", func(b []byte) []string {
			values, _ := url.ParseQuery(string(b))
			mac := hmac.New(sha1.New, []byte(keys[1]))
			mac.Write([]byte(values.Encode()))
			return []string{"sha1=" + hex.EncodeToString(mac.Sum(nil))}
		}, 400, ""},
		{"not at all", func([]byte) []string { return nil }, 400, ""},
	} {
		s := newSale(g).paid()
		body := append(g.body(newHook("paid", "", s)), "&x=a+b%20c"...)
		r := g.with("v4", credentials{header: http.Header{"X-Hub-Signature": c.value(body)}}, body)
		if answer := w.post(r); answer.status != c.status {
			t.Errorf("signed %s: %d %q, want %d", c.name, answer.status, answer.body, c.status)
		}
		e, found := w.withBody(g, body)
		if found != (c.status == 200) || e.Secret != c.label {
			t.Errorf("signed %s: stored %v with secret %q, want %q", c.name, found, e.Secret, c.label)
		}
		if c.status == 200 {
			w.wantCredited(g, s)
		}
	}
}

// PagBank's second format: a code, which says nothing by itself.
func TestCase_A14_ANotificationCodeMovesMoneyByWhatItIsAskedFor(t *testing.T) {
	w, g := inWorld(t), &pagbankGateway
	form := func(s sale) []byte {
		return []byte("notificationCode=" + strings.TrimPrefix(s.id, "CHAR_") + "&notificationType=transaction")
	}
	for last, want := range map[string][2]string{"won": {"paid", "capture 10010"}, "lost": {"charged_back", "capture 10010, chargeback 10010"}} {
		s := newSale(g).paid()
		w.api.tells(g, s)
		w.take(g, g.body(newHook("paid", "", s)))
		w.wantCredited(g, s)
		for _, status := range []string{"disputed", last} {
			s.status = status
			w.api.tells(g, s)
			w.take(g, form(s)) // the same code: it is asked about again
			status := strings.NewReplacer("won", want[0], "lost", want[0]).Replace(status)
			eventually(t, 10*time.Second, "the payment is "+status, func() bool { return w.payment(g, s.id).Status == status })
		}
		w.take(g, form(s))
		eventually(t, 10*time.Second, "the code is settled", func() bool {
			return queryOne[bool](t, w.db, `SELECT NOT EXISTS (SELECT FROM event_work w JOIN events e ON e.id = w.event_id WHERE e.provider_event_id = $1)`, strings.TrimPrefix(s.id, "CHAR_"))
		})
		if got := strings.Replace(w.ledger(g, s.id), ", chargeback 10010, chargeback_reversal 10010", "", 1); got != want[1] {
			t.Errorf("after %s the ledger is %q, want %q", last, got, want[1])
		}
	}
	// Without the secret in its address nobody knows who posts a code; with
	// it alone nobody may post a charge.
	unsigned := newSale(g).paid()
	for name, r := range map[string]request{
		"a code to the plain address":           g.with("default", credentials{}, form(unsigned)),
		"a code to another secret":              g.with("default", credentials{suffix: "/" + pagbankNotificationSecret + "x"}, form(unsigned)),
		"a charge without signature":            g.with("default", credentials{}, g.body(newHook("paid", "", unsigned))),
		"a charge to the address of the codes":  g.with("default", credentials{suffix: "/" + pagbankNotificationSecret}, g.body(newHook("paid", "", unsigned))),
		"a charge behind the letter of a form":  g.with("default", credentials{suffix: "/" + pagbankNotificationSecret}, []byte("notificationCode="+string(g.body(newHook("paid", "", unsigned))))),
		"a form that is a code and a charge":    g.with("default", credentials{suffix: "/" + pagbankNotificationSecret}, append(form(unsigned), "&notificationCode=2"...)),
		"a form that is no code":                g.with("default", credentials{suffix: "/" + pagbankNotificationSecret}, []byte("id=1&status=PAID")),
		"a signature of the recurring payments": g.with("default", credentials{header: http.Header{"X-Payload-Signature": {"MEUCIQ=="}}}, g.body(newHook("paid", "", unsigned))),
	} {
		if answer := w.post(r); answer.status != g.refused {
			t.Errorf("%s: %d %q, want %d", name, answer.status, answer.body, g.refused)
		}
		if _, found := w.withBody(g, r.body); found {
			t.Errorf("%s is stored", name)
		}
	}
	// A mark before the form, which is the only key that matters.
	marked := newSale(g).paid()
	w.api.tells(g, marked)
	w.take(g, g.body(newHook("paid", "", marked)))
	w.wantCredited(g, marked)
	marked.status = "disputed"
	w.api.tells(g, marked)
	r := g.with("default", credentials{suffix: "/" + pagbankNotificationSecret}, append([]byte("\xef\xbb\xbf"), form(marked)...))
	if answer := w.post(r); answer.status != 200 {
		t.Errorf("a mark before a code: %d %q", answer.status, answer.body)
	}
	eventually(t, 10*time.Second, "the marked code is asked about", func() bool { return w.payment(g, marked.id).Status == "disputed" })
}
