package standardwebhooks

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider"
)

// form is one text that a sender may have signed, in one mode of the key.
type form struct {
	name, head string // head stands before the body
	body       []byte
	mode       keyMode
	accepted   bool
}

// Explain implements provider.Explainer. The first form is the one that
// Verify accepts; the others are deviations of real senders, each of which
// names the setting that would accept it, if there is one.
func (p *Provider) Explain(r provider.Request) []provider.SignedText {
	set := p.headersOf(r.Header)
	if !p.svix && len(r.Header[standardHeaders[2]]) == 0 {
		set = svixHeaders
	}
	var values [3]string
	for i, name := range set {
		v, reason := provider.OneValue(r.Header[name])
		if reason != provider.ReasonNone {
			return nil
		}
		values[i] = v
	}
	if !plainID(values[0]) || !isStamp(values[1]) || len(values[2]) > maxEntries*(len("v1a,")+2*sigText) {
		return nil
	}
	sent := sentDigests(values[2])
	var out []provider.SignedText
	for _, f := range p.forms(set, values[0], values[1], r.Body) {
		secret := p.signer(f, sent, set, r)
		if f.accepted && secret != "" && !p.spelt(set, r) {
			f.name, f.accepted = f.name+", but the digest is not spelt v1,<base64 with padding>", false
		}
		out = append(out, provider.SignedText{Name: f.name, Text: f.head + "<body>", Secret: secret, Accepted: f.accepted})
	}
	return out
}

// spelt says whether the signature of a text that we accept is written as we
// accept it.
func (p *Provider) spelt(set headerSet, r provider.Request) bool {
	var s signed
	if readSigned(r.Header, set, &s) != provider.ReasonNone {
		return false
	}
	return p.match(&s, r.Body) > 0
}

// forms lists what may have been signed.
func (p *Provider) forms(set headerSet, id, stamp string, body []byte) []form {
	head := id + "." + stamp + "."
	usual := form{name: "id, time-stamp and body", head: head, body: body, mode: p.mode, accepted: true}
	if set == svixHeaders && !p.svix {
		usual.name, usual.accepted = "id, time-stamp and body, in svix headers (set "+p.src.Variable("SVIX_HEADERS")+")", false
	}
	all := []form{usual}
	for _, mode := range []keyMode{modeSpec, modeRaw, modeSuffix} {
		if mode != p.mode {
			all = append(all, form{name: "the same, with " + p.src.Variable("KEY_MODE") + "=" + string(mode), head: head, body: body, mode: mode})
		}
	}
	all = append(all, form{name: "time-stamp and body, without the id", head: stamp + ".", body: body, mode: p.mode},
		form{name: "the body alone", body: body, mode: p.mode})
	compact := jsontext.Value(bytes.Clone(body))
	if compact.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) == nil && !bytes.Equal(compact, body) {
		all = append(all, form{name: "id, time-stamp and a body that was written anew without spaces", head: head, body: compact, mode: p.mode})
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) != len(body) {
		all = append(all, form{name: "id, time-stamp and the body without outer white space", head: head, body: trimmed, mode: p.mode})
	}
	return all
}

// signer finds the secret by which a form was signed; "" when none was.
func (p *Provider) signer(f form, sent [][]byte, set headerSet, r provider.Request) string {
	text := append([]byte(f.head), f.body...)
	var s signed
	readable := readSigned(r.Header, set, &s) == provider.ReasonNone
	for i, secret := range p.src.WebhookSecrets {
		if public := p.keys[i].public; public != nil {
			if readable && f.mode == p.mode && p.keys[i].matchesSignature(&s, text) {
				return strconv.Itoa(i + 1)
			}
			continue
		}
		b, complaint := symmetricBytes(secret.Reveal(), f.mode)
		if complaint != "" || len(b) < leastMinKey {
			continue
		}
		mac := hmac.New(sha256.New, b)
		_, _ = mac.Write(text)
		want := mac.Sum(nil)
		for _, got := range sent {
			if subtle.ConstantTimeCompare(want, got) == 1 {
				return strconv.Itoa(i + 1)
			}
		}
	}
	return ""
}

// sentDigests reads the digests of a header however they are spelt: after
// "v1," or "v1=" or nothing, in base64 of either alphabet or hexadecimal.
func sentDigests(list string) (digests [][]byte) {
	for _, entry := range strings.Fields(list) {
		for _, lead := range []string{"v1,", "v1=", "sha256="} {
			entry = strings.TrimPrefix(entry, lead)
		}
		bare := strings.TrimRight(entry, "=")
		for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
			if b, err := decode(bare); err == nil && len(b) == sha256.Size {
				digests = append(digests, b)
			}
		}
		if len(digests) >= maxEntries {
			break
		}
	}
	return digests
}
