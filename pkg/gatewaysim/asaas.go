package gatewaysim

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// asaas plays Asaas' API v3: decimal reais, times without a zone, exactly
// 200 as success.
type asaas struct{}

// saoPaulo is the zone that Asaas' times are in.
var saoPaulo = time.FixedZone("-03", -3*60*60)

func (asaas) name() string { return "asaas" }

func (asaas) kinds() []weighted {
	return []weighted{
		{KindCreated, 8}, {KindPaid, 30}, {KindSettled, 20}, {KindPartRefunded, 7}, {KindRefunded, 6},
		{KindFailedThenPaid, 4}, {KindExpired, 4}, {KindExpiredThenPaid, 6},
		{KindCanceled, 4}, {KindRestoredThenPaid, 3}, {KindDisputed, 3}, {KindDisputeWon, 3}, {KindDisputeLost, 3},
	}
}

func (asaas) eventID(r *rand.Rand) string {
	return "evt_" + randomText(r, 32, hexes) + "&" + strconv.FormatInt(900_000_000+r.Int64N(99_999_999), 10)
}

func (asaas) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{"sim-" + randomText(r, 36, base62)},
		APIKey:         "$aact_prod_" + randomText(r, 48, base62),
	}
}

func (asaas) objects(p *pay) []string { return []string{p.id} }

func (asaas) identity(_ *pay, _ *step, h *happening) string { return h.id }

func (asaas) success(status int) bool { return status == http.StatusOK }

func (asaas) settings(_ *account, apiBase string) map[string]string {
	return map[string]string{"API_BASE": apiBase + "/v3"}
}

func (g asaas) retitle(typ string, r *rand.Rand) map[string]any {
	return map[string]any{"event": typ, "id": g.eventID(r)}
}

func (asaas) sign(c *Credentials, body []byte, _ time.Time, pick uint64) Sent {
	return Sent{Body: body, Header: http.Header{
		"Asaas-Access-Token": {c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))]},
		"User-Agent":         {"Java/17.0.9"},
	}}
}

func (g asaas) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	h := s.Header
	token := h.Get("Asaas-Access-Token")
	switch variant % 5 {
	case 0:
		h.Set("Asaas-Access-Token", "sim-forged-token-00000000000000000000")
	case 1:
		h.Del("Asaas-Access-Token")
	case 2:
		h.Set("Asaas-Access-Token", "")
	case 3:
		h.Set("Asaas-Access-Token", token+"x")
	case 4: // the token where it does not belong
		h.Del("Asaas-Access-Token")
		h.Set("Authorization", "Bearer "+token)
	}
	return s
}

// test: Asaas marks nothing as a test; its sandbox is another account.
func (asaas) test(*pay, *step, *happening, uint64) ([]byte, http.Header) { return nil, nil }

func (g asaas) malformed(_ *pay, body []byte, variant uint64) []byte {
	id := g.eventID(newRand(variant, streamRequest))
	head := `{"id":"` + id + `","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-02 10:00:00",`
	switch variant % 5 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2:
		return []byte(head + `"payment":{"value":10.00,"status":"RECEIVED"}}`)
	case 3:
		return []byte(head + `"payment":{"id":["pay_x"],"value":10.00,"status":"RECEIVED"}}`)
	}
	return []byte("<html>" + id + "</html>")
}

func (g asaas) body(p *pay, st *step, h *happening, _ int) []byte {
	return object{
		{"id", h.id}, {"event", h.typ}, {"dateCreated", asaasTime(st.at)},
		{"account", object{{"id", "9f1c2d3e-0000-4000-8000-000000000000"}, {"ownerId", nil}}},
		{"payment", g.payment(p, &st.state)},
	}.bytes()
}

func asaasTime(t time.Time) string { return t.In(saoPaulo).Format("2006-01-02 15:04:05") }

func asaasDate(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.In(saoPaulo).Format("2006-01-02")
}

// reais spells an amount of centavos as Asaas does: 149.90, and at times
// 100, 100.0 or 8.2.
func reais(cents int64, spelling uint64) raw {
	whole, part := strconv.FormatInt(cents/100, 10), cents%100
	two := whole + "." + strconv.Itoa(int(part/10)) + strconv.Itoa(int(part%10))
	switch spelling % 3 {
	case 0:
		return raw(two)
	case 1:
		return raw(strings.TrimSuffix(strings.TrimRight(two, "0"), "."))
	}
	if part%10 == 0 {
		return raw(two[:len(two)-1])
	}
	return raw(two)
}

// payment is the payment object of webhooks and of the API.
func (g asaas) payment(p *pay, st *state) object {
	value, original, interest := p.amount+st.interest, any(nil), any(nil)
	if st.interest > 0 {
		original, interest = reais(p.amount, p.oddities), reais(st.interest, p.oddities)
	}
	var refunds, chargeback any
	if len(st.refunds) > 0 {
		refunds = g.refunds(p, st)
	}
	if st.dispute != nil {
		chargeback = object{{"status", st.dispute.word}, {"reason", st.dispute.reason}}
	}
	client := st.confirmedAt
	if client.IsZero() {
		client = st.receivedAt
	}
	return object{
		{"object", "payment"}, {"id", p.id}, {"dateCreated", asaasDate(p.made())}, {"customer", "cus_" + p.id[len("pay_"):]},
		{"subscription", nil}, {"installment", nil}, {"installmentNumber", nil}, {"paymentLink", nil}, {"checkoutSession", nil},
		{"value", reais(value, p.oddities>>2)}, {"netValue", reais(value-st.fee, p.oddities>>4)},
		{"originalValue", original}, {"interestValue", interest},
		{"description", "Pedido nº " + p.reference + " – ação"}, {"billingType", p.method}, {"status", st.word},
		{"externalReference", p.reference}, {"dueDate", asaasDate(p.made().Add(24 * time.Hour))},
		{"originalDueDate", asaasDate(p.made().Add(24 * time.Hour))},
		{"confirmedDate", asaasDate(st.confirmedAt)}, {"paymentDate", asaasDate(st.receivedAt)}, {"clientPaymentDate", asaasDate(client)},
		{"creditDate", asaasDate(st.receivedAt)}, {"estimatedCreditDate", asaasDate(client)},
		{"pixTransaction", nil}, {"deleted", st.deleted}, {"anticipated", false}, {"refunds", refunds}, {"chargeback", chargeback}, {"split", nil},
	}
}

func (g asaas) refunds(p *pay, st *state) []object {
	list := []object{}
	for i, r := range st.refunds {
		list = append(list, object{
			{"dateCreated", asaasTime(r.at)}, {"status", r.word}, {"value", reais(r.amount, p.oddities>>(6+i))},
			{"description", nil}, {"transactionReceiptUrl", nil},
		})
	}
	return list
}
