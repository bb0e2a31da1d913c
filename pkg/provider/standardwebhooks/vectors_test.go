package standardwebhooks

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// The signatures of the contract's vector.
const (
	byNow     = "v1,lyqC8E8dqZi99Ec9KYeYcT+HJioNCmJ4qIykJaRplvg="
	byOld     = "v1,5EGN/iBOCzMXmWcjNwAS32SrjVfTMnOlwNsDM7A+B+E="
	byPrivate = "v1a,+zJiN32xuK9a4QxhDXXq+d4rb7kdugFXIGqK6d276rvkryXZvSbiHQK30CVYBrSvRC9SXBWNhegfolx5iw7oDg=="
	combined  = byOld + " " + byNow + " " + byPrivate
)

func vector(t testing.TB, signature string) provider.Request {
	t.Helper()
	return request(vectorID, strconv.Itoa(vectorStamp), signature, testdata(t, "vector"), clock)
}

func TestTheVectorsOfTheContract(t *testing.T) {
	t.Parallel()
	body := testdata(t, "vector")
	publicBytes, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(vectorPublic, publicPrefix))
	if err != nil {
		t.Fatal(err)
	}
	byPublic, err := Sign(symmetricPrefix+base64.StdEncoding.EncodeToString(publicBytes), vectorID, clock, body)
	if err != nil {
		t.Fatal(err)
	}
	asSignature := "v1a" + strings.TrimPrefix(byPublic, "v1")
	change := func(f func(*provider.Request)) provider.Request {
		r := vector(t, byNow)
		f(&r)
		return r
	}
	for _, c := range []struct {
		name    string
		request provider.Request
		secrets []provider.Secret
		label   string // "" is refused
		reason  provider.Reason
	}{
		{"current, with the current secret", vector(t, byNow), []provider.Secret{vectorNow}, "1", ""},
		{"current, with the previous one listed first", vector(t, byNow), []provider.Secret{vectorOld, vectorNow}, "2", ""},
		{"combined, with the current secret", vector(t, combined), []provider.Secret{vectorNow}, "1", ""},
		{"combined, with the previous secret", vector(t, combined), []provider.Secret{vectorOld}, "1", ""},
		{"combined, with the public key", vector(t, combined), []provider.Secret{vectorPublic}, "1", ""},
		{"combined, with all three", vector(t, combined), []provider.Secret{vectorPublic, vectorOld, vectorNow}, "1", ""},
		{"ed25519, with the public key", vector(t, byPrivate), []provider.Secret{vectorNow, vectorPublic}, "2", ""},
		{"previous only, list is current", vector(t, byOld), []provider.Secret{vectorNow}, "", provider.ReasonMismatch},
		{"ed25519 only, list is current", vector(t, byPrivate), []provider.Secret{vectorNow}, "", provider.ReasonMismatch},
		{"current only, list is the public key", vector(t, byNow), []provider.Secret{vectorPublic}, "", provider.ReasonMismatch},
		{"a body with one more space", change(func(r *provider.Request) { r.Body = append(bytes.Clone(body), ' ') }), []provider.Secret{vectorNow}, "", provider.ReasonMismatch},
		{"another id", change(func(r *provider.Request) { r.Header.Set("Webhook-Id", "msg_other") }), []provider.Secret{vectorNow}, "", provider.ReasonMismatch},
		{"another time-stamp", change(func(r *provider.Request) { r.Header.Set("Webhook-Timestamp", "1767225601") }), []provider.Secret{vectorNow}, "", provider.ReasonMismatch},
		{"clock + 301 s", change(func(r *provider.Request) { r.Now = clock.Add(301 * time.Second) }), []provider.Secret{vectorNow}, "", provider.ReasonTooOld},
		{"clock - 301 s", change(func(r *provider.Request) { r.Now = clock.Add(-301 * time.Second) }), []provider.Secret{vectorNow}, "", provider.ReasonTooNew},
		{"clock + 300 s", change(func(r *provider.Request) { r.Now = clock.Add(300 * time.Second) }), []provider.Secret{vectorNow}, "1", ""},
		{"clock - 300 s", change(func(r *provider.Request) { r.Now = clock.Add(-300 * time.Second) }), []provider.Secret{vectorNow}, "1", ""},
		{"junk entries are skipped", vector(t, "garbage v1 v2,AAAA "+byNow), []provider.Secret{vectorNow}, "1", ""},
		{"v1, alone", vector(t, "v1,"), []provider.Secret{vectorNow}, "", provider.ReasonMalformed},
		{"an empty header", vector(t, ""), []provider.Secret{vectorNow}, "", provider.ReasonMissing},
		{"no header", change(func(r *provider.Request) { r.Header.Del("Webhook-Signature") }), []provider.Secret{vectorNow}, "", provider.ReasonMissing},
		{"a digest made with the public key, as v1", vector(t, byPublic), []provider.Secret{vectorPublic}, "", provider.ReasonMismatch},
		{"a digest made with the public key, as v1a", vector(t, asSignature), []provider.Secret{vectorPublic}, "", provider.ReasonMalformed},
		{"a digest made with the public key, beside a v1a entry", vector(t, byPublic+" "+strings.Replace(byPrivate, "+z", "Az", 1)), []provider.Secret{vectorPublic}, "", provider.ReasonMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			label, reason := build(t, source(c.secrets...)).Verify(c.request)
			if label != c.label || reason != c.reason {
				t.Errorf("label %q, reason %q; want %q, %q", label, reason, c.label, c.reason)
			}
		})
	}
	t.Run("the secret whsec_ alone is refused at the start", func(t *testing.T) {
		if _, err := New(source("whsec_")); err == nil || !strings.Contains(err.Error(), "fewer than 24 bytes") {
			t.Error(err)
		}
	})
}

