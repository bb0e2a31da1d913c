package efi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// parse gives the messages of a body, with their claims by payment.
func parse(t *testing.T, p provider.Provider, body string) ([]provider.Message, map[string]payment.Claim) {
	t.Helper()
	r := sign(token, []byte(body), now)
	messages, claims := p.Parse(r), map[string]payment.Claim{}
	for _, m := range messages {
		if m.Disposition != provider.Process {
			continue
		}
		all, err := p.Facts(providertest.EventOf(p, source(), r, m))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			claims[c.GatewayID] = c
		}
	}
	return messages, claims
}

func other(id string) string { return strings.ReplaceAll(paidItem, "0001", id) }

// CASES A13: one request may tell of several Pix: one row each, one answer.
func TestCase_A13_EfiTellsOfSeveralPixAtOnce(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	payout := `{"endToEndId":"E00000000202601161000EXAMPLE0003","tipo":"SOLICITACAO","status":"REALIZADO","valor":"30.00","gnExtras":{"idEnvio":"x"}}`
	messages, claims := parse(t, p, " {\n \"pix\" : [ "+paidItem+" ,\n"+payout+","+other("0002")+", 17 ] } ")
	want := []struct {
		body        string
		disposition provider.Disposition
		ref         string
	}{
		{paidItem, provider.Process, pixID}, {payout, provider.Ignore, ""},
		{other("0002"), provider.Process, strings.ReplaceAll(pixID, "0001", "0002")}, {"17", provider.Quarantine, ""},
	}
	if len(messages) != len(want) || len(claims) != 2 {
		t.Fatalf("%d messages, %d claims", len(messages), len(claims))
	}
	keys := map[string]bool{}
	for i, w := range want {
		m := messages[i]
		if keys[m.DedupeKey] = true; string(m.Body) != w.body || m.Disposition != w.disposition || m.PaymentRef != w.ref {
			t.Errorf("message %d: %s of %q, %s", i, m.Disposition, m.PaymentRef, m.Body)
		}
	}
	if len(keys) != len(want) {
		t.Error("two of them share a key, and one would be lost")
	}
	alone, _ := parse(t, p, paidBody)
	if alone[0].DedupeKey != messages[0].DedupeKey {
		t.Error("sent again by itself, a Pix has another key")
	}
	empty, _ := parse(t, p, `{"pix":[]}`)
	if len(empty) != 1 || empty[0].Disposition != provider.Ignore || empty[0].Reason != provider.ReasonEmptyData {
		t.Errorf("an empty list: %+v", empty)
	}
}

// CASES A13, the other way round: a body that is itself a list is none that
// Efí sends.
func TestCase_A13_EfiBodiesThatAreListsAreKeptForAPerson(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, body := range []string{"[]", "[" + paidItem + "]", "[" + paidBody + "]", `{"pix":` + paidItem + `}`, `{"pix":"x"}`, `{"pix":17}`, `{"pix":[[` + paidItem + `]]}`} {
		messages, claims := parse(t, p, body)
		if len(messages) != 1 || messages[0].Disposition != provider.Quarantine || len(claims) != 0 {
			t.Errorf("%s: %+v", body, messages)
		}
	}
}

// CASES B9: the callback of a refund repeats the whole payment; a charge that
// was paid twice is two payments.
func TestCase_B9_EfiCreditsOncePerTransferNotPerCallbackOrCharge(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	second := strings.Replace(paidItem, "EXAMPLE0001", "EXAMPLE0009", 1)
	refunded := with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO")))
	l, credits := map[string]payment.Payment{}, 0
	for _, body := range []string{paidBody, `{"pix":[` + refunded + `]}`, `{"pix":[` + second + `,` + paidItem + `]}`, `{"pix":[` + refunded + `,` + second + `]}`} {
		_, claims := parse(t, p, body)
		for id, c := range claims {
			held := l[id]
			held.GatewayID = id
			r := payment.Apply(held, c)
			if r.Need != "" {
				t.Fatal(r.Need)
			}
			l[id] = r.Payment
			for _, tr := range r.Transitions {
				for _, b := range tr.Bookings {
					if b.Kind == payment.KindCapture {
						credits++
					}
				}
			}
		}
	}
	if len(l) != 2 || credits != 2 || l[pixID].Reference == "" || l[pixID].Reference != l[strings.Replace(pixID, "EXAMPLE0001", "EXAMPLE0009", 1)].Reference {
		t.Errorf("%d payments, %d credits: %+v", len(l), credits, l)
	}
}

