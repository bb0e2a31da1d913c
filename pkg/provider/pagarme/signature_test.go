package pagarme_test

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// The contract's worked vector.
const (
	vectorBody      = `{"id":"hook_TESTvector000001","account":{"id":"acc_TESTvector000001","name":"Loja Exemplo"},"type":"charge.paid","created_at":"2026-01-15T12:00:05.1200000Z","data":{"id":"ch_TESTvector000001","code":"PED-1001","amount":14990,"paid_amount":14990,"status":"paid","currency":"BRL","payment_method":"pix"}}`
	vectorN         = "xnckwsTc7m630X-5DUhIJ59m3TiBNN8zFAqwC9o6DuDWio1t6uvCB8o5E0nPCw8ZvLjz7VIVkHgiJOKxr0tyysda6NBfPeIMvheyu8X6KBo-rZ0Odw_1Mhd1QuD04J92dw6nTNyvjYsQhTZicveM-CL6sWbgM0wdVzApaAJSG8CvC1JzekfguPut_tHz6F2pqgFY_GslZo_btFSPcHbUB32IoJ5kmK-AU0rIwIeWbsOxF2Xb6rcpg16r9uoLh0zm8yweL-lZY3M1AuKUZcw3iymrrwQNcs-QFqq8JC5Ea-iB0VizUNrgJq9KL7tx7NVHYUzEzjgWIXEwQZgXT9ZW_Q"
	vectorSignature = "nUmWsRBDaa2di2k8pmRpgFNFZXNs14QwD6wspVxAxwVBkLui3Z83MJUbBUt0s_etwUMpvN97_7ZSgx9BeAA-Qldcvh2wmvi2XvlQDWZR-ilkzt96_AGx-pKrsb5r83Jjv_DFnydPraWb5R85KCEaoTqfldajhmyGuVipcC_VIJW1MOOTy7oKnHHcmPqrptX_jFs5tkT29H8JY4AXV9eBpuSAAqEA4IdYwhTW4NAe2_dmXw_3qxJ9YT4x_1Y1fHZw5OVsp__Ne-wt8CEFoIana8C5hS7Y191XNYqcT-LLDND54IDlEfDaYCCjnBu76SznulC4eWoJhp5tTecBrWp8tg"
	vectorHeader    = "alg=RS256; kid=test-key-1; signature=" + vectorSignature
)

// signers are two keys of a gateway and one of nobody's, made once.
var signers = sync.OnceValue(func() []*rsa.PrivateKey {
	var keys []*rsa.PrivateKey
	for range 3 {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys = append(keys, k)
	}
	return keys
})

func jwk(kid, n string) string {
	return fmt.Sprintf(`{"kty":"RSA","use":"sig","alg":"RS256","kid":%q,"n":%q,"e":"AQAB"}`, kid, n)
}

func modulus(k *rsa.PrivateKey) string { return base64.RawURLEncoding.EncodeToString(k.N.Bytes()) }

// published are the keys of this file behind an address.
var published = sync.OnceValue(func() string {
	keys := []string{jwk("test-key-1", vectorN), jwk("one", modulus(signers()[0])), jwk("two", modulus(signers()[1]))}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
	})).URL
})

func rs256(k *rsa.PrivateKey, kid string, body []byte) string {
	sum := sha256.Sum256(body)
	signature, err := rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return "alg=RS256; kid=" + kid + "; signature=" + base64.RawURLEncoding.EncodeToString(signature)
}

// signedSource accepts signatures, of keys at url.
func signedSource(url string) provider.Source {
	src := source()
	src.WebhookSecrets = nil
	src.Setting = settings("AUTH", "signature", "JWKS_URL", url)
	return src
}

func signed(header string, body []byte) provider.Request {
	return provider.Request{Header: http.Header{pagarme.SignatureHeader: {header}}, Body: body, Now: now}
}

