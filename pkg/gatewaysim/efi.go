package gatewaysim

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// efi plays Efí's Pix callbacks: lists of items without ids or types, a shared
// token in the address, and "/pix" glued to the end of it.
type efi struct{}

func (efi) name() string { return "efi" }

// kinds: what is not paid is not called about, so every history begins with
// the money.
func (efi) kinds() []weighted {
	return []weighted{
		{KindPaid, 40}, {KindPaidRepeatedly, 8}, {KindPartRefunded, 16}, {KindRefunded, 16}, {KindRefundDenied, 8}, {KindDisputeLost, 8},
	}
}

// eventID: a callback has none.
func (efi) eventID(*rand.Rand) string { return "" }

// credentials: the accounts of a simulation have registered their addresses in
// different ways, and each token says in which.
func (efi) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{"sim-" + efiPlaces[r.IntN(len(efiPlaces))] + "-" + randomText(r, 40, hexes)},
		APIKey:         "Client_Secret_" + randomText(r, 40, hexes),
	}
}

func (efi) objects(p *pay) []string { return []string{p.id} }

// identity: a callback is known by all that it says.
func (g efi) identity(p *pay, st *step, h *happening) string { return string(g.body(p, st, h, 0)) }

func (efi) success(status int) bool { return status == http.StatusOK }

// efiPlaces are the ways to register an address with a token, by umavez's
// names for them. The longer name of two with one beginning comes first.
var efiPlaces = []string{"path", "query-without-ignorar", "query"}

// efiPlace is where the address of an account has the token: in the path,
// unless the token names another place.
func efiPlace(c *Credentials) string {
	for _, place := range efiPlaces {
		if strings.HasPrefix(c.WebhookSecrets[0], "sim-"+place+"-") {
			return place
		}
	}
	return efiPlaces[0]
}

func efiClientID(source string) string {
	return "Client_Id_sim_" + strings.ReplaceAll(source, "/", "_")
}

func (efi) settings(a *account, apiBase string) map[string]string {
	return map[string]string{
		"API_BASE": apiBase + "/efi", "AUTH": "skip-mtls", "TOKEN_IN": efiPlace(&a.Credentials), "CLIENT_ID": efiClientID(a.source),
		"BENEFICIARY_PATTERN": `^(loja\d+)x`,
	}
}

// retitle: a callback has neither type nor id. That of a Pix which we sent
// differs from one that we received.
func (efi) retitle(typ string, r *rand.Rand) map[string]any {
	if typ != efiSent {
		return map[string]any{}
	}
	return map[string]any{"pix.0.tipo": "SOLICITACAO", "pix.0.status": "REALIZADO", "pix.0.gnExtras.idEnvio": "envio" + randomText(r, 10, digits)}
}

func (g efi) sign(c *Credentials, body []byte, now time.Time, pick uint64) Sent {
	return g.address(efiPlace(c), c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))], body)
}

// address is a request to an address with a token: with what Efí has glued to
// its end.
func (efi) address(place, token string, body []byte) Sent {
	s := Sent{Body: body, Header: http.Header{
		"Content-Type": {"application/json;charset=utf-8"}, "User-Agent": {"Efi Pix API (production)"},
	}}
	switch place {
	case "query":
		s.Query = "hmac=" + token + "&ignorar=/pix"
	case "query-without-ignorar":
		s.Query = "hmac=" + token + "/pix"
	default:
		s.Suffix = "/" + token + "/pix"
	}
	return s
}

func (g efi) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	token, place := c.WebhookSecrets[0], efiPlace(c)
	switch variant % 6 {
	case 0:
		return g.address(place, "sim-00000000000000000000000000000000000000000000", body)
	case 1: // the token is missing
		s := g.address("query", "", body)
		s.Query, s.Suffix = "", "/pix"
		return s
	case 2:
		return g.address(place, token+"x", body)
	case 3:
		return g.address(place, strings.ToUpper(token), body)
	case 4: // the token where the address does not have it
		if place == "path" {
			return g.address("query", token, body)
		}
		return g.address("path", token, body)
	}
	return g.address(place, token+"/pax", body)
}

// test gives the probe of the registration, an empty body, lists without
// items, callbacks of Pix Automático, and Pix that we sent.
func (g efi) test(p *pay, _ *step, _ *happening, variant uint64) ([]byte, http.Header) {
	switch variant % 6 {
	case 0:
		return []byte(`{"evento":"teste_webhook"}`), nil
	case 1:
		return []byte{}, nil
	case 2:
		return []byte(`{"pix":[]}`), nil
	case 3:
		return object{{"rec", []object{{{"idRec", "RR" + randomText(newRand(variant, streamRequest), 27, digits)}, {"status", "APROVADA"}}}}}.bytes(), nil
	}
	return g.batch([][]byte{g.payout(p, variant).bytes()}), nil
}

