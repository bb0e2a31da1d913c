package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// gateway is one gateway as it behaves towards us, written by hand from its
// contract: bodies, credentials, and the answers of its API.
type gateway struct {
	name      string
	prefix    string // of its payment ids
	refused   int    // the answer to wrong credentials
	header    string // that carries them
	signs     bool   // the credentials cover the body
	hasIDs    bool   // its events have ids that last
	minSecret string // a secret that could be one
	sign      func(secret string, body []byte) http.Header
	body      func(e hook) []byte
	answer    func(path string, s sale) string
}

// sale is a payment at a gateway. Amounts are centavos.
type sale struct {
	id            string
	status        string // created, failed, paid, refunded
	amount, fee   int64
	refunded      int64
	withoutFields bool   // in bodies: no reference, no amounts but those needed
	rawAmount     string // what PagPolar's API gives as the amount instead
}

// hook is one webhook about a sale.
type hook struct {
	sale
	kind string // created, failed, paid, refunded, again (paid, told a second way), look (says nothing of itself)
	id   string // the gateway's event id, or the attempt's
	at   time.Time
	note string // JSON of a text that a person wrote
	test bool
}

const owner = "loja-e2e"

func (s sale) reference() string { return owner + ":" + s.id }

func newHook(kind, id string, s sale) hook {
	return hook{sale: s, kind: kind, id: id, at: time.Now().Add(-time.Hour), note: `"Pedido"`}
}

// gateways are those that the cases go through.
var gateways = []*gateway{&stripeGateway, &asaasGateway, &pagpolarGateway}

var stripeGateway = gateway{
	name: "stripe", prefix: "pi_", refused: 400, header: "Stripe-Signature", signs: true, hasIDs: true, minSecret: "whsec_e2e_0123456789",
	sign: func(secret string, body []byte) http.Header {
		t := strconv.FormatInt(time.Now().Unix(), 10)
		return http.Header{"Stripe-Signature": {"t=" + t + ",v1=" + stripeDigest(secret, t, body)}, "Content-Type": {"application/json"}}
	},
	body: func(e hook) []byte {
		typ, object := "payment_intent."+map[string]string{"created": "created", "failed": "payment_failed", "paid": "succeeded"}[e.kind], ""
		switch e.kind {
		case "refunded":
			typ = "refund.created"
			object = fmt.Sprintf(`{"id":"re_%[1]s","object":"refund","amount":%[2]d,"currency":"brl","payment_intent":"%[1]s","status":"succeeded"}`, e.sale.id, e.refunded)
		case "again", "look":
			typ = map[string]string{"again": "charge.succeeded", "look": "charge.updated"}[e.kind]
			object = stripeCharge(e.sale)
		default:
			object = stripeIntent(e.sale, e.kind, e.note, "null")
		}
		return fmt.Appendf(nil, `{"id":"%s","object":"event","api_version":"2026-02-25.clover","created":%d,"livemode":%v,"type":"%s","data":{"object":%s}}`,
			e.id, e.at.Unix(), !e.test, typ, object)
	},
	answer: func(_ string, s sale) string { return stripeIntent(s, s.status, `""`, stripeCharge(s)) },
}

