package mercadopago

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

const (
	// maxDigests bounds the digests that are compared. One is documented.
	maxDigests = 8
	// maxStamp is the length of the longest time, in digits.
	maxStamp = 18
	// millis is where times in milliseconds begin: as seconds it would be the
	// year 33658, as milliseconds it is 2001.
	millis = 1_000_000_000_000
)

// signature is a parsed x-signature header.
type signature struct {
	stamp   string // ts as received: it is part of the signed text
	digests [maxDigests][sha256.Size]byte
	n       int
}

// parse reads "ts=<digits>,v1=<64 hex digits>". Items that are not known are
// skipped, so that Mercado Pago may add some; a second ts is refused, since
// only one of the two was signed.
func (s *signature) parse(header string) bool {
	if strings.TrimSpace(header) != header {
		return false // no HTTP server hands that on
	}
	stamps := 0
	for item := range strings.SplitSeq(header, ",") {
		name, value, found := strings.Cut(item, "=")
		if !found {
			continue
		}
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "ts":
			stamps++
			s.stamp = value
		case "v1":
			if s.n == maxDigests || len(value) != 2*sha256.Size {
				return false
			}
			if _, err := hex.Decode(s.digests[s.n][:], []byte(value)); err != nil {
				return false
			}
			s.n++
		}
	}
	return stamps == 1 && s.n > 0 && isStamp(s.stamp)
}

func isStamp(t string) bool { return len(t) <= maxStamp && onlyDigits(t) }

func onlyDigits(t string) bool {
	for i := range len(t) {
		if t[i] < '0' || t[i] > '9' {
			return false
		}
	}
	return t != ""
}

// holds is 1 when one of the digests is that of the text, else 0.
func (s *signature) holds(k *key, text []byte) int {
	var buf [sha256.Size]byte
	want := k.digest(text, buf[:0])
	equal := 0
	for i := range s.n {
		equal |= subtle.ConstantTimeCompare(want, s.digests[i][:])
	}
	return equal
}

// time reads ts. Mercado Pago's text says milliseconds, its example and most
// of its libraries have seconds; both are seen.
func (s *signature) time() time.Time {
	n, err := strconv.ParseInt(s.stamp, 10, 64)
	switch {
	case err != nil: // cannot be: see isStamp
		return time.Time{}
	case n >= millis:
		return time.UnixMilli(n)
	}
	return time.Unix(n, 0)
}
