package gatewaysim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// pagbank plays PagBank: orders and charges as signed JSON, and what happens
// after the payment as a notification code in an unsigned form, whose content
// the old API tells as XML.
//
// The charges do not show disputes, so that nothing but a code tells of one.
// Each of those is sent three times, as the same event: a receiver that has
// lost all of them could not know the truth.
type pagbank struct{}

func (pagbank) name() string { return "pagbank" }

func (pagbank) kinds() []weighted {
	return []weighted{
		{KindCreated, 8}, {KindPaid, 28}, {KindSettled, 14}, {KindAuthorized, 3}, {KindCaptured, 8},
		{KindPartRefunded, 8}, {KindRefunded, 8}, {KindFailed, 4}, {KindFailedThenPaid, 5}, {KindCanceled, 5},
		{KindDisputed, 4}, {KindDisputeWon, 4}, {KindDisputeLost, 4},
	}
}

// eventID is a notification code. Format A has no ids; see pagbankScript.
func (pagbank) eventID(r *rand.Rand) string { return randomText(r, 38, digits) }

func (pagbank) credentials(r *rand.Rand) Credentials {
	token := pagbankUUID(r) + randomText(r, 20, hexes)
	return Credentials{WebhookSecrets: []string{token}, APIKey: token}
}

// pagbankUUID is 36 characters that look like one.
func pagbankUUID(r *rand.Rand) string {
	h := randomText(r, 32, hexes)
	return strings.ToUpper(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// order is the id of a payment's order.
func (pagbank) order(p *pay) string { return "ORDE_" + pagbankUUID(newRand(p.oddities, streamRequest)) }

// transaction is the old API's code of a payment.
func (pagbank) transaction(p *pay) string { return pagbankUUID(newRand(p.oddities, streamRequest+1)) }

func (g pagbank) objects(p *pay) []string {
	ids := []string{p.id, g.order(p)}
	for i := range p.steps {
		for _, h := range p.steps[i].events {
			if h.id != "" {
				ids = append(ids, h.id)
			}
		}
	}
	return ids
}

// isCode says whether an event is a notification code.
func (pagbank) isCode(h *happening) bool { return strings.HasPrefix(h.typ, "transaction.") }

// identity: an order's body and its charge's are one event when they tell of
// one state. A code is itself.
func (g pagbank) identity(p *pay, st *step, h *happening) string {
	switch {
	case g.isCode(h):
		return "code:" + h.id
	case st.word == "" || h.typ == "checkout.EXPIRED":
		return h.typ + ":" + p.id
	}
	return fmt.Sprintf("state:%s:%s:%d:%d:%d", p.id, st.word, st.captured, st.refunded(), st.confirmedAt.Unix())
}

func (pagbank) success(status int) bool { return status == http.StatusOK }

func (g pagbank) settings(a *account, apiBase string) map[string]string {
	return map[string]string{
		"API_BASE": apiBase + "/pagbank", "NOTIFICATION_BASE": apiBase + "/pagbank",
		"EMAIL": pagbankEmail, "NOTIFICATION_SECRET": g.address(&a.Credentials),
	}
}

const pagbankEmail = "loja@example.com"

// address is the secret in the address of the codes.
func (pagbank) address(c *Credentials) string {
	sum := sha256.Sum256([]byte("address of " + c.APIKey))
	return hex.EncodeToString(sum[:16])
}

// retitle: format A has neither type nor id, so its status is all there is. A
// code stays what it is: the API knows no invented one.
func (pagbank) retitle(typ string, _ *rand.Rand) map[string]any {
	object, status, _ := strings.Cut(typ, ".")
	switch object {
	case "order":
		if status == "created" { // it has no charge yet
			return map[string]any{}
		}
		return map[string]any{"charges.0.status": status}
	case "transaction":
		return map[string]any{}
	}
	return map[string]any{"status": status}
}

// isForm says whether a body is of format B.
func (pagbank) isForm(body []byte) bool { return bytes.HasPrefix(body, []byte("notificationCode=")) }

func (g pagbank) sign(c *Credentials, body []byte, _ time.Time, pick uint64) Sent {
	if g.isForm(body) {
		return Sent{Suffix: "/" + g.address(c), Body: body, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
	}
	sum := sha256.Sum256([]byte(c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))] + "-" + string(body)))
	return Sent{Body: body, Header: http.Header{
		"X-Authenticity-Token": {hex.EncodeToString(sum[:])}, "X-Product-Origin": {"ORDER"},
	}}
}

