package gatewaysim

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// standardWebhooks plays senders that sign as the Standard Webhooks
// specification says. What they say of payments is nobody's standard, so two
// shapes are played: the accounts called "mapped" have one of their own, with
// decimal amounts, which the settings describe; all others have the shape of
// umavez's profile "generic".
//
// Every sender signs with all of its keys, as during a rotation: two shared
// secrets, of which receivers hold the first, and a private key, of whose
// public half the receivers of accounts called "ed25519" hold nothing else.
type standardWebhooks struct{}

const (
	swMapped  = "mapped"
	swEd25519 = "ed25519"

	swShared  = "whsec_"
	swPrivate = "whsk_"
	swPublic  = "whpk_"
)

func (standardWebhooks) name() string { return "standardwebhooks" }

func (standardWebhooks) kinds() []weighted {
	return []weighted{
		{KindCreated, 6}, {KindPaid, 40}, {KindAuthorized, 2}, {KindCaptured, 8},
		{KindPartRefunded, 8}, {KindRefunded, 7}, {KindRefundFailed, 4},
		{KindFailed, 3}, {KindFailedThenPaid, 5}, {KindExpired, 4}, {KindExpiredThenPaid, 5}, {KindCanceled, 3},
		{KindDisputed, 3}, {KindDisputeWon, 3}, {KindDisputeLost, 3},
	}
}

func (standardWebhooks) eventID(r *rand.Rand) string { return "msg_" + randomText(r, 24, base62) }

func (standardWebhooks) credentials(r *rand.Rand) Credentials {
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if n == ed25519.SeedSize {
			b = ed25519.NewKeyFromSeed(b)
			return swPrivate + base64.StdEncoding.EncodeToString(b)
		}
		return swShared + base64.StdEncoding.EncodeToString(b)
	}
	return Credentials{
		WebhookSecrets: []string{text(24), text(40), text(ed25519.SeedSize)},
		APIKey:         "swk_" + randomText(r, 32, base62),
	}
}

func (standardWebhooks) objects(p *pay) []string { return []string{p.id} }

func (standardWebhooks) identity(_ *pay, _ *step, h *happening) string { return h.id }

func (standardWebhooks) success(status int) bool { return status >= 200 && status < 300 }

// retitle sets the type in the shape of the profile; the id is that of the
// message, which sign takes from the body.
func (g standardWebhooks) retitle(typ string, r *rand.Rand) map[string]any {
	return map[string]any{"type": typ, "id": g.eventID(r)}
}

func (standardWebhooks) settings(a *account, apiBase string) map[string]string {
	all := map[string]string{"API_BASE": apiBase + "/standardwebhooks"}
	var shared, public []string
	for _, s := range a.WebhookSecrets {
		if key, ok := swPrivateKey(s); ok {
			public = append(public, swPublic+base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)))
		} else {
			shared = append(shared, s)
		}
	}
	switch {
	case a.name == swEd25519 && len(public) > 0:
		all["WEBHOOK_SECRETS"] = strings.Join(public, ",")
	case a.name == swMapped || len(shared) == 0:
		all["WEBHOOK_SECRETS"] = strings.Join(append(shared, public...), ",")
	default:
		all["WEBHOOK_SECRETS"] = shared[0]
	}
	if a.name == swMapped {
		for name, value := range swMapping {
			all[name] = value
		}
	}
	return all
}

func swPrivateKey(secret string) (ed25519.PrivateKey, bool) {
	encoded, ok := strings.CutPrefix(secret, swPrivate)
	if !ok {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(b) < ed25519.SeedSize {
		return nil, false
	}
	return ed25519.NewKeyFromSeed(b[:ed25519.SeedSize]), true
}

// swSignature is one entry of the list of signatures.
func swSignature(secret, id, stamp string, body []byte) string {
	text := append([]byte(id+"."+stamp+"."), body...)
	if key, ok := swPrivateKey(secret); ok {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, swShared))
	if err != nil {
		key = []byte(secret) // a secret that somebody made up
	}
	return "v1," + base64.StdEncoding.EncodeToString(swDigest(key, text))
}

func swDigest(key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return mac.Sum(nil)
}

// swID is the id of a message. The specification puts it into a header and
// not into the body; these senders repeat it there, as many do, so that a
// retry has the same one.
func swID(body []byte) string {
	if _, rest, ok := bytes.Cut(body, []byte(`"msg_`)); ok {
		if id, _, ok := bytes.Cut(rest, []byte(`"`)); ok && len(id) > 0 && len(id) < 64 {
			return "msg_" + string(id)
		}
	}
	sum := sha256.Sum256(body)
	return "msg_" + base64.RawURLEncoding.EncodeToString(sum[:18])
}

func (g standardWebhooks) sign(c *Credentials, body []byte, now time.Time, pick uint64) Sent {
	id, stamp := swID(body), strconv.FormatInt(now.Unix(), 10)
	entries := make([]string, 0, len(c.WebhookSecrets)+1)
	for i := range c.WebhookSecrets { // any order will do
		entries = append(entries, swSignature(c.WebhookSecrets[(uint64(i)+pick)%uint64(len(c.WebhookSecrets))], id, stamp, body))
	}
	if pick%5 == 0 { // a version of tomorrow
		entries = append(entries, "v2,"+randomText(newRand(pick, streamRequest), 20, base62))
	}
	return swSent(id, stamp, strings.Join(entries, " "), body)
}

func swSent(id, stamp, signatures string, body []byte) Sent {
	return Sent{Body: body, Header: http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signatures},
		"Content-Type": {"application/json"}, "User-Agent": {"Webhooks/1.0"},
	}}
}

// forge makes a request that no holder of the keys has signed just now.
func (g standardWebhooks) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, 1)
	id, stamp := s.Header.Get("Webhook-Id"), s.Header.Get("Webhook-Timestamp")
	text := append([]byte(id+"."+stamp+"."), body...)
	encode := base64.StdEncoding.EncodeToString
	switch variant % 9 {
	case 0: // other keys
		key := ed25519.NewKeyFromSeed(swDigest(nil, []byte("forged")))
		s.Header.Set("Webhook-Signature", "v1,"+encode(swDigest([]byte("a key that is nobody's secret"), text))+" v1a,"+encode(ed25519.Sign(key, text)))
	case 1: // changed on the way
		s.Body = append(bytes.Clone(body), ' ')
	case 2:
		s.Header.Del("Webhook-Signature")
	case 3: // a recording, an hour old
		return g.sign(c, body, now.Add(-time.Hour), 0)
	case 4: // from the future
		return g.sign(c, body, now.Add(time.Hour), 0)
	case 5: // under another id, to be taken for another message
		s.Header.Set("Webhook-Id", "msg_forged")
	case 6: // an old recording, under the time of now
		old := g.sign(c, body, now.Add(-time.Hour), 0)
		s.Header.Set("Webhook-Signature", old.Header.Get("Webhook-Signature"))
	case 7: // the empty key, which some receivers accept
		s.Header.Set("Webhook-Signature", "v1,"+encode(swDigest(nil, text)))
	case 8: // the public key as if it were a shared secret
		for _, secret := range c.WebhookSecrets {
			if key, ok := swPrivateKey(secret); ok {
				mac := encode(swDigest(key.Public().(ed25519.PublicKey), text))
				s.Header.Set("Webhook-Signature", "v1,"+mac+" v1a,"+mac)
				return s
			}
		}
		s.Header.Set("Webhook-Signature", "v1,")
	}
	return s
}
