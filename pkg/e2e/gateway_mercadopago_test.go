package e2e

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var mercadopagoGateway = gateway{
	name: "mercadopago", accounts: []string{"default", "loja2"}, refused: 401, words: [2]string{"ok", "unauthorized"},
	header: "X-Signature", hasIDs: true, names: mercadopagoNumber, minSecret: "mp_e2e_7c9e6679f3b04a1d7c9e6679f3b04a1d",
	mute: true, fixed: true,
	id: func(text string) string {
		return strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, text)
	},
	sign: func(_, secret string, body []byte) credentials {
		id := found(mercadopagoID, body, "1")
		return mercadopagoCredentials(secret, id, id, found(mercadopagoTopic, body, "payment"))
	},
	odd: func(value string) credentials {
		return credentials{header: http.Header{"X-Signature": {value}, "X-Request-Id": {"r-1"}}, query: "data.id=1&type=payment"}
	},
	body: func(e hook) []byte {
		action := "payment.updated"
		if e.kind == "created" {
			action = "payment.created"
		}
		return fmt.Appendf(nil, `{"id":%s,"live_mode":true,"type":"payment","date_created":"%s","user_id":444555666,"api_version":"v1","action":"%s","data":{"id":"%s"},"description":%s}`,
			mercadopagoNumber(e.id), e.at.UTC().Format(time.RFC3339), action, e.sale.id, e.note)
	},
	asks: func(path string, _ url.Values) string {
		return cmp.Or(under(path, "/v1/payments/"), under(path, "/v1/orders/"))
	},
	answer: func(_ *http.Request, s sale) string {
		word, detail := "pending", "pending_waiting_transfer"
		refunds, refunded, fees := "", int64(0), ""
		switch s.status {
		case "failed":
			word, detail = "rejected", "cc_rejected_other_reason"
		case "paid":
			word, detail = "approved", "accredited"
		case "mediation":
			word, detail = "in_mediation", "pending"
		case "part":
			word, detail, refunded = "approved", "partially_refunded", s.refunded
		case "lost":
			word, detail, refunded = "charged_back", "settled", s.refunded
		case "refunded":
			word, detail, refunded = "refunded", "refunded", s.refunded
		}
		if refunded > 0 {
			refunds = s.each(func(number string, amount int64) string {
				return fmt.Sprintf(`{"id":5%s%s,"amount":%s,"status":"approved"}`, s.id, number, shortReais(amount))
			})
		}
		if s.fee > 0 && s.status != "created" {
			fees = fmt.Sprintf(`{"type":"mercadopago_fee","fee_payer":"collector","amount":%s},{"type":"financing_fee","fee_payer":"payer","amount":1.99}`, shortReais(s.fee))
		}
		return fmt.Sprintf(`{"id":%s,"status":"%s","status_detail":"%s","live_mode":true,"currency_id":"BRL","transaction_amount":%s,"transaction_amount_refunded":%s,`+
			`"fee_details":[%s],"refunds":[%s],"external_reference":"%s","collector_id":444555666,"captured":true}`,
			s.id, cmp.Or(s.word, word), detail, cmp.Or(s.rawAmount, shortReais(s.amount)), shortReais(refunded), fees, refunds, s.reference())
	},
	settings: func(string, string) map[string]string { return map[string]string{"USER_ID": "444555666"} },
	open: []change{
		{"without lookup", map[string]string{"MERCADOPAGO_LOOKUP": "never"}, "MERCADOPAGO_LOOKUP"},
		{"without a key to look up", map[string]string{"MERCADOPAGO_API_KEY": ""}, "MERCADOPAGO_API_KEY"},
	},
}

var (
	mercadopagoID    = regexp.MustCompile(`"data"\s*:\s*\{\s*"id"\s*:\s*"?([0-9A-Za-z]+)`)
	mercadopagoTopic = regexp.MustCompile(`"type"\s*:\s*"([a-z_]+)"`)
	mercadopagoTurn  atomic.Int64
)

// mercadopagoCredentials sign one spelling of an id and send another. Each
// request has an id of its own, which is signed.
func mercadopagoCredentials(secret, signed, sent, topic string) credentials {
	request := fmt.Sprintf("7d2b1f60-5a3e-4c8f-9b1a-%012d", mercadopagoTurn.Add(1))
	ts := strconv.FormatInt(time.Now().UnixMilli(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "id:%s;request-id:%s;ts:%s;", signed, request, ts)
	return credentials{
		header: http.Header{"X-Signature": {"ts=" + ts + ",v1=" + hex.EncodeToString(mac.Sum(nil))}, "X-Request-Id": {request}, "User-Agent": {"MercadoPago WebHook v1.0 " + topic}},
		query:  "data.id=" + url.QueryEscape(sent) + "&type=" + topic,
	}
}

// mercadopagoNumber makes an event's id of a text: they are numbers there.
func mercadopagoNumber(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text)) //nolint:errcheck // a hash
	return strconv.FormatUint(h.Sum64()>>1, 10)
}

// shortReais drops trailing zeros, as numbers in JSON do.
func shortReais(centavos int64) string {
	return strings.TrimSuffix(strings.TrimRight(reais(centavos), "0"), ".")
}
