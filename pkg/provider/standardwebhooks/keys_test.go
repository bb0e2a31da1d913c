package standardwebhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
)

func encoded(n int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func TestKeysAreReadStrictly(t *testing.T) {
	t.Parallel()
	private, public := keyPair(7)
	for _, c := range []struct {
		name, secret, complaint string // "" is accepted
	}{
		{"24 bytes", symmetricPrefix + encoded(24), ""},
		{"64 bytes", symmetricPrefix + encoded(64), ""},
		{"32 bytes, padded", vectorNow, ""},
		{"32 bytes, unpadded", strings.TrimRight(vectorNow, "="), ""},
		{"a public key", public, ""},
		{"a public key, unpadded", strings.TrimRight(public, "="), ""},
		{"23 bytes", symmetricPrefix + encoded(23), "fewer than 24 bytes"},
		{"no bytes", symmetricPrefix, "fewer than 24 bytes"},
		{"no public key", publicPrefix, "exactly 32 bytes"},
		{"a public key of 31 bytes", publicPrefix + encoded(31), "exactly 32 bytes"},
		{"a public key of 33 bytes", publicPrefix + encoded(33), "exactly 32 bytes"},
		{"a public key that is not base64", publicPrefix + strings.Repeat("*", 44), "exactly 32 bytes"},
		{"a version pasted in front", "v1," + vectorNow, "a version is pasted in front"},
		{"another version pasted in front", "v1a," + public, "a version is pasted in front"},
		{"the private key", private, "the sender's private key"},
		{"no prefix", encoded(32), "begins with neither whsec_ nor whpk_"},
		{"a prefix in capitals", "WHSEC_" + encoded(32), "begins with neither"},
		{"a secret of another scheme", symmetricPrefix + "not-base64-at-all-but-long-enough", "is not base64"},
		{"the URL's alphabet", symmetricPrefix + strings.Repeat("-_", 22), "is not base64"},
		{"a space inside", symmetricPrefix + encoded(24) + " " + encoded(24), "is not base64"},
		{"a line break inside", symmetricPrefix + encoded(24) + "\n" + encoded(24), "is not base64"},
		{"padding in the middle", symmetricPrefix + encoded(25) + encoded(24), "is not base64"},
		{"too much padding", symmetricPrefix + encoded(32) + "=", "is not base64"},
		{"bits that belong to no byte", symmetricPrefix + strings.Repeat("A", 42) + "B=", "is not base64"},
	} {
		_, err := New(source(provider.Secret(c.secret)))
		if c.complaint == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.complaint) || !strings.Contains(err.Error(), "STANDARDWEBHOOKS_WEBHOOK_SECRETS entry 1") {
			t.Errorf("%s: %v", c.name, err)
		}
		if body := strings.TrimPrefix(c.secret, symmetricPrefix); err != nil && len(body) > 8 && strings.Contains(err.Error(), body) {
			t.Errorf("%s: the complaint shows the secret", c.name)
		}
	}
}

func TestShorterKeysAreASettingWithAFloor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes   int
		setting string
		ok      bool
	}{
		{23, "", false}, {16, "16", true}, {15, "16", false}, {20, "20", true}, {19, "20", false},
		{24, "24", true}, {24, "15", false}, {24, "0", false}, {24, "-1", false}, {24, "25", false}, {24, "x", false},
	} {
		_, err := New(with(source(provider.Secret(symmetricPrefix+encoded(c.bytes))), map[string]string{"MIN_KEY_BYTES": c.setting}))
		if (err == nil) != c.ok {
			t.Errorf("%d bytes with MIN_KEY_BYTES=%q: %v", c.bytes, c.setting, err)
		}
	}
}

