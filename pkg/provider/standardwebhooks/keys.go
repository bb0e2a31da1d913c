package standardwebhooks

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/umavez/umavez/pkg/provider"
)

// The prefixes of keys. The private one is the sender's and has no business
// here.
const (
	symmetricPrefix = "whsec_"
	publicPrefix    = "whpk_"
	privatePrefix   = "whsk_"
)

// keyMode says how the text of a symmetric secret becomes a key. Real senders
// deviate, and trying the modes one after the other would hide which one is
// used, so it is a setting.
type keyMode string

const (
	modeSpec   keyMode = "spec"               // base64 after the prefix
	modeRaw    keyMode = "raw"                // the whole text
	modeSuffix keyMode = "raw_without_prefix" // the text after the prefix
)

// The bytes of a symmetric key: what the specification asks for, and how far
// MIN_KEY_BYTES may go down.
const (
	minKey      = 24
	leastMinKey = 16
)

// key is one entry of WEBHOOK_SECRETS. Exactly one of its two halves is set:
// the kind of a key is decided by its own text, never by a request, or else a
// public key could be abused as a shared secret.
type key struct {
	macs   *sync.Pool // of hash.Hash
	public ed25519.PublicKey
}

func symmetricKey(secret []byte) key {
	return key{macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// keys reads KEY_MODE, MIN_KEY_BYTES and the secrets.
func (r *reader) keys() (keyMode, []key) {
	mode := keyMode(r.own("KEY_MODE", string(modeSpec)))
	switch mode {
	case modeSpec, modeRaw, modeSuffix:
	default:
		r.fault("KEY_MODE", "is none of %s, %s and %s", modeSpec, modeRaw, modeSuffix)
		return mode, nil
	}
	least, err := strconv.Atoi(r.own("MIN_KEY_BYTES", strconv.Itoa(minKey)))
	if err != nil || least < leastMinKey || least > minKey {
		r.fault("MIN_KEY_BYTES", "is not a number from %d to %d", leastMinKey, minKey)
		return mode, nil
	}
	var keys []key
	for i, s := range r.src.WebhookSecrets {
		k, complaint := parseKey(s, mode, least)
		if complaint != "" {
			r.fault("WEBHOOK_SECRETS", "entry %d: %s", i+1, complaint)
		}
		keys = append(keys, k)
	}
	return mode, keys
}

func parseKey(s provider.Secret, mode keyMode, least int) (k key, complaint string) {
	text := s.Reveal()
	rest, pasted := strings.CutPrefix(text, "v1,")
	if !pasted {
		rest, pasted = strings.CutPrefix(text, "v1a,")
	}
	if pasted && (strings.HasPrefix(rest, symmetricPrefix) || strings.HasPrefix(rest, publicPrefix)) {
		return k, "a version is pasted in front of the key; remove everything before " + symmetricPrefix + " or " + publicPrefix
	}
	if strings.HasPrefix(text, privatePrefix) {
		return k, "it is the sender's private key; use the public one, which begins with " + publicPrefix + ", and have the private one replaced, since it was passed on"
	}
	if encoded, ok := strings.CutPrefix(text, publicPrefix); ok { // in every mode: it is no secret
		b, err := decodeKey(encoded)
		if err != nil || len(b) != ed25519.PublicKeySize {
			return k, "after " + publicPrefix + " there is not the base64 of exactly 32 bytes"
		}
		return key{public: b}, ""
	}
	b, complaint := symmetricBytes(text, mode)
	switch {
	case complaint != "":
		return k, complaint
	case len(b) < least:
		return k, "the key has fewer than " + strconv.Itoa(least) + " bytes"
	}
	return symmetricKey(b), ""
}

// symmetricBytes gives the key of a shared secret in one mode.
func symmetricBytes(text string, mode keyMode) (b []byte, complaint string) {
	encoded, prefixed := strings.CutPrefix(text, symmetricPrefix)
	switch {
	case mode == modeRaw:
		return []byte(text), ""
	case mode == modeSuffix:
		return []byte(encoded), ""
	case !prefixed:
		return nil, "it begins with neither " + symmetricPrefix + " nor " + publicPrefix + "; put " + symmetricPrefix + " in front if the sender leaves it out"
	}
	b, err := decodeKey(encoded)
	if err != nil {
		return nil, "what follows " + symmetricPrefix + " is not base64; if the sender uses the text itself as the key, set KEY_MODE to " +
			string(modeRaw) + " or " + string(modeSuffix)
	}
	return b, ""
}

var errBase64 = errors.New("not strict base64")

// decodeKey reads standard base64, padded or not, and nothing else: a
// permissive decoder makes tiny keys of foreign texts, and skips line breaks.
func decodeKey(text string) ([]byte, error) {
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(text, "=") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.Strict().DecodeString(text)
	if err != nil || !bytes.Equal(encoding.AppendEncode(nil, b), []byte(text)) {
		return nil, errBase64
	}
	return b, nil
}