// CASES B7: each fact three times, mixed.
func TestCase_B7_EfiPaidRefundedAndTakenBackThreeTimesEach(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	refund, med := devolucao("1", "49.90", "DEVOLVIDO"), devolucao("2", "100.00", "DEVOLVIDO", `"natureza":"MED_FRAUDE"`)
	paid, refunded, taken := paidItem, with(devolucoes(refund)), with(devolucoes(refund, med))
	l := newLedger()
	for _, item := range []string{taken, paid, refunded, paid, taken, refunded, refunded, taken, paid} {
		_, claims := parse(t, p, `{"pix":[`+item+`]}`)
		if r := payment.Apply(l.p, claims[pixID]); !l.take(r) {
			t.Fatal(r.Need)
		}
	}
	l.compare(t, history{status: payment.StatusChargedBack, money: []string{
		"capture payment:" + pixID + " 14990", "refund refund:" + pixID + ":1 4990", "chargeback dispute:" + pixID + ":2 10000",
	}}, "the mixture")
}

// CASES B21: a refund's id is unique within its Pix only.
func TestCase_B21_EfiRefundsOfTwoPixWithOneIDAreTwo(t *testing.T) {
	t.Parallel()
	_, claims := parse(t, build(t, source()), `{"pix":[`+with(devolucoes(devolucao("dev1", "10.00", "DEVOLVIDO")))+`,`+
		strings.TrimSuffix(other("0002"), "}")+`,`+devolucoes(devolucao("dev1", "10.00", "DEVOLVIDO"))+`}]}`)
	ids := map[string]bool{}
	for _, c := range claims {
		ids[c.Facts[1].ID] = true
	}
	if len(claims) != 2 || len(ids) != 2 {
		t.Errorf("%+v", claims)
	}
}

// CASES C12: the refund is known before the payment.
func TestCase_C12_EfiARefundThatComesFirstBringsItsPayment(t *testing.T) {
	t.Parallel()
	_, claims := parse(t, build(t, source()), `{"pix":[`+with(devolucoes(devolucao("1", "149.90", "DEVOLVIDO")))+`]}`)
	r := payment.Apply(payment.Payment{GatewayID: pixID}, claims[pixID])
	if len(r.Transitions) != 2 || r.Transitions[0].To != payment.StatusPaid || r.Transitions[1].To != payment.StatusRefunded || r.Payment.Net() != 0 {
		t.Errorf("%+v", r.Transitions)
	}
	if !r.Payment.PaidAt.Equal(paidAt) || !r.Payment.Details.Refunds[0].At.Equal(refundedAt) {
		t.Errorf("paid at %v, refunded at %v", r.Payment.PaidAt, r.Payment.Details.Refunds[0].At)
	}
}

// CASES D1: what is null is kept, and either harmless or a person's.
func TestCase_D1_EfiNulls(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for item, want := range map[string]provider.Disposition{
		with(`"gnExtras":null,"devolucoes":null,"tipo":null,"status":null`): provider.Process,
		with(`"gnExtras":{"idEnvio":null,"tarifa":null}`):                   provider.Process,
		with(`"tipo":""`): provider.Process,
		strings.Replace(paidItem, `"2026-01-15T12:00:04.000Z"`, "null", 1):                              provider.Process,
		strings.Replace(paidItem, `"149.90"`, "null", 1):                                                provider.Quarantine,
		strings.Replace(paidItem, `"`+pixID+`"`, "null", 1):                                             provider.Quarantine,
		strings.Replace(paidItem, `"exampletxid00000000000000001"`, "null", 1):                          provider.Quarantine,
		with(`"devolucoes":[null]`):                                                                     provider.Quarantine,
		with(`"devolucoes":[{"id":null,"valor":"1.00","status":"DEVOLVIDO"}]`):                          provider.Quarantine,
		with(`"devolucoes":[{"id":"1","valor":"1.00","status":null}]`):                                  provider.Quarantine,
		with(`"devolucoes":[{"id":"1","valor":"1.00","status":"DEVOLVIDO","horario":null}]`):            provider.Process,
		with(`"devolucoes":[{"id":"1","valor":"1.00","status":"DEVOLVIDO","natureza":null,"rtrId":1}]`): provider.Process,
		with(`"tipo":{}`):                        provider.Ignore,
		with(`"tipo":0`):                         provider.Ignore,
		with(`"gnExtras":{"idEnvio":["x"]}`):     provider.Ignore,
		"null":                                   provider.Quarantine,
		"{}":                                     provider.Quarantine,
		strings.Replace(paidItem, `"E`, `"e`, 1): provider.Quarantine,
		strings.Replace(paidItem, `"E`, `"D`, 1): provider.Quarantine,
		strings.Replace(paidItem, pixID, "E"+strings.Repeat("0", 64), 1): provider.Quarantine,
		strings.Replace(paidItem, pixID, "E0000/../secret", 1):           provider.Quarantine,
	} {
		if m, _ := parse(t, p, `{"pix":[`+item+`]}`); len(m) != 1 || m[0].Disposition != want {
			t.Errorf("%s (%s), want %s: %s", m[0].Disposition, m[0].Reason, want, item)
		}
	}
}

