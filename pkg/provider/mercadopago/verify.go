package mercadopago

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// The headers of the signature, in canonical form.
const (
	SignatureHeader = "X-Signature"
	RequestIDHeader = "X-Request-Id"
)

// key computes digests with one secret.
type key struct{ macs sync.Pool }

func newKey(s provider.Secret) *key {
	secret := []byte(s.Reveal())
	return &key{sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

func (k *key) digest(text, dst []byte) []byte {
	mac := k.macs.Get().(hash.Hash)
	mac.Write(text)
	sum := mac.Sum(dst)
	mac.Reset()
	k.macs.Put(mac)
	return sum
}

// Verify implements provider.Provider.
//
// What is signed is "id:<data.id of the address>;request-id:<x-request-id>;
// ts:<ts>;", of which a part that the request lacks is left out. The
// documentation has data.id in lower case, the libraries have it as sent: the
// digest of either is accepted, unless ID_CASE names the one. All secrets and
// spellings are tried against all digests whatever matches, so that the time
// taken tells nothing.
//
// A request without data.id in its address is most often a notification of the
// older kind (IPN) or of a QR code, which Mercado Pago gives no means to verify.
// It is refused unless it is signed without the part, as a fraud alert may be:
// that one names no resource, and is not repeated. What is not verified is not stored, and a success answer for it
// would be one to anybody. Mercado Pago sends it again and again; it stops
// when notification_url ends with ?source_news=webhooks.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	header, reason := provider.OneValue(r.Header[SignatureHeader])
	if reason != provider.ReasonNone {
		return "", reason
	}
	var s signature
	if !s.parse(header) {
		return "", provider.ReasonMalformed
	}
	requestID, ok := requestID(r)
	if !ok {
		return "", provider.ReasonMalformed
	}
	id := signedID(r.Query)
	if id == "" && (parameter(r.Query, "id") != "" || parameter(r.Query, "topic") != "") {
		return "", provider.ReasonMismatch
	}
	if strings.ContainsRune(id, ';') {
		// "1;request-id:x" without a request id would have the digest of "1"
		// with one.
		return "", provider.ReasonMalformed
	}
	matched := 0
	var buf [256]byte
	for _, spelling := range p.spellings(id) {
		text := manifest(buf[:0], spelling, requestID, s.stamp)
		for i := len(p.keys) - 1; i >= 0; i-- {
			matched = subtle.ConstantTimeSelect(s.holds(p.keys[i], text), i+1, matched)
		}
	}
	if matched == 0 {
		return "", provider.ReasonMismatch
	}
	if reason := p.late(s.time(), r.Now); reason != provider.ReasonNone {
		return "", reason
	}
	return strconv.Itoa(matched), provider.ReasonNone
}

// spellings are those of data.id that may be signed.
func (p *Provider) spellings(id string) []string {
	lower := strings.ToLower(id)
	switch {
	case p.idCase == caseLower:
		return []string{lower}
	case p.idCase == caseSent || lower == id:
		return []string{id}
	}
	return []string{id, lower}
}

// late compares a signature's time with the clock, where a tolerance is set.
// Whether Mercado Pago signs anew for a repetition, which may come days later,
// is not known; so there is none by default, and a replay only makes us ask
// for the payment's state once more.
func (p *Provider) late(at, now time.Time) provider.Reason {
	switch {
	case p.tolerance == 0:
	case now.Sub(at) > p.tolerance:
		return provider.ReasonTooOld
	case at.Sub(now) > p.tolerance:
		return provider.ReasonTooNew
	}
	return provider.ReasonNone
}

// manifest appends the signed text.
func manifest(dst []byte, id, requestID, stamp string) []byte {
	if id != "" {
		dst = append(append(append(dst, "id:"...), id...), ';')
	}
	if requestID != "" {
		dst = append(append(append(dst, "request-id:"...), requestID...), ';')
	}
	return append(append(append(dst, "ts:"...), stamp...), ';')
}

// requestID is the request's id, "" when it has none; ok is false when there
// are several.
func requestID(r provider.Request) (id string, ok bool) {
	values := r.Header[RequestIDHeader]
	if len(values) == 0 {
		return "", true
	}
	return values[0], len(values) == 1
}

// signedID is the first data.id of the address, "" when there is none.
func signedID(query string) string { return parameter(query, "data.id") }

func parameter(query, name string) string {
	q, _ := url.ParseQuery(query) // of a broken query, what could be read
	return q.Get(name)
}
