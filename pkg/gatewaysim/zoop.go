package gatewaysim

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// zoop plays Zoop: nothing is signed, the secret is the end of the address,
// amounts are texts in reais, and one event type is every kind of
// cancellation.
type zoop struct{}

// KindReversed is a history that only Zoop has: the transaction is undone
// between Zoop and the acquirer.
const KindReversed Kind = "reversed"

// The ways in which Zoop's transactions are paid.
const (
	zoopCredit = "credit"
	zoopDebit  = "debit"
	zoopBoleto = "boleto"
	zoopPix    = "pix"
)

func (zoop) name() string { return "zoop" }

func (zoop) kinds() []weighted {
	return []weighted{
		{KindCreated, 6}, {KindPaid, 25}, {KindSettled, 10}, {KindAuthorized, 3}, {KindCaptured, 8},
		{KindPartRefunded, 12}, {KindRefunded, 10}, {KindFailed, 3}, {KindFailedThenPaid, 5}, {KindExpired, 3},
		{KindExpiredThenPaid, 3}, {KindCanceled, 5}, {KindRestoredThenPaid, 3}, {KindReversed, 4},
		{KindDisputed, 4}, {KindDisputeWon, 6}, {KindDisputeLost, 5},
	}
}

func (zoop) eventID(r *rand.Rand) string { return randomText(r, 32, hexes) }

func (zoop) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{"sim_" + randomText(r, 44, base62), "old_" + randomText(r, 44, base62)},
		APIKey:         "zpk_sim_" + randomText(r, 32, base62),
	}
}

// marketplace is the id of an account's marketplace; each key has one.
func (zoop) marketplace(c *Credentials) string {
	sum := sha256.Sum256([]byte(c.APIKey))
	return hex.EncodeToString(sum[:16])
}

func (zoop) objects(p *pay) []string { return []string{p.id} }

func (zoop) identity(_ *pay, _ *step, h *happening) string { return h.id }

func (zoop) success(status int) bool { return status == http.StatusOK }

func (g zoop) settings(a *account, apiBase string) map[string]string {
	return map[string]string{
		"API_BASE":       apiBase + "/zoop/v1",
		"MARKETPLACE_ID": g.marketplace(&a.Credentials),
		// That a dispute was won shows in nothing but that the transaction has
		// succeeded again, more than the lag after it was seen in dispute. A
		// history of days passes here in moments; answers about disputes are
		// never stale.
		"LOOKUP_LAG": "0s",
	}
}

func (g zoop) retitle(typ string, r *rand.Rand) map[string]any {
	return map[string]any{"type": typ, "id": g.eventID(r)}
}

func (zoop) sign(c *Credentials, body []byte, _ time.Time, pick uint64) Sent {
	return Sent{
		Suffix: "/" + c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))], Body: body,
		Header: http.Header{"User-Agent": {"Zoop-Webhooks"}},
	}
}

func (g zoop) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	secret := s.Suffix[1:]
	switch variant % 7 {
	case 0:
		s.Suffix = "/sim_forged_0000000000000000000000000000000000"
	case 1:
		s.Suffix = ""
	case 2:
		s.Suffix = "/" + secret[:len(secret)-1]
	case 3:
		s.Suffix = "/" + secret + "/x"
	case 4: // the secret where it does not belong
		s.Suffix, s.Query = "", "secret="+secret
	case 5:
		s.Suffix = ""
		s.Header.Set("Authorization", secret)
	case 6:
		s.Suffix = "/" + strings.ToUpper(secret)
	}
	return s
}

// test: nothing in Zoop's bodies marks a test; its sandbox is another
// marketplace.
func (zoop) test(*pay, *step, *happening, uint64) ([]byte, http.Header) { return nil, nil }

func (g zoop) malformed(_ *pay, body []byte, variant uint64) []byte {
	r := newRand(variant, streamRequest)
	head := `{"id":"` + g.eventID(r) + `","resource":"event","type":"transaction.succeeded","created_at":"2026-01-02T10:00:00+00:00",`
	switch variant % 7 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2: // where some code looks for the id
		return []byte(head + `"payload":{"id":"` + randomText(r, 32, hexes) + `"}}`)
	case 3:
		return []byte(head + `"data":{"id":"` + randomText(r, 32, hexes) + `"}}`)
	case 4:
		return []byte(head + `"payload":{"object":null}}`)
	case 5:
		return []byte(head + `"payload":{"object":{"id":["x"],"resource":"transaction","status":"succeeded"}}}`)
	}
	return []byte("<html>" + randomText(r, 32, hexes) + "</html>")
}

func (g zoop) body(p *pay, st *step, h *happening, _ int) []byte { return g.event(p, st, h).bytes() }