func TestThePublicVectorOfAsymmetricSignatures(t *testing.T) {
	t.Parallel()
	p := build(t, source("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="))
	r := request("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
		[]byte(`{"test": 2432232314}`), time.Unix(1614265330, 0))
	if label, reason := p.Verify(r); label != "1" || reason != "" {
		t.Fatalf("label %q, reason %q", label, reason)
	}
	r.Body = []byte(`{"test": 2432232315}`)
	if _, reason := p.Verify(r); reason != provider.ReasonMismatch {
		t.Errorf("reason %q", reason)
	}
}

func TestSignMakesTheSignaturesOfTheVector(t *testing.T) {
	t.Parallel()
	seed := privatePrefix + base64.StdEncoding.EncodeToString(func() []byte {
		b, _ := decodeKey(strings.TrimPrefix(vectorPrivate, privatePrefix))
		return b[:32]
	}())
	for secret, want := range map[string]string{vectorNow: byNow, vectorOld: byOld, vectorPrivate: byPrivate, seed: byPrivate} {
		if got, err := Sign(secret, vectorID, clock, testdata(t, "vector")); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	for _, secret := range []string{"", "x", "whsk_", "whsk_AAAA", "whsec_*"} {
		if got, err := Sign(secret, vectorID, clock, nil); err == nil {
			t.Errorf("%q signs %q", secret, got)
		}
	}
}

// An entry has one spelling: what decodes to the same bytes by a permissive
// decoder is another text, and refused.
func TestASignatureHasOneSpelling(t *testing.T) {
	t.Parallel()
	p := build(t, source(vectorNow, vectorPublic))
	mac, sig := strings.TrimPrefix(byNow, "v1,"), strings.TrimPrefix(byPrivate, "v1a,")
	for name, signature := range map[string]string{
		"unpadded v1":              "v1," + strings.TrimRight(mac, "="),
		"v1 with other last bits":  "v1," + mac[:len(mac)-2] + "h=",
		"v1 in the URL's alphabet": "v1," + strings.NewReplacer("+", "-", "/", "_").Replace(mac),
		"v1 with a line break":     "v1," + mac[:20] + "\n" + mac[21:],
		"v1 in capitals":           "V1," + mac,
		"v1 with an equals sign":   "v1=" + mac,
		"v1 with a third part":     "v1," + mac + ",x",
		"v1 in hexadecimal":        "v1," + strings.Repeat("0", 64),
		"unpadded v1a":             "v1a," + strings.TrimRight(sig, "="),
		"v1a with other last bits": "v1a," + sig[:len(sig)-3] + "h==",
		"v1a with a line break":    "v1a," + sig[:20] + "\n" + sig[21:],
		"the v1a digest as v1":     "v1," + sig,
		"the v1 digest as v1a":     "v1a," + mac,
		"entries with commas":      byNow + "," + byPrivate,
		"a tab between entries":    "v2,x\t" + byNow,
		"a leading space":          " " + byNow,
		"a trailing space":         byNow + " ",
	} {
		if label, reason := p.Verify(vector(t, signature)); reason == "" {
			t.Errorf("%s: accepted by secret %s", name, label)
		}
	}
}

// svix-* headers count only where the source is set up so, and the two sets
// are never mixed.
func TestTheAliasSetOfHeadersIsTakenBySettingOnly(t *testing.T) {
	t.Parallel()
	rename := func(r provider.Request, which ...int) provider.Request {
		h := http.Header{}
		for name, v := range r.Header {
			h[name] = v
		}
		for _, i := range which {
			h[svixHeaders[i]] = h[standardHeaders[i]]
			delete(h, standardHeaders[i])
		}
		r.Header = h
		return r
	}
	good := vector(t, byNow)
	both := rename(good)
	for i := range svixHeaders {
		both.Header[svixHeaders[i]] = good.Header[standardHeaders[i]]
	}
	badFirst := rename(both)
	badFirst.Header.Set("Webhook-Signature", byOld)
	for _, c := range []struct {
		name    string
		request provider.Request
		off, on provider.Reason
		eventID string
	}{
		{name: "the standard set", request: good, eventID: vectorID},
		{name: "the alias set", request: rename(good, 0, 1, 2), off: provider.ReasonMissing, eventID: vectorID},
		{name: "both sets", request: both, eventID: vectorID},
		{name: "both sets, of which the standard one is wrong", request: badFirst, off: provider.ReasonMismatch, on: provider.ReasonMismatch},
		{name: "the id by the alias", request: rename(good, 0), off: provider.ReasonMissing, on: provider.ReasonMissing},
		{name: "the time-stamp by the alias", request: rename(good, 1), off: provider.ReasonMissing, on: provider.ReasonMissing},
		{name: "the signature by the alias", request: rename(good, 2), off: provider.ReasonMissing, on: provider.ReasonMissing},
		{name: "the id alone by its standard name", request: rename(good, 1, 2), off: provider.ReasonMissing, on: provider.ReasonMissing},
	} {
		off := build(t, source(vectorNow))
		on := build(t, with(source(vectorNow), map[string]string{"SVIX_HEADERS": "true"}))
		if _, reason := off.Verify(c.request); reason != c.off {
			t.Errorf("%s, without the setting: %q, want %q", c.name, reason, c.off)
		}
		if _, reason := on.Verify(c.request); reason != c.on {
			t.Errorf("%s, with the setting: %q, want %q", c.name, reason, c.on)
		}
		if c.on == "" {
			if m := on.Parse(c.request)[0]; m.ProviderEventID != c.eventID {
				t.Errorf("%s: event id %q", c.name, m.ProviderEventID)
			}
		}
	}
	kept := build(t, with(source(), map[string]string{"SVIX_HEADERS": "1"})).Traits().SignedHeaders
	if len(kept) != 6 || len(build(t, source()).Traits().SignedHeaders) != 3 {
		t.Errorf("kept headers: %v", kept)
	}
}

func TestTheToleranceIsASetting(t *testing.T) {
	t.Parallel()
	p := build(t, with(source(vectorNow), map[string]string{"TOLERANCE": "60"}))
	r := vector(t, byNow)
	for offset, want := range map[time.Duration]provider.Reason{
		60 * time.Second: "", 61 * time.Second: provider.ReasonTooOld, -60 * time.Second: "", -61 * time.Second: provider.ReasonTooNew,
		60*time.Second + 999*time.Millisecond: "",
	} {
		r.Now = clock.Add(offset)
		if _, reason := p.Verify(r); reason != want {
			t.Errorf("%v: %q, want %q", offset, reason, want)
		}
	}
}
