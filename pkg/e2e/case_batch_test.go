package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// pix is a callback of several items.
func pix(items ...string) []byte { return []byte(`{"pix":[` + strings.Join(items, ",") + `]}`) }

func TestCase_A13_ABatchIsAsManyEventsAndOneAnswer(t *testing.T) {
	w, g := inWorld(t), &efiGateway
	item := func(kind string, s sale) string { return efiItem(newHook(kind, "", s)) }
	a, b, c := newSale(g).paid(), newSale(g).paid(), newSale(g).refundedAll()
	for _, s := range []sale{a, b, c} {
		w.api.tells(g, s)
	}
	known := item("paid", a)
	first := pix(known, " "+item("paid", b)+"\n")
	w.take(g, first)
	// Of the second, one is known already, and one is there twice.
	w.take(g, pix(item("paid", b), item("refunded", c), item("refunded", c)))
	w.wantCredited(g, a)
	w.wantCredited(g, b)
	w.final(g, c.id)
	w.wantLedger(g, c.id, c.returned())
	for _, s := range []struct {
		sale
		deliveries int64
	}{{a, 1}, {b, 2}, {c, 2}} {
		if e := w.about(g, s.id); len(e) != 1 || e[0].Deliveries != s.deliveries {
			t.Errorf("the events of %s are %v, want one with %d deliveries", s.id, e, s.deliveries)
		}
	}
	if _, ok := w.withBody(g, []byte(known)); !ok {
		t.Errorf("no event has exactly the bytes of its item: %.200s", known)
	}
	if _, ok := w.withBody(g, first); ok {
		t.Error("the whole batch is an event as well")
	}
}

func TestCase_A13_OneBadItemOfABatchHoldsUpNoOther(t *testing.T) {
	w, g := inWorld(t), &efiGateway
	good := newSale(g).paid()
	w.api.tells(g, good)
	bad := strings.Replace(efiItem(newHook("paid", "", newSale(g).paid())), `"valor":"100.10"`, `"valor":"ten"`, 1)
	payout := fmt.Sprintf(`{"endToEndId":"%s","chave":"k","tipo":"SOLICITACAO","status":"REALIZADO","valor":"30.00","horario":"2026-01-16T10:00:02.000Z","gnExtras":{"idEnvio":"envio1"}}`, newSale(g).id)
	w.take(g, pix(bad, efiItem(newHook("paid", "", good)), payout, "null", "7"))
	w.wantCredited(g, good)
	for body, want := range map[string]string{bad: "quarantined", payout: "ignored", "null": "quarantined", "7": "quarantined"} {
		if e := w.settledBody(g, []byte(body)); e.Status != want || e.Reason == "" {
			t.Errorf("%.80s is %v, want %s with a reason", body, e, want)
		}
	}
	// Money that we sent is no payment, whichever field says so.
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM payments WHERE provider = 'efi' AND captured = 3000`); n != 0 {
		t.Error("a payout of ours is a payment")
	}
}

func TestCase_A13_EmptyBatchesProbesAndOtherCallbacksAreTakenAndSetAside(t *testing.T) {
	w, g := inWorld(t), &efiGateway
	w.become(g, []want{
		{`{"pix":[]}`, "ignored", "empty_data"}, {`{ "pix" : [ ] }`, "ignored", "empty_data"}, {`{"pix":null}`, "ignored", "empty_data"}, {`{}`, "ignored", "empty_data"},
		{`{"evento":"teste_webhook"}`, "ignored", "test_event"}, {`{"pix":{}}`, "ignored", "empty_data"}, {`{"pix":"x"}`, "quarantined", "unreadable"},
		{`{"rec":[{"idRec":"RR1"}]}`, "ignored", "informational"}, {`{"cobr":[{"txid":"t1"}]}`, "ignored", "informational"},
	})
	// The probe of a registration, and what is glued to the address.
	secret := secretsOf(g, "default")[1]
	for target, status := range map[string]int{
		"/webhooks/efi?hmac=" + secret + "&ignorar=": 200, "/webhooks/efi?hmac=" + secret + "&ignorar=/pix": 200, "/webhooks/efi?hmac=" + secret + "&ignorar=/rec": 200,
		"/webhooks/efi?hmac=" + secret + "/pix": 401, "/webhooks/efi?hmac=" + secret: 200, "/webhooks/efi?ignorar=/pix": 401, "/webhooks/efi": 401,
		"/webhooks/efi?hmac=" + secret + "&hmac=" + secret + "&ignorar=/pix": 401, "/webhooks/efi/" + secret + "/pix": 401,
		"/webhooks/efi/loja2/" + secretsOf(g, "loja2")[0] + "/pix": 200, "/webhooks/efi/loja2/" + secretsOf(g, "loja2")[0]: 200, "/webhooks/efi/loja2/pix": 401,
		"/webhooks/efi/loja2/" + secretsOf(g, "default")[0] + "/pix": 401,
	} {
		r := g.by(0, nil)
		r.target = target
		if answer := w.post(r); answer.status != status {
			t.Errorf("an empty body to %s: %d %q, want %d", strings.NewReplacer(secret, "<secret>").Replace(target), answer.status, answer.body, status)
		}
	}
}
