package gatewaysim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// mercadopago plays Mercado Pago: notifications that name a payment and say
// nothing of it, signed over the address and not over the body. The account
// "orders" ("mercadopago/orders") uses the Orders API, where the order is the
// source of money; all others use the Payments API.
//
// Status and detail are one word here, "approved/accredited".
type mercadopago struct{}

const mercadopagoOrders = "orders"

func (p *pay) isOrder() bool { return p.acct.name == mercadopagoOrders }

func (mercadopago) name() string { return "mercadopago" }

// kinds: of one number the contract knows no payment after a failure; the
// payer's next attempt is another number. Statuses that come back are played
// all the same.
func (mercadopago) kinds() []weighted {
	return []weighted{
		{KindCreated, 6}, {KindPaid, 25}, {KindPaidRepeatedly, 12}, {KindAuthorized, 3}, {KindCaptured, 6},
		{KindPartRefunded, 9}, {KindRefunded, 8}, {KindFailed, 4}, {KindFailedThenPaid, 4}, {KindExpired, 4},
		{KindExpiredThenPaid, 4}, {KindCanceled, 4}, {KindInquiry, 5}, {KindDisputed, 3}, {KindDisputeWon, 4}, {KindDisputeLost, 4},
	}
}

func (mercadopago) eventID(r *rand.Rand) string {
	return strconv.FormatInt(100_000_000_000+r.Int64N(9_007_199_254_740_993), 10)
}

func (mercadopago) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{randomText(r, 64, hexes), randomText(r, 64, hexes)},
		APIKey:         "APP_USR-" + randomText(r, 16, digits) + "-010126-" + randomText(r, 32, hexes) + "-444555666",
	}
}

// objects: a payment is found by the number of its case too.
func (mercadopago) objects(p *pay) []string {
	ids := []string{p.id}
	if last := &p.steps[len(p.steps)-1]; last.dispute != nil {
		ids = append(ids, last.dispute.id)
	}
	return ids
}

func (g mercadopago) identity(p *pay, st *step, h *happening) string {
	if g.nameless(p, h) {
		return p.id + ":" + h.typ + ":" + strconv.Itoa(p.version(st))
	}
	return h.id
}

// nameless says whether a notification is one of the order notifications that
// have no id of their own.
func (mercadopago) nameless(p *pay, h *happening) bool {
	return p.isOrder() && strings.HasPrefix(h.typ, "order.") && p.oddities&1 == 1
}

// version counts the changes of a payment.
func (p *pay) version(st *step) int {
	for i := range p.steps {
		if &p.steps[i] == st {
			return i + 1
		}
	}
	return 0
}

// success: 202 and 204 are failures to Mercado Pago.
func (mercadopago) success(status int) bool {
	return status == http.StatusOK || status == http.StatusCreated
}

func (mercadopago) settings(a *account, apiBase string) map[string]string {
	source := "payment"
	if a.name == mercadopagoOrders {
		source = "order"
	}
	return map[string]string{"API_BASE": apiBase + "/mercadopago", "MONEY_SOURCE": source}
}

func (g mercadopago) retitle(typ string, r *rand.Rand) map[string]any {
	topic, _, _ := strings.Cut(typ, ".")
	id, _ := strconv.ParseInt(g.eventID(r), 10, 64)
	return map[string]any{"type": topic, "action": typ, "id": id}
}

