package stripe

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"strconv"

	"github.com/umavez/umavez/pkg/provider"
)

// Explain implements provider.Explainer: the one text that counts, and those
// that a sender or a proxy makes of it by mistake.
func (g *gateway) Explain(r provider.Request) []provider.SignedText {
	var s signature
	values := r.Header.Values(SignatureHeader)
	if len(values) != 1 || !parseSignature(values[0], &s) {
		return nil
	}
	texts := []provider.SignedText{{
		Name: "time-stamp and body as received", Text: s.stamp + ".<body>", Secret: g.signer(&s, s.stamp, r.Body), Accepted: true,
	}}
	names, bodies := provider.Rewritten(r.Body)
	for i, body := range bodies {
		if secret := g.signer(&s, s.stamp, body); secret != "" {
			texts = append(texts, provider.SignedText{Name: names[i], Text: s.stamp + ".<body>", Secret: secret})
		}
	}
	return texts
}

// signer is the label of the secret under which a text has one of the digests
// that were sent, or "".
func (g *gateway) signer(s *signature, stamp string, body []byte) string {
	var buf [sha256.Size]byte
	for i := range g.macs {
		mac := g.macs[i].Get().(hash.Hash)
		want := digest(mac, stamp, body, buf[:0])
		mac.Reset()
		g.macs[i].Put(mac)
		for j := range s.n {
			if subtle.ConstantTimeCompare(want, s.digests[j][:]) == 1 {
				return strconv.Itoa(i + 1)
			}
		}
	}
	return ""
}