func TestTheContractsSignatureVector(t *testing.T) {
	t.Parallel()
	p := build(t, signedSource(published()))
	body := []byte(vectorBody)
	if len(body) != 302 || fmt.Sprintf("%x", sha256.Sum256(body)) != "bdf6327109cec6a376ef4a27e81fe5f498713a991e6779afd5bf452de4024f4b" {
		t.Fatal("the vector's body was changed")
	}
	var compact map[string]any
	if err := json.Unmarshal(body, &compact); err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(compact)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(vectorN))
	mac.Write(body)
	digest := base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	other := bytes.Clone(body)
	other[100] ^= 1
	for name, c := range map[string]struct {
		request provider.Request
		reason  provider.Reason
	}{
		"the vector":                   {signed(vectorHeader, body), ""},
		"with padding":                 {signed(vectorHeader+"==", body), ""},
		"without spaces":               {signed(strings.ReplaceAll(vectorHeader, " ", ""), body), ""},
		"in another order":             {signed("kid=test-key-1;signature="+vectorSignature+"==;alg=RS256", body), ""},
		"with a part of tomorrow":      {signed(vectorHeader+"; v=2", body), ""},
		"one body byte changed":        {signed(vectorHeader, other), provider.ReasonMismatch},
		"the body written anew":        {signed(vectorHeader, written), provider.ReasonMismatch},
		"an unknown key":               {signed(strings.Replace(vectorHeader, "test-key-1", "test-key-2", 1), body), provider.ReasonMismatch},
		"another known key":            {signed(strings.Replace(vectorHeader, "test-key-1", "one", 1), body), provider.ReasonMismatch},
		"alg none":                     {signed("alg=none; kid=test-key-1; signature=", body), provider.ReasonMalformed},
		"alg none with the signature":  {signed(strings.Replace(vectorHeader, "RS256", "none", 1), body), provider.ReasonMalformed},
		"alg HS256 with the modulus":   {signed("alg=HS256; kid=test-key-1; signature="+digest, body), provider.ReasonMalformed},
		"an HMAC as RS256":             {signed("alg=RS256; kid=test-key-1; signature="+digest, body), provider.ReasonMismatch},
		"alg RS512":                    {signed(strings.Replace(vectorHeader, "RS256", "RS512", 1), body), provider.ReasonMalformed},
		"alg in lower case":            {signed(strings.Replace(vectorHeader, "RS256", "rs256", 1), body), provider.ReasonMalformed},
		"no alg":                       {signed(strings.TrimPrefix(vectorHeader, "alg=RS256; "), body), provider.ReasonMalformed},
		"no kid":                       {signed("alg=RS256; signature="+vectorSignature, body), provider.ReasonMalformed},
		"two kids":                     {signed(vectorHeader+"; kid=one", body), provider.ReasonMalformed},
		"half a padding":               {signed(vectorHeader+"=", body), provider.ReasonMalformed},
		"too much padding":             {signed(vectorHeader+"===", body), provider.ReasonMalformed},
		"a line break inside":          {signed(vectorHeader[:200]+"\r\n"+vectorHeader[200:], body), provider.ReasonMalformed},
		"standard base64":              {signed(strings.NewReplacer("-", "+", "_", "/").Replace(vectorHeader), body), provider.ReasonMalformed},
		"a kid with a NUL":             {signed("alg=RS256; kid=a\x00; signature="+vectorSignature, body), provider.ReasonMalformed},
		"header missing":               {provider.Request{Header: http.Header{}, Body: body, Now: now}, provider.ReasonMissing},
		"header empty":                 {signed("", body), provider.ReasonMissing},
		"a password, which is not on":  {sign(login, body, now), provider.ReasonMissing},
		"an X-Hub-Signature beside it": {provider.Request{Header: http.Header{"X-Hub-Signature": {"sha256=" + digest}}, Body: body, Now: now}, provider.ReasonMissing},
	} {
		t.Run(name, func(t *testing.T) {
			label, reason := p.Verify(c.request)
			if reason != c.reason || (label == "kid:test-key-1") != (reason == "") {
				t.Errorf("label %q, reason %q, want %q", label, reason, c.reason)
			}
		})
	}
}

// labelled names the keys one and two as the suite names secrets.
type labelled struct{ provider.Provider }

func (l labelled) Verify(r provider.Request) (string, provider.Reason) {
	label, reason := l.Provider.Verify(r)
	return strings.NewReplacer("kid:one", "1", "kid:two", "2").Replace(label), reason
}

// The suite over signatures. Its "secrets" are names of the two keys here,
// and any other name that of a forger.
func TestPagarmeSignaturesKeepTheContractOfProviders(t *testing.T) {
	t.Parallel()
	src := source()
	src.Setting = settings("AUTH", "signature,basic", "JWKS_URL", published())
	providertest.Run(t, providertest.Spec{
		Factory: func(src provider.Source) (provider.Provider, error) {
			p, err := pagarme.New(src)
			if err != nil {
				return nil, err
			}
			return labelled{p}, nil
		},
		Source: src, Now: now, CredentialHeader: pagarme.SignatureHeader, BodySigned: true, CaseMatters: true,
		Sign: func(secret string, body []byte, _ time.Time) provider.Request {
			i := slices.Index([]string{login, oldLogin}, secret)
			switch i {
			case 0:
				return signed(rs256(signers()[0], "one", body), body)
			case 1:
				return signed(rs256(signers()[1], "two", body), body)
			}
			return signed(rs256(signers()[2], "one", body), body)
		},
		Body: []byte(vectorBody), GoldenDir: "testdata/signed",
		Lookups: lookups()[:1], LookupRef: ref, LookupAnswer: sale("paid", `,"paid_amount":14990`), BadRequestIsMissing: true,
	})
}