func (g pagbank) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	if g.isForm(body) {
		s.Suffix = []string{"", "/" + strings.Repeat("0", 32), s.Suffix + "/x"}[variant%3]
		return s
	}
	const header = "X-Authenticity-Token"
	right := s.Header.Get(header)
	switch variant % 7 {
	case 0:
		s.Header.Del(header)
	case 1:
		s.Header.Set(header, "")
	case 2:
		s.Header.Set(header, strings.ToUpper(right)+"0")
	case 3: // without the hyphen
		sum := sha256.Sum256([]byte(c.WebhookSecrets[0] + string(body)))
		s.Header.Set(header, hex.EncodeToString(sum[:]))
	case 4: // another account's token
		sum := sha256.Sum256([]byte("forged-account-token-000-" + string(body)))
		s.Header.Set(header, hex.EncodeToString(sum[:]))
	case 5: // a body that was written anew
		s.Body = append(bytes.Clone(body), '\n')
	case 6: // another product's signature
		s.Header.Del(header)
		s.Header.Set("X-Payload-Signature", "MEUCIQD"+right)
	}
	return s
}

// test: nothing in a body of PagBank says that it is a test.
func (pagbank) test(*pay, *step, *happening, uint64) ([]byte, http.Header) { return nil, nil }

func (g pagbank) malformed(p *pay, body []byte, variant uint64) []byte {
	r := newRand(variant, streamRequest)
	head := `{"id":"ORDE_` + pagbankUUID(r) + `","reference_id":"PED-1",`
	switch variant % 6 {
	case 0:
		if !g.isForm(body) {
			return body[:len(body)*2/3]
		}
		return []byte(head)
	case 1:
		return []byte("[" + head + `"charges":[]}]`)
	case 2:
		return []byte(head + `"charges":[{"status":"PAID","amount":{"value":1000}}]}`)
	case 3:
		return []byte(head + `"charges":[{"id":["CHAR_x"],"status":"PAID","amount":{"value":1000}}]}`)
	case 4:
		return []byte(`{"id":"CBKS_` + pagbankUUID(r) + `"}`)
	}
	return []byte("<html>" + pagbankUUID(r) + "</html>")
}

func (g pagbank) body(p *pay, st *step, h *happening, _ int) []byte {
	switch {
	case g.isCode(h):
		return []byte(url.Values{"notificationCode": {h.id}, "notificationType": {"transaction"}}.Encode())
	case h.typ == "checkout.EXPIRED":
		return object{{"id", "CHEC_" + p.id[len("CHAR_"):]}, {"reference_id", p.reference}, {"status", "EXPIRED"}}.bytes()
	case strings.HasPrefix(h.typ, "charge."):
		return g.charge(p, &st.state).bytes()
	}
	return g.orderObject(p, &st.state).bytes()
}

func pagbankTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.In(saoPaulo).Format("2006-01-02T15:04:05.000-07:00")
}

// orderObject has no charges before there is an attempt to pay.
func (g pagbank) orderObject(p *pay, st *state) object {
	o := object{
		{"id", g.order(p)}, {"reference_id", p.reference}, {"created_at", pagbankTime(p.made())},
		{"customer", object{{"name", "João da Silva – ação"}}},
		{"items", []object{{{"name", "Pedido nº " + p.reference}, {"quantity", 1}, {"unit_amount", p.amount}}}},
	}
	if p.method == "PIX" {
		o = o.with("qr_codes", []object{{{"id", "QRCO_" + g.transaction(p)}, {"amount", object{{"value", p.amount}}}}})
	}
	if st.word != "" {
		o = o.with("charges", []object{g.charge(p, st)})
	}
	return o.with("notification_urls", []string{"https://loja.example/webhooks/pagbank"})
}

// charge is the charge of webhooks and of the API. It does not show disputes.
func (g pagbank) charge(p *pay, st *state) object {
	response := object{{"code", "20000"}, {"message", "SUCESSO"}}
	if st.word == "DECLINED" {
		response = object{{"code", "10002"}, {"message", "NAO AUTORIZADO"}}
	}
	o := object{
		{"id", p.id}, {"reference_id", p.reference}, {"status", st.word}, {"created_at", pagbankTime(p.made())},
	}
	if !st.confirmedAt.IsZero() {
		o = o.with("paid_at", pagbankTime(st.confirmedAt))
	}
	return append(o, object{
		{"description", "Pedido nº " + p.reference + " – ação"},
		{"amount", object{{"value", p.amount}, {"currency", "BRL"},
			{"summary", object{{"total", p.amount}, {"paid", st.captured}, {"refunded", st.refunded()}}}}},
		{"payment_response", response}, {"payment_method", object{{"type", p.method}}},
		{"links", []object{}}, {"notification_urls", []string{"https://loja.example/webhooks/pagbank"}},
	}...)
}

// number is the old API's status of a state.
func (pagbank) number(st *state) string {
	switch {
	case st.dispute != nil && st.dispute.withdrawn:
		return st.dispute.word
	case st.status == payment.StatusRefunded:
		return "6"
	case st.status == payment.StatusCanceled, st.status == payment.StatusFailed:
		return "7"
	case !st.receivedAt.IsZero():
		return "4"
	case st.captured > 0:
		return "3"
	case st.status == payment.StatusAuthorized:
		return "2"
	}
	return "1"
}
