package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whatever a body says: against the API's word nothing is booked, and once the
// API says it too, it is booked once.
func TestCase_B15_WhatABodyClaimsMovesNoMoneyAgainstTheAPI(t *testing.T) {
	inWorld(t).eachThat(asksItsAPI, func(w *testWorld, g *gateway) {
		s := newSale(g)
		if g.has("created") {
			w.api.tells(g, s)
		}
		w.take(g, g.body(newHook("paid", "evt_1"+s.id, s.paid())))
		if g.mute { // it claims nothing, so the answer stands
			w.final(g, s.id)
		} else {
			eventually(w.t, 10*time.Second, "the claim is parked", func() bool {
				e := w.about(g, s.id)
				return len(e) == 1 && e[0].Status == "parked" && (strings.HasPrefix(e[0].Reason, "contradicted_by_lookup") || strings.HasPrefix(e[0].Reason, "lookup_not_found"))
			})
		}
		w.wantLedger(g, s.id, "")
		w.api.tells(g, s.paid())
		if g.mute {
			w.take(g, g.body(newHook("paid", "evt_2"+s.id, s.paid())))
		}
		w.hurry(g, s.id)
		w.wantCredited(g, s.paid())
		// A refund that the API does not know of.
		w.take(g, g.body(newHook("refunded", "evt_3"+s.id, s.refundedAll())))
		silent := g.mute || g.vague
		if silent {
			w.final(g, s.id)
		} else {
			eventually(w.t, 10*time.Second, "the claim of a refund is parked", func() bool {
				e := w.about(g, s.id)
				return e[len(e)-1].Status == "parked"
			})
		}
		w.wantLedger(g, s.id, s.credited())
		w.api.tells(g, s.refundedAll())
		w.hurry(g, s.id)
		if silent {
			w.take(g, g.body(newHook("look", "evt_4"+s.id, s.refundedAll())))
		}
		w.final(g, s.id)
		w.wantLedger(g, s.id, s.returned())
	})
}

// Where nobody vouches for a body, its amounts count for nothing.
func TestCase_B15_AnAmountThatNobodyVouchesForIsNotBooked(t *testing.T) {
	w := inWorld(t)
	for _, g := range []*gateway{&zoopGateway, &efiGateway, &mercadopagoOrders} {
		t.Run(g.String(), func(t *testing.T) {
			w := w.in(t)
			s := newSale(g).paid()
			w.api.tells(g, s)
			body := strings.ReplaceAll(string(g.body(newHook("paid", "evt_"+s.id, s))), `"100.10"`, `"99999.99"`)
			if !strings.Contains(body, "99999.99") {
				t.Fatal("the body has no other amount")
			}
			w.take(g, []byte(body))
			w.settledBody(g, []byte(body))
			w.take(g, g.body(newHook("paid", "evt_true"+s.id, s)))
			eventually(t, 10*time.Second, "the true event is settled", func() bool {
				e := w.about(g, s.id)
				return len(e) == 2 && e[1].Status == "processed"
			})
			w.wantLedger(g, s.id, s.credited())
		})
	}
}

func TestCase_D13_AnOrderOfSeveralChargesIsAsManyPayments(t *testing.T) {
	w := inWorld(t)
	for _, c := range []struct {
		g    *gateway
		body func(a, b, c sale) string
	}{
		{&pagarmeGateway, func(a, b, c sale) string {
			return fmt.Sprintf(`{"id":"hook_%s","account":{"id":"acc_E2E01"},"type":"order.paid","created_at":"2026-01-15T12:00:05Z","data":{"id":"or_x","code":"PED","currency":"BRL","status":"paid","charges":[%s,%s,%s]}}`,
				a.id, pagarmeCharge(c, "failed", `""`), pagarmeCharge(a, "paid", `""`), pagarmeCharge(b, "paid", `""`))
		}},
		{&pagbankGateway, func(a, b, c sale) string {
			return pagbankOrder(a, pagbankCharge(c, "failed", `""`)+","+pagbankCharge(a, "paid", `""`)+","+pagbankCharge(b, "paid", `""`))
		}},
	} {
		t.Run(c.g.String(), func(t *testing.T) {
			w, g := w.in(t), c.g
			first, second, refused := newSale(g).paid(), newSale(g).paid(), newSale(g).failed()
			for _, s := range []sale{first, second, refused} {
				w.api.tells(g, s)
			}
			body := []byte(c.body(first, second, refused))
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { w.take(g, body) })
			}
			wg.Go(func() { w.take(g, g.body(newHook("paid", "evt_"+second.id, second))) })
			wg.Wait()
			if e := w.settledBody(g, body); e.Status != "processed" {
				t.Errorf("the order is %v", e)
			}
			for _, s := range []sale{first, second} {
				eventually(t, 10*time.Second, "the charge is booked", func() bool { return w.ledger(g, s.id) != "" })
				w.wantLedger(g, s.id, s.credited())
			}
			w.final(g, second.id)
			w.wantLedger(g, second.id, second.credited())
			if p := w.payment(g, refused.id); p.Status != "failed" || p.Captured != 0 {
				t.Errorf("the charge that was refused is %+v", p)
			}
		})
	}
}

