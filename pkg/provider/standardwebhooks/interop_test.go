package standardwebhooks

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	official "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest/npmtest"
)

// peerBodies are what senders send, and what breaks verifiers.
func peerBodies(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"the vector":           testdata(t, "vector"),
		"a payment":            testdata(t, "paid"),
		"odd spacing":          []byte(`{"amount": 100.10,  "id":"pay_T1"}`),
		"line separators":      []byte("{\"name\":\"a\u2028b\u2029c\"}"),
		"escapes":              []byte(`{"url":"https:\/\/loja.example\/a\u0026b"}`),
		"accents and cards":    []byte(`{"d":"São João – R$ 10 – ₹ 99 – 💳"}`),
		"half a pair, escaped": []byte(`{"d":"\ud83d"}`),
		"100 KB":               []byte(`{"d":"` + strings.Repeat("x", 100<<10) + `"}`),
		"not JSON":             []byte("hello"),
		"a byte-order mark":    []byte("\xef\xbb\xbf{}"),
		"bytes of no encoding": {0, 1, 2, 0xff, 0xfe, '\r', '\n'},
	}
}

func TestWeAndTheOfficialGoLibraryAcceptEachOther(t *testing.T) {
	t.Parallel()
	now := time.Now()
	stamp := strconv.FormatInt(now.Unix(), 10)
	for i, secret := range []string{vectorNow, vectorOld, secretNow} {
		theirs, err := official.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		p := build(t, source(provider.Secret(secret)))
		for name, body := range peerBodies(t) {
			id := fmt.Sprintf("msg_%d", i)
			by, err := theirs.Sign(id, now, body)
			if err != nil {
				t.Fatal(err)
			}
			if _, reason := p.Verify(request(id, stamp, by, body, now)); reason != "" {
				t.Errorf("%s: signed by the library, refused by us: %s", name, reason)
			}
			ours, err := Sign(secret, id, now, body)
			if err != nil {
				t.Fatal(err)
			}
			if err := theirs.Verify(body, request(id, stamp, ours, body, now).Header); err != nil {
				t.Errorf("%s: signed by us, refused by the library: %v", name, err)
			}
		}
	}
}

// peerCase is one request that the libraries and we judge; why says on whose
// purpose the answers differ.
type peerCase struct {
	name         string
	id, stamp    string
	signature    string
	body         []byte
	secret       string
	ours, golang bool
	javascript   bool
	why, whyOfJS string // of the Go library's and of the JavaScript library's difference
}

