package iugu_test

import (
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// A form is read from its own bytes: in whatever spelling it comes, the
// invoice and its status are the same, and the bytes are kept as they came.
func TestCase_A14_IuguFormsAreReadInEverySpellingAndKeptAsSent(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	want := p.Parse(inHeader(token, []byte(paid), now))[0]
	for _, body := range []string{
		strings.NewReplacer("%5B", "[", "%5D", "]").Replace(paid),
		strings.NewReplacer("%5B", "%5b", "%5D", "%5d").Replace(paid),
		paid + "&data%5Border_id%5D=a+b%20c&x=",
		"x=&data%5Bcustom%5D%5Bnote%5D=%2B+%20&" + paid,
		strings.Replace(paid, "status_changed", "status%5Fchanged", 1),
	} {
		got := p.Parse(inHeader(token, []byte(body), now))[0]
		if string(got.Body) != body {
			t.Errorf("the bytes were changed: %s", got.Body)
		}
		if got.Disposition != provider.Process || got.DedupeKey != want.DedupeKey || got.PaymentRef != inv || got.Type != want.Type {
			t.Errorf("%s: %+v", body, got)
		}
	}
	for _, body := range []string{
		strings.Replace(paid, "data%5Bid%5D", "data.id", 1), strings.Replace(paid, "data%5Bid%5D", "id", 1),
		strings.Replace(paid, "data%5Bid%5D", "data%255Bid%255D", 1), strings.Replace(paid, "data%5Bid%5D", "data%5Bi%5Dd", 1),
	} {
		if got := p.Parse(inHeader(token, []byte(body), now))[0]; got.Disposition != provider.Quarantine {
			t.Errorf("a form without data[id] is taken for %s: %s", got.Disposition, body)
		}
	}
}

// Marks before a form would become part of the name of its first field.
func TestCase_A26_IuguByteOrderMarksBeforeAFormAreNoPartOfItsFirstName(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	want := p.Parse(inHeader(token, []byte(paid), now))[0]
	for _, marks := range []string{"\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbf"} {
		got := p.Parse(inHeader(token, []byte(marks+paid), now))[0]
		if got.Disposition != provider.Process || got.DedupeKey != want.DedupeKey || string(got.Body) != marks+paid {
			t.Errorf("%+v", got)
		}
		if c := claimOf(t, p, marks+paid); c.GatewayID != inv || len(c.Facts) != 1 {
			t.Errorf("%+v", c)
		}
	}
	for _, other := range []string{"\xfe\xff", "\xff\xfe", "\xef\xbb", "%EF%BB%BF"} {
		if got := p.Parse(inHeader(token, []byte(other+paid), now))[0]; got.Disposition != provider.Quarantine {
			t.Errorf("%q before the form: %s (%s)", other, got.Disposition, got.Reason)
		}
	}
}

// A trigger without a status, or with one of tomorrow, rings all the same.
func TestCase_B15_IuguTriggersThatSayLittleLeaveItToTheLookup(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	for _, b := range []string{
		"event=invoice.status_changed&data%5Bid%5D=" + inv, form("invoice.status_changed", "a_word_of_tomorrow"), form("invoice.of_tomorrow", "paid"),
		form("invoice.status_changed", "in_protest"),
	} {
		b0 := books{state: payment.Payment{Provider: "iugu", GatewayID: inv}, clock: now}
		c := claimOf(t, p, b)
		if len(c.Facts) != 0 || !b0.decide(t, c, look(t, p, answer("in_protest", received)), payment.Policy{}) || b0.state.Status != payment.StatusDisputed {
			t.Errorf("%s: claims %+v, then %s", b, c.Facts, b0.state.Status)
		}
	}
}

// "pending" after "paid" (quirk 1) changes nothing, whatever was paid.
func TestCase_C1_IuguPendingAfterPaidIsLate(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	b := books{state: payment.Payment{Provider: "iugu", GatewayID: inv}, clock: now}
	stands := look(t, p, answer("paid", received))
	for _, body := range []string{form("invoice.created", "paid"), form("invoice.status_changed", "paid"), form("invoice.status_changed", "pending")} {
		if !b.decide(t, claimOf(t, p, body), stands, payment.Policy{}) {
			t.Fatalf("waits: %s", body)
		}
	}
	if got := b.money(); b.state.Status != payment.StatusPaid || len(got) != 2 || got[0] != capture || got[1] != feeLine {
		t.Errorf("%s %q", b.state.Status, got)
	}
}

// A forged "paid" credits nothing: the API does not know of it. It says so for
// as long as it is asked.
func TestAForgedTriggerMovesNothing(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	for _, word := range []string{"pending", "canceled", "expired", "externally_paid"} {
		for _, body := range []string{form("invoice.status_changed", "paid"), form("invoice.refund", "paid"), form("invoice.status_changed", "chargeback"), form("invoice.status_changed", "partially_paid")} {
			for _, settle := range []bool{false, true} {
				b := books{state: payment.Payment{Provider: "iugu", GatewayID: inv}, clock: now}
				decided := b.decide(t, claimOf(t, p, body), look(t, p, answer(word, received)), payment.Policy{Lag: time.Minute, Settle: settle})
				if decided != settle || len(b.bookings) > 0 {
					t.Errorf("%s while %s: decided %v, %q", body, word, decided, b.money())
				}
			}
		}
	}
}

// A part that was refunded leaves the word "paid", and so may all of it: the
// figure decides, and nothing is credited again.
func TestCase_B23_IuguPaidWithARefundedFigureIsRefunded(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	b := books{state: payment.Payment{Provider: "iugu", GatewayID: inv}, clock: now}
	refund := claimOf(t, p, form("invoice.refund", "paid"))
	for _, step := range []struct {
		figure string
		status payment.Status
		net    int64
	}{
		{"null", payment.StatusPaid, 14493}, {"4990", payment.StatusPartiallyRefunded, 9503},
		{"4990", payment.StatusPartiallyRefunded, 9503}, {"14990", payment.StatusRefunded, -497}, {"14990", payment.StatusRefunded, -497},
	} {
		claim := refund
		if step.figure == "null" {
			claim = claimOf(t, p, paid)
		}
		if !b.decide(t, claim, look(t, p, answer("paid", back(step.figure))), payment.Policy{}) {
			t.Fatalf("waits at %s", step.figure)
		}
		if net, twice := b.net(); b.state.Status != step.status || net != step.net || twice {
			t.Errorf("refunded %s: %s, net %d, %q", step.figure, b.state.Status, net, b.money())
		}
	}
}

// The texts for people beside the figures are never read, however they look.
func TestCase_D5_IuguTextsForPeopleAreNotRead(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	c := look(t, p, body(`{"id":"`+inv+`","status":"paid","total":"1","total_paid":"2.00","taxes_paid":{},"paid":"R$ 9.999,99","refunded":true,`+
		`"total_cents":820,"total_paid_cents":820,"taxes_paid_cents":1,"refunded_cents":null}`))
	if c.Captured != payment.Of(820) || c.Expected != payment.Of(820) || len(c.Facts) != 2 || c.Facts[1].Amount != payment.Of(1) {
		t.Errorf("%+v", c)
	}
}