// One charge of Efí may be paid twice: each transfer is money of its own.
func TestCase_D13_TwoTransfersForOneChargeAreTwoPayments(t *testing.T) {
	w, g := inWorld(t), &efiGateway
	a, b := newSale(g).paid(), newSale(g).paid()
	b.ref = a.ref
	w.api.tells(g, a)
	w.api.tells(g, b)
	batch := pix(efiItem(newHook("paid", "", a)), efiItem(newHook("paid", "", b)))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { w.take(g, batch) })
	}
	wg.Wait()
	for _, s := range []sale{a, b} {
		w.wantCredited(g, s)
		if e := w.about(g, s.id); len(e) != 1 || e[0].Deliveries != 20 {
			t.Errorf("twenty copies of a batch are %v", e)
		}
	}
}

// What signs a time is refused when it is too old or too new, and told apart
// from a forgery; the same event under the right time is accepted.
func TestCase_A17_AnAttemptOutOfItsTimeIsToldFromAForgery(t *testing.T) {
	w := inWorld(t)
	at := func(g *gateway, body []byte, shift time.Duration) request {
		stamp := strconv.FormatInt(time.Now().Add(shift).Unix(), 10)
		secret := secretsOf(g, g.home())[1]
		if g.name == "stripe" {
			return g.oddly("t="+stamp+",v1="+stripeDigest(secret, stamp, body), body)
		}
		id := found(standardWebhooksID, body, "")
		return g.with(g.home(), credentials{header: http.Header{
			"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {standardWebhooksEntry(secret, id, stamp, body)},
		}}, body)
	}
	for _, g := range []*gateway{&stripeGateway, &standardWebhooksGateway, &standardWebhooksAlone} {
		t.Run(g.String(), func(t *testing.T) {
			w := w.in(t)
			s := newSale(g).paid()
			w.api.tells(g, s)
			body := g.body(newHook("paid", "evt_"+s.id, s))
			for shift, reason := range map[time.Duration]string{-6 * time.Minute: "timestamp_too_old", 6 * time.Minute: "timestamp_too_new"} {
				labels := []string{"provider=" + g.name, "reason=" + reason}
				before := w.ingestMetric("umavez_ingest_rejected_total", labels...)
				if r := w.post(at(g, body, shift)); r.status != g.refused {
					t.Errorf("shifted by %s: %d %q, want %d", shift, r.status, r.body, g.refused)
				}
				if n := w.ingestMetric("umavez_ingest_rejected_total", labels...) - before; n != 1 {
					t.Errorf("shifted by %s: %s was counted %v times", shift, reason, n)
				}
			}
			if _, stored := w.withBody(g, body); stored {
				t.Error("an attempt out of its time is stored")
			}
			if r := w.post(at(g, body, -4*time.Minute)); r.status != 200 {
				t.Errorf("within the tolerance: %d %q", r.status, r.body)
			}
			w.wantCredited(g, s)
		})
	}
}

// A dispute in which no money moved, and that ends well: Mercado Pago's claims.
func TestAMediationThatEndsWellCreditsNothingTwice(t *testing.T) {
	w, g := inWorld(t), &mercadopagoGateway
	s := newSale(g).paid()
	for i, status := range []string{"paid", "mediation", "paid"} {
		s.status = status
		w.api.tells(g, s)
		w.take(g, g.body(newHook("paid", fmt.Sprint("evt_", i, s.id), s)))
		w.final(g, s.id)
		want := strings.Replace(status, "mediation", "disputed", 1)
		if p := w.payment(g, s.id); p.Status != want || p.Captured != s.amount {
			t.Errorf("told %s the payment is %+v, want it %s", status, p, want)
		}
		w.wantLedger(g, s.id, s.credited())
	}
}

// Money that did not pass through the gateway is not credited, and a status
// that nobody knows moves nothing.
func TestStatusesThatBringNoMoneyBookNone(t *testing.T) {
	w := inWorld(t)
	for _, c := range []struct {
		g      *gateway
		status string // as the API writes it
		want   string // of the event
	}{
		{&iuguGateway, "externally_paid", "processed"}, {&iuguGateway, "novel_status", "parked"}, {&zoopGateway, "novel_status", "parked"},
		{&pagarmeGateway, "novel_status", "parked"}, {&mercadopagoGateway, "novel_status", "parked"}, {&mercadopagoOrders, "novel_status", "parked"},
		{&pagbankGateway, "NOVEL_STATUS", "parked"}, {&standardWebhooksGateway, "novel_status", "parked"}, {&pagpolarGateway, "NOVEL_STATUS", "parked"},
		{&asaasGateway, "NOVEL_STATUS", "parked"}, {&stripeGateway, "novel_status", "parked"},
	} {
		t.Run(c.g.String()+" "+c.status, func(t *testing.T) {
			w, g := w.in(t), c.g
			s := newSale(g).paid()
			s.word = c.status
			w.api.tells(g, s)
			kind := "look"
			if !g.has(kind) {
				kind = "paid"
			}
			bell := s
			bell.word = ""
			body := g.body(newHook(kind, "evt_"+s.id, bell))
			w.take(g, body)
			e := w.settledBody(g, body)
			if e.Status != c.want {
				t.Errorf("told %s, the event is %v, want %s", c.status, e, c.want)
			}
			w.noMoney(g, s)
		})
	}
}
