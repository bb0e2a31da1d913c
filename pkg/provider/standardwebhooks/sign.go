package standardwebhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Sign returns the entry of the webhook-signature header that a sender with
// this key makes at a time: "v1,..." with a shared secret (whsec_...),
// "v1a,..." with a private key (whsk_..., the base64 of seed and public key,
// or of the seed alone). Tests and simulators use it.
func Sign(secret, id string, at time.Time, body []byte) (string, error) {
	text := signedText(id, strconv.FormatInt(at.Unix(), 10), body)
	if encoded, ok := strings.CutPrefix(secret, privatePrefix); ok {
		b, err := decodeKey(encoded)
		if err != nil || len(b) != ed25519.SeedSize && len(b) != ed25519.PrivateKeySize {
			return "", errors.New("the private key is not the base64 of 32 or 64 bytes")
		}
		private := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(private, text)), nil
	}
	b, complaint := symmetricBytes(secret, modeSpec)
	if complaint != "" {
		return "", errors.New(complaint)
	}
	mac := hmac.New(sha256.New, b)
	_, _ = mac.Write(text)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}