// event is the resource that is sent, and that the API keeps. It comes up to a
// minute after what it tells of.
func (g zoop) event(p *pay, st *step, h *happening) object {
	at := zoopTime(st.at)
	return object{
		{"id", h.id}, {"resource", "event"}, {"type", h.typ}, {"created_at", at}, {"updated_at", at},
		{"uri", "/v1/marketplaces/" + g.marketplace(&p.acct.Credentials) + "/events/" + h.id},
		{"payload", object{{"object", g.transaction(p, &st.state)}}},
	}
}

func zoopTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format("2006-01-02T15:04:05+00:00")
}

// zoopReais is an amount as answers and events have it.
func zoopReais(cents int64) string {
	part := strconv.FormatInt(100+cents%100, 10)[1:]
	return strconv.FormatInt(cents/100, 10) + "." + part
}

// transaction is the object of webhooks and of the API. What was refunded is
// taken off amount; original_amount keeps the sale.
func (g zoop) transaction(p *pay, st *state) object {
	confirmed := "0"
	if st.captured > 0 {
		confirmed = "1"
	}
	left, fees := p.amount, int64(0)
	if p.kind != KindReversed {
		left -= st.refunded()
	}
	if st.feeKnown {
		fees = st.fee
	}
	reference, metadata := any(p.reference), object{{"order", p.reference}}
	if p.oddities%5 == 0 { // one shape has it there
		reference, metadata = nil, object{{"reference_id", p.reference}}
	}
	o := object{
		{"id", p.id}, {"resource", "transaction"}, {"status", st.word}, {"confirmed", confirmed},
		{"amount", zoopReais(left)}, {"original_amount", zoopReais(p.amount)}, {"currency", "BRL"}, {"payment_type", p.method},
		{"description", "Pedido nº " + p.reference + " – ação"}, {"reference_id", reference}, {"metadata", metadata},
		{"on_behalf_of", g.seller(p)}, {"customer", p.id[16:] + p.id[:16]}, {"fees", zoopReais(fees)}, {"fee_details", []object{}},
		{"refunded", st.word == "refunded"}, {"voided", st.word == "canceled" && st.captured > 0},
		{"captured", st.captured > 0 || p.zoopAtOnce()}, {"point_of_sale", object{{"entry_mode", "barcode"}}}, {"installment_plan", nil},
		{"split_rules", nil}, {"created_at", zoopTime(p.made())}, {"updated_at", zoopTime(st.at)},
	}
	return o.with("history", g.history(p, st))
}

// seller is the owner's id at Zoop.
func (zoop) seller(p *pay) string {
	sum := sha256.Sum256([]byte(p.acct.source + p.beneficiary))
	return hex.EncodeToString(sum[:16])
}

// zoopAtOnce says whether the creation of the transaction is its payment.
func (p *pay) zoopAtOnce() bool {
	return (p.method == zoopCredit || p.method == zoopDebit) && p.kind != KindAuthorized && p.kind != KindCaptured
}

// history lists what was done, newest last.
func (g zoop) history(p *pay, st *state) []object {
	list := []object{}
	add := func(operation, status string, amount int64, at time.Time) {
		n := len(list)
		list = append(list, object{
			{"id", "h" + strconv.Itoa(n+1) + p.id[:12]}, {"transaction", p.id}, {"operation_type", operation}, {"status", status},
			{"amount", zoopReais(amount)}, {"response_code", nil}, {"created_at", zoopTime(at)},
		})
	}
	switch paid := !st.confirmedAt.IsZero(); {
	case p.kind == KindAuthorized || p.kind == KindCaptured:
		if st.word != "new" {
			add("pre_authorization", "succeeded", p.amount, st.chargeAt)
		}
		if paid {
			add("capture", "succeeded", p.amount, st.confirmedAt)
		}
	case p.zoopAtOnce():
		if st.failed || p.kind == KindFailedThenPaid && paid {
			add("created", "failed", p.amount, st.chargeAt)
		}
		if paid {
			add("created", "succeeded", p.amount, st.confirmedAt)
		}
	default:
		add("created", "succeeded", p.amount, p.made())
		if st.failed || p.kind == KindFailedThenPaid && paid {
			add("paid", "failed", p.amount, st.chargeAt)
		}
		if paid {
			add("paid", "succeeded", p.amount, st.confirmedAt)
		}
	}
	if p.kind == KindReversed {
		return list
	}
	for i, r := range st.refunds {
		operation := "void_partial"
		if len(st.refunds) == 1 && r.amount == st.captured {
			operation = "void"
		}
		if i > 0 && p.oddities>>8%4 == 0 {
			add("void_partial", "failed", r.amount, r.at)
		}
		add(operation, "succeeded", r.amount, r.at)
	}
	if !st.canceledAt.IsZero() {
		add("canceled", "succeeded", p.amount, st.canceledAt)
	}
	return list
}
