package gatewaysim

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// pagarme plays Pagar.me: its core API v5, with signed JSON and charges inside
// of orders; and, for the account "legado", the form-encoded postbacks of the
// API v1 to v4, which has no lookups here.
type pagarme struct{}

// pagarmeLegacy is the account that plays the older API.
const pagarmeLegacy = "legado"

func (pagarme) name() string { return "pagarme" }

func (pagarme) kinds() []weighted {
	return []weighted{
		{KindCreated, 6}, {KindPaid, 30}, {KindPaidRepeatedly, 6}, {KindAuthorized, 3}, {KindCaptured, 8}, {KindPartRefunded, 8}, {KindRefunded, 8},
		{KindFailed, 4}, {KindFailedThenPaid, 5}, {KindExpired, 4}, {KindExpiredThenPaid, 5}, {KindCanceled, 4}, {KindDisputeLost, 6},
	}
}

func (pagarme) eventID(r *rand.Rand) string { return "hook_" + randomText(r, 16, base62) }

// credentials: the one secret is the API key with which postbacks are signed,
// and what the private key and the account's id of the core API are made of.
func (pagarme) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{"ak_live_" + randomText(r, 30, base62)},
		APIKey:         "sk_" + randomText(r, 32, base62),
	}
}

func (pagarme) objects(p *pay) []string {
	if p.legacy() {
		return []string{p.id}
	}
	return []string{p.id, pagarmeOrderID(p)}
}

// legacy says whether a payment of Pagar.me is a transaction of the older API.
func (p *pay) legacy() bool { return p.acct.name == pagarmeLegacy }

func (pagarme) identity(_ *pay, _ *step, h *happening) string { return h.id }

func (pagarme) success(status int) bool { return status == http.StatusOK }

func (g pagarme) settings(a *account, apiBase string) map[string]string {
	if a.name == pagarmeLegacy {
		return map[string]string{"API_VERSION": "4", "LOOKUP": "never", "REFERENCE_FIELD": "metadata.order_id"}
	}
	return map[string]string{
		"AUTH": "signature", "WEBHOOK_SECRETS": "", "JWKS_URL": apiBase + pagarmeBase + "/.well-known/jwks.json",
		"API_BASE": apiBase + pagarmeBase + "/core/v5", "ACCOUNT_ID": pagarmeAccountID(a), "PAYABLES": "true",
	}
}

func (g pagarme) retitle(typ string, r *rand.Rand) map[string]any {
	return map[string]any{"type": typ, "id": g.eventID(r)}
}

// test: Pagar.me marks nothing as a test; what it may send is an event
// without content.
func (g pagarme) test(p *pay, st *step, h *happening, variant uint64) ([]byte, http.Header) {
	if p.legacy() {
		return nil, nil
	}
	data := any(nil)
	if variant%2 == 0 {
		data = object{}
	}
	return g.envelope(p, st, &happening{typ: h.typ, id: g.eventID(newRand(variant, streamRequest))}, data).bytes(), nil
}

func (g pagarme) malformed(p *pay, body []byte, variant uint64) []byte {
	id := g.eventID(newRand(variant, streamRequest))
	if p.legacy() {
		switch n := strconv.FormatUint(variant, 10); variant % 4 {
		case 0:
			return append([]byte("id="+n+"&"), body...) // a name twice
		case 1:
			return []byte("id=" + n + "&current_status=paid&object=transaction")
		case 2:
			return []byte("id=" + n + "&event=transaction_status_changed&current_status=paid&transaction%5Bid%5D=1")
		default:
			return []byte("id=" + n + "&event=transaction_status_changed&current_status=%zz")
		}
	}
	head := `{"id":"` + id + `","account":{"id":"` + pagarmeAccountID(p.acct) + `"},"type":"charge.paid","created_at":"2026-01-02T10:00:00Z",`
	switch variant % 6 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2:
		return []byte(head + `"data":{"amount":1000,"paid_amount":1000,"status":"paid"}}`)
	case 3:
		return []byte(head + `"data":{"id":["ch_x"],"amount":1000,"status":"paid"}}`)
	case 4: // signed with the same keys, since all merchants share them
		return []byte(`{"id":"` + id + `","account":{"id":"acc_ofanothermerchant"},"type":"charge.paid","data":{"id":"` + p.id + `","paid_amount":1,"status":"paid"}}`)
	}
	return []byte("<html>" + id + "</html>")
}

func (g pagarme) body(p *pay, st *step, h *happening, _ int) []byte {
	if p.legacy() {
		return g.postback(p, st, h)
	}
	data := g.charge(p, &st.state, true)
	switch {
	case h.typ == "chargeback.received":
		data = object{{"id", "cbk_" + h.id}, {"amount", st.dispute.amount}, {"charge", object{{"id", p.id}}}}
	case pagarmeAboutOrder(h.typ):
		data = g.order(p, &st.state)
	}
	return g.envelope(p, st, h, data).bytes()
}

// envelope is what the core API has round every resource. The events of one
// step follow each other within a second.
func (pagarme) envelope(p *pay, st *step, h *happening, data any) object {
	at := st.at.Add(time.Duration(mix(p.oddities, uint64(len(h.typ)))%900) * time.Millisecond)
	return object{
		{"id", h.id}, {"account", object{{"id", pagarmeAccountID(p.acct)}, {"name", "Loja São João"}}},
		{"type", h.typ}, {"created_at", at.UTC().Format("2006-01-02T15:04:05.0000000Z")}, {"data", data},
	}
}
