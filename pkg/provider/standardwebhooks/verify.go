package standardwebhooks

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// headerSet names the headers of the id, the time-stamp and the signatures.
type headerSet [3]string

// The two sets. A request is judged by one of them alone, never by a mixture.
var (
	standardHeaders = headerSet{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}
	svixHeaders     = headerSet{"Svix-Id", "Svix-Timestamp", "Svix-Signature"}
)

const (
	maxEntries = 16  // of a signature header
	maxSigs    = 4   // of them asymmetric: each costs a forger nothing, and us about 100 µs
	maxID      = 256 // bytes of a webhook-id
	maxStamp   = 12  // digits: the year 33658

	macText = 44 // base64 of 32 bytes
	sigText = 88 // base64 of 64 bytes
)

// signed is what the headers of a request say.
type signed struct {
	id, stamp string // as received: both are part of the signed text
	seconds   int64
	macs      [maxEntries]string // v1 entries, in base64
	sigs      [maxSigs]string    // v1a entries, in base64
	nMacs     int
	nSigs     int
}

// headersOf picks the set that a request is judged by: the standard one, but
// for a source that takes svix-* too and a request that has nothing else.
func (p *Provider) headersOf(h http.Header) headerSet {
	if !p.svix {
		return standardHeaders
	}
	for _, name := range standardHeaders {
		if len(h[name]) > 0 {
			return standardHeaders
		}
	}
	return svixHeaders
}

// readSigned reads the headers of one set.
func readSigned(h http.Header, set headerSet, s *signed) provider.Reason {
	var values [3]string
	for i, name := range set {
		v, reason := provider.OneValue(h[name])
		if reason != provider.ReasonNone {
			return reason
		}
		values[i] = v
	}
	s.id, s.stamp = values[0], values[1]
	if !plainID(s.id) || !isStamp(s.stamp) || !s.entries(values[2]) {
		return provider.ReasonMalformed
	}
	var err error
	if s.seconds, err = strconv.ParseInt(s.stamp, 10, 64); err != nil {
		return provider.ReasonMalformed
	}
	return provider.ReasonNone
}

// entries splits the list of signatures. Entries of other versions, and those
// that cannot be signatures, are skipped, so that senders may add some.
func (s *signed) entries(list string) bool {
	if list[0] == ' ' || list[len(list)-1] == ' ' {
		return false
	}
	n := 0
	for entry := range strings.SplitSeq(list, " ") {
		if n++; n > maxEntries {
			return false
		}
		version, value, _ := strings.Cut(entry, ",")
		switch {
		case version == "v1" && len(value) == macText:
			s.macs[s.nMacs] = value
			s.nMacs++
		case version == "v1a" && len(value) == sigText && s.nSigs < maxSigs:
			s.sigs[s.nSigs] = value
			s.nSigs++
		}
	}
	return s.nMacs+s.nSigs > 0
}

// plainID says whether an id is unambiguous within the signed text, and fit
// to be stored.
func plainID(id string) bool {
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '.' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

func isStamp(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && len(s) <= maxStamp
}

// Verify implements provider.Provider. The clock is looked at last: "too old"
// and "too new" are said only of a signature that is right, so that a wrong
// clock of ours is not taken for a forgery.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	var s signed
	if reason := readSigned(r.Header, p.headersOf(r.Header), &s); reason != provider.ReasonNone {
		return "", reason
	}
	matched := p.match(&s, r.Body)
	age := r.Now.Sub(time.Unix(s.seconds, 0)).Truncate(time.Second)
	switch {
	case matched == 0:
		return "", provider.ReasonMismatch
	case age > p.tolerance:
		return "", provider.ReasonTooOld
	case age < -p.tolerance:
		return "", provider.ReasonTooNew
	}
	return strconv.Itoa(matched), provider.ReasonNone
}

// match returns the place of the first key, from 1, by which a body was
// signed; 0 for none. Every key is tried against every entry of its kind.
func (p *Provider) match(s *signed, body []byte) int {
	matched := 0
	var text []byte // what was signed, in one piece: ed25519 needs it so
	for i := len(p.keys) - 1; i >= 0; i-- {
		k := &p.keys[i]
		switch {
		case k.macs != nil && s.nMacs > 0:
			matched = subtle.ConstantTimeSelect(k.matchesMAC(s, body), i+1, matched)
		case k.public != nil && s.nSigs > 0:
			if text == nil {
				text = signedText(s.id, s.stamp, body)
			}
			if k.matchesSignature(s, text) {
				matched = i + 1
			}
		}
	}
	return matched
}

// matchesMAC returns 1 when one of the v1 entries is the digest by this key.
// Texts are compared, so that each digest has one spelling.
func (k *key) matchesMAC(s *signed, body []byte) int {
	mac := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write([]byte(s.id))
	_, _ = mac.Write([]byte{'.'})
	_, _ = mac.Write([]byte(s.stamp))
	_, _ = mac.Write([]byte{'.'})
	_, _ = mac.Write(body)
	var sum [sha256.Size]byte
	var want [macText]byte
	base64.StdEncoding.Encode(want[:], mac.Sum(sum[:0]))
	equal := 0
	for _, entry := range s.macs[:s.nMacs] {
		equal |= subtle.ConstantTimeCompare(want[:], []byte(entry))
	}
	return equal
}

// matchesSignature says whether one of the v1a entries is a signature by the
// private half of this key.
func (k *key) matchesSignature(s *signed, text []byte) bool {
	for _, entry := range s.sigs[:s.nSigs] {
		sig, err := decodeKey(entry)
		if err == nil && len(sig) == ed25519.SignatureSize && ed25519.Verify(k.public, text, sig) {
			return true
		}
	}
	return false
}

func signedText(id, stamp string, body []byte) []byte {
	text := make([]byte, 0, len(id)+len(stamp)+len(body)+2)
	text = append(append(text, id...), '.')
	text = append(append(text, stamp...), '.')
	return append(text, body...)
}