func peerCases(t *testing.T, now time.Time) []peerCase {
	t.Helper()
	body := testdata(t, "paid")
	sign := func(secret, id string, at time.Time) string {
		s, err := Sign(secret, id, at, body)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stamp := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	const id = "msg_peer"
	good, old := sign(vectorNow, id, now), sign(vectorOld, id, now)
	asymmetric := sign(vectorPrivate, id, now)
	publicAsSecret := symmetricPrefix + strings.TrimPrefix(vectorPublic, publicPrefix)
	cases := []peerCase{
		{name: "as signed", signature: good, ours: true, golang: true, javascript: true},
		{name: "old and new", signature: old + " " + good, ours: true, golang: true, javascript: true},
		{name: "junk beside it", signature: "garbage v1 v2,AAAA " + good, ours: true, golang: true, javascript: true},
		{name: "another secret", signature: old},
		{name: "another id", id: "msg_other", signature: good},
		{name: "another time-stamp", stamp: stamp(now.Add(-time.Second)), signature: good},
		{name: "another body", body: append(bytes.Clone(body), ' '), signature: good},
		{name: "295 s old", stamp: stamp(now.Add(-295 * time.Second)), signature: sign(vectorNow, id, now.Add(-295*time.Second)), ours: true, golang: true, javascript: true},
		{name: "old", stamp: stamp(now.Add(-310 * time.Second)), signature: sign(vectorNow, id, now.Add(-310*time.Second))},
		{name: "ahead", stamp: stamp(now.Add(310 * time.Second)), signature: sign(vectorNow, id, now.Add(310*time.Second))},
		{name: "only v1a, and the shared secret", signature: asymmetric},
		{name: "v1, alone", signature: "v1,"},
		{name: "a padded key without its padding", secret: strings.TrimRight(vectorNow, "="), signature: good, ours: true, javascript: true,
			why: "the library wants padding; a pasted secret often lacks it, and means the same key"},
		{name: "a third part in the entry", signature: good + ",x", golang: true, javascript: true,
			why: "the library compares the second of any number of parts; an entry has two", whyOfJS: "the same"},
		{name: "a time-stamp with a leading zero", stamp: "0" + stamp(now), signature: good, golang: true, javascript: true,
			why: "the library signs the number that it read; what is signed is the text as sent", whyOfJS: "the same"},
		{name: "a time-stamp with a tail", stamp: stamp(now) + "abc", signature: good, javascript: true, whyOfJS: "parseInt reads as far as it can"},
		{name: "an id with a dot", id: "msg.peer", signature: sign(vectorNow, "msg.peer", now), golang: true, javascript: true,
			why: "the boundary between id and time-stamp would be ambiguous, as the specification says", whyOfJS: "the same"},
		{name: "more than 16 entries", signature: strings.Repeat("v1,x ", maxEntries) + good, golang: true, javascript: true,
			why: "our cap on the work that a stranger can cause", whyOfJS: "the same"},
		{name: "v1a by the private key, and the public one configured", secret: vectorPublic, signature: asymmetric, ours: true,
			why: "no official library knows asymmetric keys", whyOfJS: "no official library knows asymmetric keys"},
		{name: "the public key as a shared secret", secret: vectorPublic, signature: sign(publicAsSecret, id, now)},
	}
	for i := range cases {
		c := &cases[i]
		if c.id == "" {
			c.id = id
		}
		if c.stamp == "" {
			c.stamp = stamp(now)
		}
		if c.body == nil {
			c.body = body
		}
		if c.secret == "" {
			c.secret = vectorNow
		}
	}
	return cases
}

func TestWhereWeDifferFromTheOfficialGoLibraryItIsOnPurpose(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range peerCases(t, now) {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.id, c.stamp, c.signature, c.body, now)
			_, reason := build(t, source(provider.Secret(c.secret))).Verify(r)
			theirs, err := official.NewWebhook(c.secret)
			if err == nil {
				err = theirs.Verify(c.body, r.Header)
			}
			if (reason == "") != c.ours || (err == nil) != c.golang {
				t.Errorf("we: %q, the library: %v; want %v and %v", reason, err, c.ours, c.golang)
			}
			if (c.ours != c.golang) != (c.why != "") {
				t.Error("a difference needs a reason, and only a difference")
			}
		})
	}
	t.Run("an empty secret", func(t *testing.T) {
		// The tagged library takes it, so that anybody can sign; we do not start.
		body := testdata(t, "paid")
		theirs, err := official.NewWebhook("whsec_")
		if err != nil {
			t.Fatal(err)
		}
		by, err := theirs.Sign("msg_1", now, body)
		if err != nil {
			t.Fatal(err)
		}
		r := request("msg_1", strconv.FormatInt(now.Unix(), 10), by, body, now)
		if err := theirs.Verify(body, r.Header); err != nil {
			t.Errorf("the library refuses it by now (%v): remove this row", err)
		}
		if _, err := New(source("whsec_")); err == nil {
			t.Error("we accept an empty secret")
		}
		if _, reason := build(t, source()).Verify(r); reason != provider.ReasonMismatch {
			t.Errorf("signed with the empty key: %q", reason)
		}
	})
}