// CASES D9: the probe is marked and set aside in every environment; there is
// nothing to process in it.
func TestCase_D9_EfiProbesReachNoLedger(t *testing.T) {
	t.Parallel()
	for _, production := range []bool{true, false} {
		src := source()
		src.Production = production
		p := build(t, src)
		for _, body := range []string{"", "\n", `{"evento":"teste_webhook"}`, ` {"evento" : "teste_webhook" , "x":1}`} {
			m, _ := parse(t, p, body)
			if len(m) != 1 || !m[0].Test || m[0].Disposition != provider.Ignore || m[0].Reason != provider.ReasonTestEvent || m[0].Type != "teste_webhook" {
				t.Errorf("%q: %+v", body, m)
			}
		}
	}
}

// What we send is never credited, in whatever company it comes.
func TestPixThatWeSentAreNeverClaims(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, marks := range []string{
		`"tipo":"SOLICITACAO","status":"REALIZADO"`, `"gnExtras":{"idEnvio":"x"}`, `"tipo":"x"`, `"tipo":"SOLICITACAO","gnExtras":{"idEnvio":"x","tarifa":"nonsense"}`,
		`"tipo":"SOLICITACAO","devolucoes":[{"id":"1","valor":"149.90","status":"DEVOLVIDO"}]`, `"gnExtras":{"idEnvio":1}`,
	} {
		m, claims := parse(t, p, `{"pix":[`+with(marks)+`]}`)
		if len(m) != 1 || m[0].Disposition != provider.Ignore || m[0].Reason != efi.ReasonOwnPayout || m[0].PaymentRef != "" || len(claims) != 0 {
			t.Errorf("%s: %+v", marks, m)
		}
		r := sign(token, []byte(`{"pix":[`+with(marks)+`]}`), now)
		if c, err := p.Facts(providertest.EventOf(p, source(), r, m[0])); err != nil || len(c) != 0 {
			t.Errorf("%s: claims %+v, %v", marks, c, err)
		}
	}
}

// Pix Automático calls other addresses; its money arrives as any other.
func TestCallbacksOfPixAutomaticoAreSetAside(t *testing.T) {
	t.Parallel()
	p := build(t, source("TOKEN_IN=path"))
	for _, c := range []struct {
		path, body, typ string
		want            provider.Disposition
	}{
		{token + "/rec", `{"recs":[{"idRec":"x"}]}`, "rec", provider.Ignore},
		{token + "/cobr", `{"idRec":"x"}`, "cobr", provider.Ignore},
		{token + "/pix", `{"rec":[{"idRec":"x"}]}`, "rec", provider.Ignore},
		{token + "/rec", paidBody, "PIX_RECEBIDO", provider.Process},
		{token + "/pix", `{"recs":[{"idRec":"x"}]}`, "", provider.Quarantine},
		{token + "/rec", `{"rec":`, "", provider.Quarantine},
	} {
		m := p.Parse(provider.Request{Path: c.path, Body: []byte(c.body), Now: now})
		if len(m) != 1 || m[0].Disposition != c.want || m[0].Type != c.typ {
			t.Errorf("%s %s: %+v", c.path[len(token):], c.body, m)
		}
	}
	q := build(t, source())
	m := q.Parse(provider.Request{Query: "hmac=" + token + "&ignorar=%2Fcobr", Body: []byte(`{"x":1}`), Now: now})
	if m[0].Type != "cobr" || m[0].Disposition != provider.Ignore {
		t.Errorf("%+v", m)
	}
}

// The time of a message is that of the newest thing it tells.
func TestTheTimeOfAMessage(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for item, want := range map[string]time.Time{
		paidItem: paidAt,
		with(devolucoes(devolucao("1", "1.00", "DEVOLVIDO"))):                                                                                   refundedAt,
		with(`"devolucoes":[{"id":"1","valor":"1.00","status":"DEVOLVIDO","horario":{"solicitacao":"2026-01-20T07:00:00-03:00"}}]`):             time.Date(2026, 1, 20, 10, 0, 0, 0, time.UTC),
		with(`"devolucoes":[{"id":"1","valor":"1.00","status":"DEVOLVIDO","horario":"2026-01-20T10:00:00Z"}]`):                                  paidAt,
		with(`"devolucoes":[{"id":"1","valor":"1.00","status":"DEVOLVIDO","horario":{"liquidacao":"x","solicitacao":"2020-01-01T00:00:00Z"}}]`): paidAt,
		strings.Replace(paidItem, "2026-01-15T12:00:04.000Z", "15/01/2026", 1):                                                                  {},
	} {
		if m, _ := parse(t, p, `{"pix":[`+item+`]}`); !m[0].OccurredAt.Equal(want) {
			t.Errorf("%v, want %v: %s", m[0].OccurredAt, want, item)
		}
	}
}
