package gatewaysim

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const pagarmeSignature = "X-Webhook-Asymmetric-Signature"

func pagarmeAccountID(a *account) string { return "acc_" + pagarmeHash(&a.Credentials)[:16] }

func pagarmeHash(c *Credentials) string {
	sum := sha256.Sum256([]byte("pagarme " + c.WebhookSecrets[0]))
	return hex.EncodeToString(sum[:])
}

// pagarmeKeys keeps the keys that were made: it takes a moment.
var pagarmeKeys sync.Map // of the seed's text to func() *rsa.PrivateKey

// pagarmeKey is the private key of an account, the same for the same secret.
func pagarmeKey(c *Credentials) *rsa.PrivateKey { return pagarmeKeyOf(pagarmeHash(c)) }

func pagarmeKeyOf(seed string) *rsa.PrivateKey {
	made, _ := pagarmeKeys.LoadOrStore(seed, sync.OnceValue(func() *rsa.PrivateKey { return makePagarmeKey(seed) }))
	return made.(func() *rsa.PrivateKey)()
}

// makePagarmeKey builds a key of 2048 bits from a text. crypto/rsa makes keys
// from the system's randomness alone, and so would not repeat them.
func makePagarmeKey(seed string) *rsa.PrivateKey {
	source := rand.NewChaCha8(sha256.Sum256([]byte(seed)))
	one, e := big.NewInt(1), big.NewInt(65537)
	prime := func() *big.Int {
		buf := make([]byte, 128)
		for {
			_, _ = source.Read(buf)
			buf[0] |= 0xc0 // so that the product has all its bits
			buf[127] |= 1
			p := new(big.Int).SetBytes(buf)
			if p.ProbablyPrime(20) && new(big.Int).Mod(new(big.Int).Sub(p, one), e).Sign() != 0 {
				return p
			}
		}
	}
	p, q := prime(), prime()
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	key := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537},
		D:         new(big.Int).ModInverse(e, phi), Primes: []*big.Int{p, q},
	}
	key.Precompute()
	if err := key.Validate(); err != nil {
		panic("gatewaysim: " + err.Error())
	}
	return key
}

func pagarmeKeyID(key *rsa.PrivateKey) string {
	sum := sha256.Sum256(key.N.Bytes())
	return "sim-" + hex.EncodeToString(sum[:6])
}

func pagarmeSign(key *rsa.PrivateKey, kid string, body []byte) string {
	sum := sha256.Sum256(body)
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		panic("gatewaysim: " + err.Error())
	}
	return "alg=RS256; kid=" + kid + "; signature=" + base64.RawURLEncoding.EncodeToString(signature)
}

func pagarmeHubSignature(key string, body []byte) string {
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write(body)
	return "sha1=" + hex.EncodeToString(mac.Sum(nil))
}

// isPostback tells the two APIs' bodies apart: one sends JSON (or what a proxy
// made of it), the other forms.
func isPostback(body []byte) bool { return len(body) > 0 && body[0] >= 'a' && body[0] <= 'z' }

func (pagarme) sign(c *Credentials, body []byte, _ time.Time, pick uint64) Sent {
	if isPostback(body) {
		key := c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))]
		return Sent{Body: body, Header: http.Header{
			"X-Hub-Signature": {pagarmeHubSignature(key, body)}, "Content-Type": {"application/x-www-form-urlencoded"},
		}}
	}
	key := pagarmeKey(c)
	return Sent{Body: body, Header: http.Header{pagarmeSignature: {pagarmeSign(key, pagarmeKeyID(key), body)}, "User-Agent": {"RestSharp/106.6.10.0"}}}
}

func (g pagarme) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	if isPostback(body) {
		return forgePostback(s, c, variant)
	}
	key := pagarmeKey(c)
	kid := pagarmeKeyID(key)
	sum := sha256.Sum256(body)
	set := func(value string) { s.Header.Set(pagarmeSignature, value) }
	switch variant % 7 {
	case 0: // a key of the forger's own under the name of the real one
		set(pagarmeSign(pagarmeKeyOf("forger"), kid, body))
	case 1:
		set(pagarmeSign(pagarmeKeyOf("forger"), "forged-key", body))
	case 2:
		set("alg=none; kid=" + kid + "; signature=")
	case 3: // the public key as if it were a shared secret
		mac := hmac.New(sha256.New, key.N.Bytes())
		mac.Write(body)
		set("alg=HS256; kid=" + kid + "; signature=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	case 4:
		s.Header.Del(pagarmeSignature)
	case 5: // a real signature beside another body
		s.Body = append(append([]byte{}, body[:len(body)-1]...), ' ', '}')
	case 6: // what checks the older API
		s.Header.Del(pagarmeSignature)
		s.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(sum[:]))
	}
	return s
}

func forgePostback(s Sent, c *Credentials, variant uint64) Sent {
	const header = "X-Hub-Signature"
	switch variant % 5 {
	case 0:
		s.Header.Set(header, pagarmeHubSignature("ak_live_forged", s.Body))
	case 1:
		s.Header.Del(header)
	case 2: // the form written anew: a plus for a space
		s.Body = append(append([]byte{}, s.Body...), "&x=a+b"...)
	case 3:
		mac := hmac.New(sha256.New, []byte(c.WebhookSecrets[0]))
		mac.Write(s.Body)
		s.Header.Set(header, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	case 4:
		s.Header.Set(header, pagarmeHubSignature("", s.Body))
	}
	return s
}