func TestWeAndTheOfficialJavaScriptLibraryAcceptEachOther(t *testing.T) {
	t.Parallel()
	now := time.Now()
	stamp := strconv.FormatInt(now.Unix(), 10)
	type peer struct {
		Name, Body, Ours string // the body in base64
	}
	var in []peer
	bodies := peerBodies(t)
	for name, body := range bodies {
		if !utf8.Valid(body) {
			continue // the library makes a text of the body; see below
		}
		ours, err := Sign(vectorNow, "msg_js", now, body)
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, peer{name, base64.StdEncoding.EncodeToString(body), ours})
	}
	var out map[string]struct{ Theirs, Refused string }
	err := npmtest.Run(t, `
		const { Webhook } = require("standardwebhooks");
		const hook = new Webhook(input.secret), out = {};
		for (const p of input.peers) {
			const body = Buffer.from(p.Body, "base64");
			const headers = { "webhook-id": "msg_js", "webhook-timestamp": input.stamp, "webhook-signature": p.Ours };
			let Refused = "";
			try { hook.verify(body, headers, { jsonParse: false }); } catch (e) { Refused = String(e); }
			out[p.Name] = { Theirs: hook.sign("msg_js", new Date(input.stamp * 1000), body), Refused };
		}
		return out;`, map[string]any{"secret": vectorNow, "stamp": stamp, "peers": in}, &out)
	if err != nil {
		t.Fatal(err)
	}
	p := build(t, source(vectorNow))
	for _, c := range in {
		got := out[c.Name]
		if got.Refused != "" || got.Theirs != c.Ours {
			t.Errorf("%s: we sign %q, the library %q and says %q", c.Name, c.Ours, got.Theirs, got.Refused)
		}
		if _, reason := p.Verify(request("msg_js", stamp, got.Theirs, bodies[c.Name], now)); reason != "" {
			t.Errorf("%s: signed by the library, refused by us: %s", c.Name, reason)
		}
	}
}

func TestWhereWeDifferFromTheOfficialJavaScriptLibraryItIsOnPurpose(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cases := peerCases(t, now)
	type question struct{ Secret, ID, Stamp, Signature, Body string }
	var in []question
	for _, c := range cases {
		in = append(in, question{c.secret, c.id, c.stamp, c.signature, base64.StdEncoding.EncodeToString(c.body)})
	}
	// Bytes that are no text, as the library signs them, and the empty secret.
	odd := []byte{'"', 0xff, '"'}
	oursOdd, err := Sign(vectorNow, "msg_odd", now, odd)
	if err != nil {
		t.Fatal(err)
	}
	in = append(in, question{vectorNow, "msg_odd", strconv.FormatInt(now.Unix(), 10), oursOdd, base64.StdEncoding.EncodeToString(odd)},
		question{Secret: "whsec_", Body: ""})
	var out []string
	err = npmtest.Run(t, `
		const { Webhook } = require("standardwebhooks");
		return input.map((q) => {
			try {
				new Webhook(q.Secret).verify(Buffer.from(q.Body, "base64"),
					{ "webhook-id": q.ID, "webhook-timestamp": q.Stamp, "webhook-signature": q.Signature }, { jsonParse: false });
				return "";
			} catch (e) { return String(e); }
		});`, in, &out)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		_, reason := build(t, source(provider.Secret(c.secret))).Verify(request(c.id, c.stamp, c.signature, c.body, now))
		if (reason == "") != c.ours || (out[i] == "") != c.javascript {
			t.Errorf("%s: we: %q, the library: %q; want %v and %v", c.name, reason, out[i], c.ours, c.javascript)
		}
		if (c.ours != c.javascript) != (c.whyOfJS != "") {
			t.Errorf("%s: a difference needs a reason, and only a difference", c.name)
		}
	}
	if _, reason := build(t, source(vectorNow)).Verify(request("msg_odd", strconv.FormatInt(now.Unix(), 10), oursOdd, odd, now)); reason != "" {
		t.Errorf("we refuse bytes that are no text: %s", reason)
	}
	if out[len(cases)] == "" {
		t.Error("the library keeps bytes that are no text by now: move them to the bodies that both accept")
	}
	if !strings.Contains(out[len(cases)+1], "can't be empty") {
		t.Errorf("the empty secret: %q", out[len(cases)+1])
	}
}