// subject is what the address says of a body: data.id, as the body has it,
// and the topic.
func (mercadopago) subject(body []byte) (id, topic string) {
	var b struct {
		Type string `json:"type"`
		Data struct {
			ID      any `json:"id"`
			Payment any `json:"payment_id"`
		} `json:"data"`
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	if dec.Decode(&b) != nil {
		return "123456", "payment"
	}
	switch {
	case b.Data.ID != nil:
		id = fmt.Sprint(b.Data.ID)
	case b.Data.Payment != nil:
		id = fmt.Sprint(b.Data.Payment)
	default:
		id = "123456"
	}
	if b.Type == "" {
		b.Type = "payment"
	}
	return id, b.Type
}

// manifest is the signed text; what is not there is left out.
func (mercadopago) manifest(id, request, stamp string) string {
	text := "id:" + id + ";"
	if request != "" {
		text += "request-id:" + request + ";"
	}
	return text + "ts:" + stamp + ";"
}

func (mercadopago) digest(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// sign plays what documentation, libraries and logs disagree about: data.id
// in lower case or as sent, the time in seconds or milliseconds, and at times
// no request id.
func (g mercadopago) sign(c *Credentials, body []byte, now time.Time, pick uint64) Sent {
	id, topic := g.subject(body)
	signed, stamp := id, strconv.FormatInt(now.Unix(), 10)
	if pick>>8&1 == 1 {
		signed = strings.ToLower(id)
	}
	if pick>>9&1 == 1 {
		stamp = strconv.FormatInt(now.UnixMilli(), 10)
	}
	h := http.Header{"User-Agent": {"MercadoPago WebHook v1.0 " + topic}}
	request := ""
	if pick>>10&7 != 0 {
		request = uuid(newRand(pick, streamRequest))
		h.Set("X-Request-Id", request)
	}
	secret := c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))]
	h.Set("X-Signature", "ts="+stamp+",v1="+g.digest(secret, g.manifest(signed, request, stamp)))
	return Sent{Body: body, Header: h, Query: "data.id=" + url.QueryEscape(id) + "&type=" + url.QueryEscape(topic)}
}

func uuid(r *rand.Rand) string {
	t := randomText(r, 32, hexes)
	return t[:8] + "-" + t[8:12] + "-4" + t[13:16] + "-a" + t[17:20] + "-" + t[20:]
}

func (g mercadopago) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	id, topic := g.subject(body)
	h := s.Header
	signature := h.Get("X-Signature")
	stamp, v1, _ := strings.Cut(signature, ",")
	switch variant % 9 {
	case 0: // a secret that is not ours
		h.Set("X-Signature", stamp+",v1="+g.digest("forged", g.manifest(id, h.Get("X-Request-Id"), strings.TrimPrefix(stamp, "ts="))))
	case 1:
		h.Del("X-Signature")
	case 2: // a true signature beside another payment
		s.Query = "data.id=" + url.QueryEscape(id+"9") + "&type=" + url.QueryEscape(topic)
	case 3:
		h.Set("X-Request-Id", "00000000-0000-4000-8000-000000000000")
	case 4:
		h.Set("X-Signature", stamp+"0,"+v1)
	case 5: // an IPN, which nobody can verify
		s.Query = "id=" + url.QueryEscape(id) + "&topic=" + url.QueryEscape(topic)
		h.Set("User-Agent", "MercadoPago Feed v2.0 "+topic)
	case 6:
		h.Set("X-Signature", stamp+",v1="+strings.Repeat("é", 32))
	case 7:
		h.Set("X-Signature", v1)
	case 8: // the parts of the signed text, cut elsewhere
		s.Query = "data.id=" + url.QueryEscape(id+";request-id:"+h.Get("X-Request-Id")) + "&type=" + url.QueryEscape(topic)
		h.Del("X-Request-Id")
	}
	return s
}

// test: what marks a test is the order's id. live_mode says nothing.
func (g mercadopago) test(_ *pay, st *step, _ *happening, variant uint64) ([]byte, http.Header) {
	r := newRand(variant, streamRequest)
	return object{
		{"action", "order.processed"}, {"api_version", "v1"}, {"application_id", "7000000000000001"},
		{"data", object{{"id", "ORDTST01" + randomText(r, 18, base36)}, {"status", "processed"}, {"status_detail", "accredited"}, {"total_paid_amount", "250.00"}, {"version", 3}}},
		{"date_created", st.at.Format(time.RFC3339)}, {"live_mode", true}, {"type", "order"}, {"user_id", "444555666"},
	}.bytes(), nil
}

func (g mercadopago) malformed(_ *pay, body []byte, variant uint64) []byte {
	mark := randomText(newRand(variant, streamRequest), 16, digits)
	switch variant % 5 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2:
		return []byte(`{"id":` + mark + `,"action":"payment.updated","data":{"id":"98765432101"}}`)
	case 3:
		return []byte(`{"id":1` + mark + `,"type":"payment","action":"payment.updated","data":{"id":"pay_` + mark + `"}}`)
	}
	return []byte("<html>" + mark + "</html>")
}
