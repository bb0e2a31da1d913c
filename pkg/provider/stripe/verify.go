package stripe

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// maxSignatures bounds the digests that are compared. While a secret is being
// rolled there are two.
const maxSignatures = 16

// maxStamp is the length of the longest time-stamp, in digits: the year 33658.
const maxStamp = 12

// signature is a parsed Stripe-Signature header.
type signature struct {
	stamp   string // the t item, as received: it is part of the signed text
	seconds int64
	digests [maxSignatures][sha256.Size]byte
	n       int
}

// parseSignature reads the header. Items of other schemes and items that are
// not understood are skipped, so that Stripe may add some; a second t is
// refused, since only one of the two was signed.
func parseSignature(header string, s *signature) bool {
	stamps := 0
	for item := range strings.SplitSeq(header, ",") {
		key, value, found := strings.Cut(item, "=")
		if !found {
			continue
		}
		switch key {
		case "t":
			stamps++
			s.stamp = value
		case "v1":
			if s.n < maxSignatures && len(value) == 2*sha256.Size {
				if _, err := hex.Decode(s.digests[s.n][:], []byte(value)); err == nil {
					s.n++
				}
			}
		}
	}
	if stamps != 1 || s.n == 0 || !isStamp(s.stamp) {
		return false
	}
	var err error
	s.seconds, err = strconv.ParseInt(s.stamp, 10, 64)
	return err == nil
}

func isStamp(s string) bool {
	if s == "" || len(s) > maxStamp {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Verify implements provider.Provider. All secrets are tried against all
// digests whatever matches, so that the time taken tells nothing. The clock
// is looked at last: "too old" and "too new" are said only of a digest that
// is right, so that a wrong clock of ours is not taken for a forgery.
func (g *gateway) Verify(r provider.Request) (string, provider.Reason) {
	values := r.Header.Values(SignatureHeader)
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return "", provider.ReasonMissing
	}
	var s signature
	if len(values) != 1 || !parseSignature(values[0], &s) {
		return "", provider.ReasonMalformed
	}
	matched := -1
	var buf [sha256.Size]byte
	for i := range g.macs {
		mac := g.macs[i].Get().(hash.Hash)
		want := digest(mac, s.stamp, r.Body, buf[:0])
		mac.Reset()
		g.macs[i].Put(mac)
		equal := 0
		for j := range s.n {
			equal |= subtle.ConstantTimeCompare(want, s.digests[j][:])
		}
		if equal == 1 && matched < 0 {
			matched = i
		}
	}
	age := r.Now.Unix() - s.seconds
	switch {
	case matched < 0:
		return "", provider.ReasonMismatch
	case age > g.tolerance:
		return "", provider.ReasonTooOld
	case age < -g.tolerance:
		return "", provider.ReasonTooNew
	}
	return strconv.Itoa(matched + 1), provider.ReasonNone
}