func (g efi) malformed(p *pay, body []byte, variant uint64) []byte {
	id := efiID(newRand(variant, streamRequest), 'E', p.made())
	switch variant % 6 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2: // no amount
		return []byte(`{"pix":[{"endToEndId":"` + id + `","txid":"` + p.reference + `","horario":"2026-01-02T10:00:00.000Z"}]}`)
	case 3:
		return []byte(`{"pix":[{"endToEndId":["` + id + `"],"txid":"` + p.reference + `","valor":"10.00"}]}`)
	case 4: // neither of a charge nor one that we sent
		return []byte(`{"pix":[{"endToEndId":"` + id + `","chave":"` + efiKey + `","valor":"10.00","horario":"2026-01-02T10:00:00.000Z"}]}`)
	}
	return []byte("<html>" + id + "</html>")
}

// efiKey is the Pix key of all accounts.
const efiKey = "00000000-0000-4000-8000-00000000000a"

func (efi) batch(items [][]byte) []byte {
	return append(append([]byte(`{"pix":[`), bytes.Join(items, []byte(","))...), `]}`...)
}

// part is the one item of a list, or all of a body that is none.
func (efi) part(body []byte) []byte {
	var list struct {
		Pix []json.RawMessage `json:"pix"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Pix) != 1 {
		return body
	}
	return list.Pix[0]
}

// body is one item.
func (g efi) body(p *pay, st *step, h *happening, _ int) []byte {
	if h.typ == efiSent {
		return g.payout(p, mix(p.oddities, uint64(st.at.Unix()))).bytes()
	}
	return g.item(p, &st.state, p.oddities%2 == 0).bytes()
}

func efiTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// efiID makes an endToEndId (E) or the id of a return (D): institution, minute
// and eleven characters of its own.
func efiID(r *rand.Rand, letter byte, at time.Time) string {
	return string(letter) + "09089356" + at.UTC().Format("200601021504") + randomText(r, 11, base62)
}

// efiReais spells an amount as the standard does: a text with two digits.
func efiReais(cents int64) string { return string(reais(cents, 0)) }

// item is a received Pix, in callbacks and in the API's answers. The fee is
// always in the latter, and in the former of some accounts.
func (g efi) item(p *pay, st *state, tarifa bool) object {
	o := object{
		{"endToEndId", p.id}, {"txid", p.reference}, {"chave", efiKey}, {"valor", efiReais(p.amount)},
		{"horario", efiTime(p.made())}, {"infoPagador", "Pedido nº " + p.reference[:6] + " – ação"},
	}
	extras := object{{"pagador", object{{"nome", "Pagador Exemplo"}, {"cpf", "00000000000"}, {"codigoBanco", "00000000"}}}}
	if tarifa && st.fee > 0 {
		extras = extras.with("tarifa", efiReais(st.fee))
	}
	if p.oddities%3 != 0 || tarifa {
		o = o.with("gnExtras", extras)
	}
	if len(st.refunds) == 0 && st.dispute == nil {
		return o
	}
	list := []object{}
	for _, r := range st.refunds {
		when := object{{"solicitacao", efiTime(r.at)}}
		if r.done {
			when = when.with("liquidacao", efiTime(r.at.Add(2*time.Second)))
		}
		d := object{{"id", r.id}, {"rtrId", r.txn}, {"valor", efiReais(r.amount)}, {"horario", when}, {"status", r.word}}
		if r.word == "NAO_REALIZADO" {
			d = d.with("motivo", "Saldo insuficiente para realizar a devolução.")
		}
		if p.oddities%5 == 0 {
			d = d.with("natureza", "ORIGINAL")
		}
		list = append(list, d)
	}
	if d := st.dispute; d != nil {
		list = append(list, object{
			{"id", d.id}, {"rtrId", d.out}, {"valor", efiReais(d.amount)}, {"natureza", d.reason},
			{"horario", object{{"solicitacao", efiTime(d.at)}}}, {"status", d.word},
		})
	}
	if p.oddities%2 == 0 { // the order of the list says nothing
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
	}
	return o.with("devolucoes", list)
}

// efiSent is the type of what is told of a Pix that we sent.
const efiSent = "PIX_ENVIADO"

// payout is the outcome of a Pix that we sent: money out, in the same list.
func (g efi) payout(p *pay, seed uint64) object {
	r := newRand(seed, streamRequest)
	status, extras := "REALIZADO", object{{"idEnvio", "envio" + randomText(r, 10, digits)}}
	var when any = efiTime(p.made())
	if r.IntN(3) == 0 {
		status, when = "NAO_REALIZADO", nil
		extras = extras.with("erro", object{{"codigo", "AC03"}, {"motivo", "conta inexistente"}})
	}
	return object{
		{"endToEndId", efiID(r, 'E', p.made())}, {"chave", efiKey}, {"tipo", "SOLICITACAO"}, {"status", status},
		{"valor", efiReais(100 + r.Int64N(100_000))}, {"horario", when}, {"gnExtras", extras},
	}
}
