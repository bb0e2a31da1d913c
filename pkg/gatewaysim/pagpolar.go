package gatewaysim

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// pagpolar plays PagPolar as far as its contract is known. Status words,
// amounts and the names of the rarer events are the simulator's own; the
// settings tell umavez of them.
type pagpolar struct{}

func (pagpolar) name() string { return "pagpolar" }

func (pagpolar) kinds() []weighted {
	return []weighted{
		{KindCreated, 8}, {KindPaid, 30}, {KindPaidRepeatedly, 25}, {KindPartRefunded, 6}, {KindRefunded, 6},
		{KindFailed, 3}, {KindFailedThenPaid, 5}, {KindExpired, 4}, {KindExpiredThenPaid, 5},
		{KindCanceled, 3}, {KindDisputed, 2}, {KindDisputeLost, 2},
	}
}

// eventID: the envelope's id belongs to the attempt, see body.
func (pagpolar) eventID(*rand.Rand) string { return "" }

func (pagpolar) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{"pp_sim_" + randomText(r, 28, base62)},
		APIKey:         "ppk_" + randomText(r, 32, base62),
	}
}

func (pagpolar) objects(p *pay) []string { return []string{p.id} }

// identity follows the keys that PagPolar suggests: one PAID a sale, however
// often it is generated; for the rest, event, sale and what is said of it.
func (g pagpolar) identity(p *pay, st *step, h *happening) string {
	id := h.typ + ":" + p.id
	if h.typ == "TRANSACTION_CREATED" || h.typ == "TRANSACTION_PAID" {
		return id
	}
	sum := sha256.Sum256(g.data(p, st, h).bytes())
	return id + ":" + hex.EncodeToString(sum[:8])
}

func (pagpolar) success(status int) bool { return status == http.StatusOK }

func (pagpolar) retitle(typ string, r *rand.Rand) map[string]any {
	return map[string]any{"event": typ, "id": "att-" + randomText(r, 20, hexes)}
}

func (pagpolar) settings(*account, string) map[string]string {
	return map[string]string{
		"API_AUTH":           "Authorization: Bearer {key}",
		"SALE_ID_PATH":       "id",
		"STATUS_PATH":        "status",
		"STATUS_MAP":         "PENDING=pending,PAID=paid,REFUSED=failed,EXPIRED=expired,CANCELED=canceled,PARTIALLY_REFUNDED=partially_refunded,REFUNDED=refunded,CHARGEBACK=disputed,CHARGEBACK_LOST=charged_back",
		"AMOUNT_PATH":        "amount",
		"AMOUNT_UNIT":        "minor",
		"CURRENCY":           "BRL",
		"FEE_PATH":           "fee",
		"REFERENCE_PATH":     "reference",
		"REFUNDS_LIST_PATH":  "data",
		"REFUND_ID_PATH":     "id",
		"REFUND_AMOUNT_PATH": "amount",
		"REFUND_STATUS_PATH": "status",
		"REFUND_STATUS_MAP":  "REQUESTED=pending,DONE=succeeded,DENIED=failed",
	}
}

func (pagpolar) sign(c *Credentials, body []byte, _ time.Time, pick uint64) Sent {
	return Sent{Body: body, Header: http.Header{
		"Authorization": {"Bearer " + c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))]},
		"User-Agent":    {"PagPolar-Webhooks"},
	}}
}

func (g pagpolar) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	h := s.Header
	token := strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	switch variant % 6 {
	case 0:
		h.Set("Authorization", "Bearer pp_sim_forged_0000000000000000")
	case 1:
		h.Del("Authorization")
	case 2:
		h.Set("Authorization", "bearer "+token)
	case 3:
		h.Set("Authorization", token)
	case 4:
		h.Set("Authorization", "Bearer ")
	case 5:
		h.Set("Authorization", "Bearer "+token[:len(token)-1])
	}
	return s
}

// envelope: id and time belong to the attempt, not to the event.
func (g pagpolar) envelope(p *pay, st *step, h *happening, attempt int) object {
	n := mix(p.oddities, uint64(st.at.Unix()), uint64(attempt), uint64(len(h.typ)))
	r := newRand(n, streamRequest)
	return object{
		{"event", h.typ}, {"id", "att-" + randomText(r, 20, hexes)},
		{"creation_date", st.at.Add(time.Duration(attempt)*30*time.Second + time.Duration(r.IntN(1000))*time.Millisecond).Format(time.RFC3339Nano)},
	}
}

func (g pagpolar) body(p *pay, st *step, h *happening, attempt int) []byte {
	return g.envelope(p, st, h, attempt).with("data", g.data(p, st, h)).bytes()
}

// data is the sale at the time of the event. CREATED and PAID have just what
// is documented; the others tell what changed, so that two partial refunds do
// not look like one.
func (g pagpolar) data(p *pay, st *step, h *happening) object {
	sale := object{{"id", g.saleID(p)}, {"status", st.word}}
	if h.refund >= 0 {
		sale = sale.with("refunded_amount", st.refunded())
	}
	return object{{"transaction", sale}}
}

func (pagpolar) saleID(p *pay) any {
	if p.numericID {
		return raw(p.id)
	}
	return p.id
}

// test gives playground events and events without data.
func (g pagpolar) test(p *pay, st *step, h *happening, variant uint64) ([]byte, http.Header) {
	o := g.envelope(p, st, h, int(variant%1000)+1000)
	switch variant % 6 {
	case 0:
		return o.with("test", true).with("data", g.data(p, st, h)).bytes(), http.Header{"X-Pagpolar-Test": {"true"}}
	case 1:
		return o.with("test", true).with("data", g.data(p, st, h)).bytes(), nil
	case 2:
		return o.with("data", g.data(p, st, h)).bytes(), http.Header{"X-Pagpolar-Test": {"true"}}
	case 3:
		return o.with("data", object{}).bytes(), nil
	case 4:
		return o.with("data", nil).bytes(), nil
	}
	return o.bytes(), nil
}

func (g pagpolar) malformed(p *pay, body []byte, variant uint64) []byte {
	mark := randomText(newRand(variant, streamRequest), 20, hexes)
	head := `{"event":"TRANSACTION_PAID","id":"att-` + mark + `","creation_date":"2026-01-02T10:00:00Z",`
	switch variant % 5 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2:
		return []byte(head + `"data":{"transaction":{"status":"PAID"}}}`)
	case 3:
		return []byte(head + `"data":{"transaction":{"id":{"x":1},"status":"PAID"}}}`)
	}
	return []byte("event=TRANSACTION_PAID&id=" + mark)
}