// Senders exist that sign with the text itself. Which one it is must be said:
// no mode is ever tried in place of another.
func TestTheModeOfAKeyIsASettingAndNeverGuessed(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + encoded(24)
	body := testdata(t, "vector")
	keys := map[keyMode][]byte{modeSpec: []byte(strings.Repeat("k", 24)), modeRaw: []byte(secret), modeSuffix: []byte(encoded(24))}
	for by, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write(signedText(vectorID, "1767225600", body))
		r := vector(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for mode := range keys {
			p := build(t, with(source(provider.Secret(secret)), map[string]string{"KEY_MODE": string(mode)}))
			if _, reason := p.Verify(r); (reason == "") != (by == mode) {
				t.Errorf("signed by %s, configured %s: %q", by, mode, reason)
			}
			for i, s := range p.Explain(r) {
				named := s.Secret == "1"
				want := by == mode && i == 0 || by != mode && strings.HasSuffix(s.Name, "KEY_MODE="+string(by))
				if named != want || s.Accepted != (i == 0) {
					t.Errorf("signed by %s, configured %s: %+v", by, mode, s)
				}
			}
		}
	}
	if _, err := New(with(source(provider.Secret(secret)), map[string]string{"KEY_MODE": "guess"})); err == nil || strings.Contains(err.Error(), "guess") {
		t.Error(err)
	}
	// A public key is nobody's secret, whatever the mode.
	_, public := keyPair(7)
	p := build(t, with(source(provider.Secret(public)), map[string]string{"KEY_MODE": string(modeRaw)}))
	mac := hmac.New(sha256.New, []byte(public))
	mac.Write(signedText(vectorID, "1767225600", body))
	if _, reason := p.Verify(vector(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))); reason == "" {
		t.Error("the text of a public key was taken as a shared secret")
	}
}

func TestExplainNamesWhatASenderDidInstead(t *testing.T) {
	t.Parallel()
	p := build(t, source(vectorNow, vectorPublic))
	body := []byte("{ \"type\": \"payment.paid\" }\n")
	digest := func(text string) []byte {
		key, _ := decodeKey(strings.TrimPrefix(vectorNow, symmetricPrefix))
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	head := vectorID + ".1767225600."
	b64 := base64.StdEncoding.EncodeToString
	byKey, err := Sign(vectorPrivate, vectorID, clock, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, signature, found, label string }{
		{"as specified", "v1," + b64(digest(head+string(body))), "id, time-stamp and body", "1"},
		{"by the private key", byKey, "id, time-stamp and body", "2"},
		{"in hexadecimal", "v1=" + hexOf(digest(head+string(body))), "id, time-stamp and body, but the digest is not spelt v1,<base64 with padding>", "1"},
		{"in the URL's alphabet, unpadded", "v1," + base64.RawURLEncoding.EncodeToString(digest(head+string(body))), "id, time-stamp and body, but the digest is not spelt v1,<base64 with padding>", "1"},
		{"without the id", "v1," + b64(digest("1767225600."+string(body))), "time-stamp and body, without the id", "1"},
		{"the body alone", "v1," + b64(digest(string(body))), "the body alone", "1"},
		{"written anew", "v1," + b64(digest(head+`{"type":"payment.paid"}`)), "id, time-stamp and a body that was written anew without spaces", "1"},
		{"trimmed", "v1," + b64(digest(head+`{ "type": "payment.paid" }`)), "id, time-stamp and the body without outer white space", "1"},
		{"by somebody else", "v1," + b64([]byte(strings.Repeat("x", 32))), "", ""},
	} {
		found, label := "", ""
		for i, s := range p.Explain(request(vectorID, "1767225600", c.signature, body, clock)) {
			if s.Secret != "" {
				found, label = s.Name, s.Secret
			}
			if !strings.HasSuffix(s.Text, "<body>") || s.Accepted != (i == 0 && !strings.Contains(s.Name, "not spelt")) || strings.Contains(s.Text, "payment.paid") {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
		if found != c.found || label != c.label {
			t.Errorf("%s: found %q by %q, want %q by %q", c.name, found, label, c.found, c.label)
		}
	}
	// Headers of the alias set, where it is not configured.
	r := request("", "", "", body, clock)
	r.Header = map[string][]string{"Svix-Id": {vectorID}, "Svix-Timestamp": {"1767225600"}, "Svix-Signature": {"v1," + b64(digest(head+string(body)))}}
	all := p.Explain(r)
	if len(all) == 0 || all[0].Secret != "1" || all[0].Accepted || !strings.Contains(all[0].Name, "STANDARDWEBHOOKS_SVIX_HEADERS") {
		t.Errorf("%+v", all)
	}
	for name, r := range map[string]provider.Request{
		"nothing":      {},
		"an odd id":    request("a.b", "1767225600", "v1,x", body, clock),
		"an odd stamp": request(vectorID, "soon", "v1,x", body, clock),
		"a megabyte":   request(vectorID, "1767225600", strings.Repeat("v1,x ", 200_000), body, clock),
	} {
		if all := p.Explain(r); all != nil {
			t.Errorf("%s: %d texts", name, len(all))
		}
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	for _, c := range b {
		out.WriteByte(digits[c>>4])
		out.WriteByte(digits[c&15])
	}
	return out.String()
}