func TestASignatureThatIsThereDecidesAlone(t *testing.T) {
	t.Parallel()
	src := source()
	src.Setting = settings("AUTH", "basic, signature", "JWKS_URL", published())
	p := build(t, src)
	both := func(signature string, body []byte) provider.Request {
		r := sign(login, body, now)
		r.Header[pagarme.SignatureHeader] = []string{signature}
		return r
	}
	for name, c := range map[string]struct {
		request provider.Request
		label   string
		reason  provider.Reason
	}{
		"a password alone":                     {sign(oldLogin, []byte(vectorBody), now), "2", ""},
		"a wrong password alone":               {sign("hookuser:wrong-pass", []byte(vectorBody), now), "", provider.ReasonToken},
		"a signature alone":                    {signed(vectorHeader, []byte(vectorBody)), "kid:test-key-1", ""},
		"both":                                 {both(vectorHeader, []byte(vectorBody)), "kid:test-key-1", ""},
		"a password beside a changed body":     {both(vectorHeader, []byte(vectorBody+" ")), "", provider.ReasonMismatch},
		"a password beside an empty signature": {both("", []byte(vectorBody)), "", provider.ReasonMissing},
		"a password beside a broken signature": {both("alg=none", []byte(vectorBody)), "", provider.ReasonMalformed},
		"neither":                              {provider.Request{Header: http.Header{}, Body: []byte(vectorBody), Now: now}, "", provider.ReasonMissing},
	} {
		if label, reason := p.Verify(c.request); label != c.label || reason != c.reason {
			t.Errorf("%s: label %q, reason %q", name, label, reason)
		}
	}
}

func TestWithoutKeysTheSenderIsAskedToComeAgain(t *testing.T) {
	t.Parallel()
	var fetches atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	p := build(t, signedSource(server.URL))
	if label, reason := p.Verify(signed(vectorHeader, []byte(vectorBody))); reason != provider.ReasonUnavailable || label != "" {
		t.Errorf("label %q, reason %q", label, reason)
	}
	if label, reason := p.Verify(signed("alg=none; kid=x", []byte(vectorBody))); reason != provider.ReasonMalformed || label != "" {
		t.Errorf("what cannot be a signature: label %q, reason %q", label, reason)
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

func TestExplainNamesABodyThatWasWrittenAnew(t *testing.T) {
	t.Parallel()
	p := build(t, signedSource(published()))
	explainer, ok := provider.As[provider.Explainer](p)
	if !ok {
		t.Fatal("no Explainer")
	}
	p.Verify(signed(vectorHeader, []byte(vectorBody))) // so that the keys are held
	matching := func(body string) (names []string) {
		for _, s := range explainer.Explain(signed(vectorHeader, []byte(body))) {
			if strings.Contains(s.Text, "hook_") {
				t.Errorf("%q shows the body", s.Text)
			}
			if s.Secret != "" {
				names = append(names, fmt.Sprintf("%s %v %s", s.Name, s.Accepted, s.Secret))
			}
		}
		return names
	}
	for body, want := range map[string][]string{
		vectorBody:        {"the body true kid:test-key-1"},
		vectorBody + "\n": {"the body without outer white space false kid:test-key-1", "the body without white space between its parts false kid:test-key-1"},
		strings.Replace(vectorBody, `,"type"`, `, "type"`, 1): {"the body without white space between its parts false kid:test-key-1"},
		strings.Replace(vectorBody, "14990", "1", 1):          nil,
	} {
		if got := matching(body); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if list := explainer.Explain(provider.Request{Header: http.Header{}, Body: []byte(vectorBody)}); len(list) == 0 || list[0].Secret != "" {
		t.Errorf("without a header: %+v", list)
	}
}

// The signature covers no time-stamp, so a replay is authentic; that it has
// the key of the first delivery is what makes it harmless (CASES A25).
func TestCase_A25_PagarmeReplaysHaveOneKeyWhateverTheHeadersSay(t *testing.T) {
	t.Parallel()
	p := build(t, signedSource(published()))
	first := signed(vectorHeader, []byte(vectorBody))
	again := signed(vectorHeader+"; id=another", []byte(vectorBody))
	again.Header.Set("X-Request-Id", "another")
	again.Now = now.Add(365 * 24 * time.Hour)
	for _, r := range []provider.Request{first, again} {
		if _, reason := p.Verify(r); reason != "" {
			t.Fatal(reason)
		}
	}
	if a, b := p.Parse(first)[0].DedupeKey, p.Parse(again)[0].DedupeKey; a != b || a != "event/20:acc_TESTvector00000121:hook_TESTvector000001" {
		t.Errorf("%q and %q", a, b)
	}
}