func stripeDigest(secret, t string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func stripeIntent(s sale, status, note, charge string) string {
	word, failure, received, metadata := "requires_action", "null", int64(0), fmt.Sprintf(`{"order_id":"%s"}`, s.reference())
	switch status {
	case "failed":
		word, failure = "requires_payment_method", `{"code":"card_declined"}`
	case "paid", "refunded":
		word, received = "succeeded", s.amount
	}
	if received == 0 {
		charge = "null"
	}
	if s.withoutFields {
		metadata = "{}"
	}
	return fmt.Sprintf(`{"id":"%s","object":"payment_intent","amount":%d,"amount_received":%d,"currency":"brl","description":%s,"livemode":true,"status":"%s","last_payment_error":%s,"metadata":%s,"latest_charge":%s}`,
		s.id, s.amount, received, note, word, failure, metadata, charge)
}

func stripeCharge(s sale) string {
	refunds := ""
	if s.refunded > 0 {
		refunds = fmt.Sprintf(`{"id":"re_%[1]s","object":"refund","amount":%[2]d,"currency":"brl","payment_intent":"%[1]s","status":"succeeded"}`, s.id, s.refunded)
	}
	return fmt.Sprintf(`{"id":"ch_%[1]s","object":"charge","amount":%[2]d,"amount_captured":%[2]d,"amount_refunded":%[3]d,"captured":true,"currency":"brl","refunded":%[4]v,"status":"succeeded","payment_intent":"%[1]s",`+
		`"metadata":{"order_id":"%[7]s"},"balance_transaction":{"id":"txn_%[1]s","object":"balance_transaction","currency":"brl","fee":%[5]d},"refunds":{"object":"list","data":[%[6]s],"has_more":false}}`,
		s.id, s.amount, s.refunded, s.refunded == s.amount, s.fee, refunds, s.reference())
}

var asaasGateway = gateway{
	name: "asaas", prefix: "pay_", refused: 401, header: "Asaas-Access-Token", hasIDs: true, minSecret: "e2e-token-0123456789-0123456789-01234",
	sign: func(secret string, _ []byte) http.Header {
		return http.Header{"Asaas-Access-Token": {secret}, "Content-Type": {"application/json"}}
	},
	body: func(e hook) []byte {
		typ := map[string]string{"created": "PAYMENT_CREATED", "failed": "PAYMENT_CREDIT_CARD_CAPTURE_REFUSED", "paid": "PAYMENT_CONFIRMED",
			"again": "PAYMENT_RECEIVED", "look": "PAYMENT_UPDATED", "refunded": "PAYMENT_REFUNDED"}[e.kind]
		s := e.sale
		s.status = map[string]string{"again": "paid", "look": "created"}[e.kind]
		if s.status == "" {
			s.status = e.kind
		}
		return fmt.Appendf(nil, `{"id":"%s","event":"%s","dateCreated":"%s","payment":%s}`, e.id, typ,
			e.at.UTC().Add(-3*time.Hour).Format(time.DateTime), asaasPayment(s, e.note))
	},
	answer: func(_ string, s sale) string { return asaasPayment(s, `""`) },
}

func asaasPayment(s sale, note string) string {
	word := map[string]string{"created": "PENDING", "failed": "PENDING", "paid": "CONFIRMED", "refunded": "REFUNDED"}[s.status]
	refunds := "null"
	if s.status == "refunded" {
		refunds = fmt.Sprintf(`[{"dateCreated":"2026-01-05 10:00:00","status":"DONE","value":%s}]`, reais(s.refunded))
	}
	more := fmt.Sprintf(`,"netValue":%s,"externalReference":"%s"`, reais(s.amount-s.fee), s.reference())
	if s.withoutFields {
		more = ""
	}
	return fmt.Sprintf(`{"object":"payment","id":"%s","value":%s,"description":%s,"billingType":"CREDIT_CARD","status":"%s","deleted":false,"refunds":%s%s}`,
		s.id, reais(s.amount), note, word, refunds, more)
}

func reais(centavos int64) string { return fmt.Sprintf("%d.%02d", centavos/100, centavos%100) }

var pagpolarGateway = gateway{
	name: "pagpolar", prefix: "sale-", refused: 401, header: "Authorization", minSecret: "pp_e2e_0123456789abcdef",
	sign: func(secret string, _ []byte) http.Header {
		return http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}
	},
	body: func(e hook) []byte {
		typ := "TRANSACTION_" + map[string]string{"created": "CREATED", "failed": "REFUSED", "paid": "PAID", "again": "APPROVED", "look": "UPDATED", "refunded": "REFUNDED"}[e.kind]
		more := ""
		if e.test {
			more = `"test":true,`
		}
		return fmt.Appendf(nil, `{"event":"%s","id":"%s","creation_date":"%s",%s"data":{"transaction":{"id":"%s","status":"%s","description":%s}}}`,
			typ, e.id, e.at.UTC().Format(time.RFC3339), more, e.sale.id, strings.ToUpper(e.kind), e.note)
	},
	answer: func(path string, s sale) string {
		if path == "/refunds" {
			if s.status != "refunded" {
				return `{"data":[]}`
			}
			return fmt.Sprintf(`{"data":[{"id":"rf_%s","amount":%d,"status":"DONE"}]}`, s.id, s.refunded)
		}
		word := map[string]string{"created": "PENDING", "failed": "REFUSED", "paid": "PAID", "refunded": "REFUNDED"}[s.status]
		amount := s.rawAmount
		if amount == "" {
			amount = strconv.FormatInt(s.amount, 10)
		}
		return fmt.Sprintf(`{"id":"%s","status":"%s","amount":%s,"fee":%d,"reference":"%s"}`, s.id, word, amount, s.fee, s.reference())
	},
}

// accounts of each gateway; a source is "stripe" or "stripe/loja2".
var accounts = []string{"default", "loja2"}

func sourceName(g *gateway, account string) string {
	if account == "default" {
		return g.name
	}
	return g.name + "/" + account
}

// secretsOf are the secrets of a source, the older one first.
func secretsOf(g *gateway, account string) []string {
	return []string{g.minSecret + "_" + account + "_old", g.minSecret + "_" + account + "_new"}
}

func apiKeyOf(g *gateway, account string) string { return "apikey_e2e_" + g.name + "_" + account }

// worldSettings configure two accounts of each gateway.
func worldSettings(apiBase string) map[string]string {
	env := map[string]string{"ENVIRONMENT": "production"}
	var sources []string
	for _, g := range gateways {
		for _, a := range accounts {
			sources = append(sources, sourceName(g, a))
			prefix := strings.ToUpper(g.name) + "_"
			if a != "default" {
				prefix += strings.ToUpper(a) + "_"
			}
			own := map[string]string{
				"WEBHOOK_SECRETS": strings.Join(secretsOf(g, a), ","), "API_KEY": apiKeyOf(g, a), "API_BASE": apiBase,
				"LOOKUP_RATE": "100000", "LOOKUP_LAG": "2s", "BENEFICIARY_PATTERN": `^([^:]+):.`,
			}
			switch g.name {
			case "asaas":
				own["API_BASE"] += "/v3"
			case "pagpolar":
				for name, value := range map[string]string{
					"API_AUTH": "Authorization: Bearer {key}", "SALE_ID_PATH": "id", "STATUS_PATH": "status",
					"STATUS_MAP":  "PENDING=pending,PAID=paid,REFUSED=failed,REFUNDED=refunded",
					"AMOUNT_PATH": "amount", "AMOUNT_UNIT": "minor", "CURRENCY": "BRL", "FEE_PATH": "fee", "REFERENCE_PATH": "reference",
					"REFUNDS_LIST_PATH": "data", "REFUND_ID_PATH": "id", "REFUND_AMOUNT_PATH": "amount", "REFUND_STATUS_PATH": "status",
					"REFUND_STATUS_MAP": "DONE=succeeded",
				} {
					own[name] = value
				}
			}
			for name, value := range own {
				env[prefix+name] = value
			}
		}
	}
	env["SOURCES"] = strings.Join(sources, ",")
	return env
}
