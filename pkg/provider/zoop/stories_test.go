package zoop_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// moment is one state of a transaction at Zoop, and the events that tell of it.
type moment struct {
	object string
	types  []string
}

// story is what happens to one transaction, a day apart, and where it ends.
type story struct {
	name    string
	moments []moment
	ends    sums
}

// sums are what must not depend on the order.
type sums struct {
	status                               payment.Status
	captured, refunded, chargedBack, fee int64
}

func sumsOf(p *payment.Payment) sums {
	return sums{p.Status, p.Captured.Value, p.Refunded, p.ChargedBack, p.Fee}
}

func stories() []story {
	const whole, part, less, none, fee = "149.90", "100.00", "50.00", "0.00", `,"fees":"4.97"`
	of := func(status, left, more string, types ...string) moment {
		for i := range types {
			types[i] = "transaction." + types[i]
		}
		return moment{object(status, `"`+left+`"`, `"149.90"`, more), types}
	}
	card := fee + `,"payment_type":"credit","captured":true,"history":[{"operation_type":"created","status":"succeeded","amount":"149.90"}]`
	boleto := `,"payment_type":"boleto","captured":true,"history":[{"operation_type":"created","status":"succeeded","amount":"149.90"}]`
	paidBoleto := fee + `,"payment_type":"boleto","captured":true,"history":[{"operation_type":"created","status":"succeeded","amount":"149.90"},{"operation_type":"paid","status":"succeeded","amount":"149.90"}]`
	attempt := `,"payment_type":"credit","captured":false,"history":[]`
	created, paid := of("pending", whole, attempt, "created"), of("succeeded", whole, card, "succeeded")
	return []story{
		{"a card that is pre-authorized and captured, each told twice", []moment{
			created, of("pre_authorized", whole, attempt, "pre_authorized", "pre_authorization.succeeded"),
			of("succeeded", whole, card, "succeeded", "capture.succeeded", "updated"),
		}, sums{payment.StatusPaid, 14990, 0, 0, 497}},
		{"two partial refunds and the rest, under one event type", []moment{
			created, paid, of("succeeded", part, card, "canceled"), of("partial_refunded", less, card, "canceled", "void.succeeded"),
			of("canceled", none, card, "canceled", "void.succeeded"),
		}, sums{payment.StatusRefunded, 14990, 14990, 0, 497}},
		{"a refund of a part", []moment{created, paid, of("succeeded", part, card, "canceled", "void.succeeded"), of("succeeded", part, card, "void.failed")},
			sums{payment.StatusPartiallyRefunded, 14990, 4990, 0, 497}},
		{"failed, and paid at the next attempt", []moment{created, of("failed", whole, attempt, "failed"), paid}, sums{payment.StatusPaid, 14990, 0, 0, 497}},
		{"a boleto that is paid after it was canceled", []moment{
			of("new", whole, boleto, "created"), of("canceled", whole, boleto, "canceled"), of("succeeded", whole, paidBoleto, "succeeded"),
		}, sums{payment.StatusPaid, 14990, 0, 0, 497}},
		{"a boleto that runs out", []moment{of("new", whole, boleto, "created"), of("canceled", whole, boleto, "expired", "canceled")},
			sums{status: payment.StatusCanceled}},
		{"a boleto that is paid and given back", []moment{
			of("new", whole, boleto, "created"), of("succeeded", whole, paidBoleto, "succeeded"), of("canceled", none, paidBoleto, "canceled"),
		}, sums{payment.StatusRefunded, 14990, 14990, 0, 497}},
		{"a pre-authorization that is given up", []moment{
			created, of("pre_authorized", whole, attempt, "pre_authorized"), of("pre_authorized", whole, attempt, "capture.failed"), of("canceled", none, attempt, "canceled", "void.succeeded"),
		}, sums{status: payment.StatusCanceled}},
		{"a dispute that is lost, after a partial refund", []moment{
			paid, of("succeeded", part, card, "canceled"), of("dispute", part, card, "disputed"), of("charged_back", part, card, "charged_back", "charge_back"),
		}, sums{payment.StatusChargedBack, 14990, 4990, 10000, 497}},
		{"a dispute that is won", []moment{created, paid, of("disputed", whole, card, "disputed"), of("succeeded", whole, card, "dispute.succeeded")},
			sums{payment.StatusPaid, 14990, 0, 0, 497}},
		{"a dispute that goes on", []moment{created, paid, of("dispute", whole, card, "disputed")}, sums{payment.StatusDisputed, 14990, 0, 14990, 497}},
		{"a sale that is undone", []moment{created, of("succeeded", whole, strings.Replace(card, fee, "", 1), "succeeded"), of("reversed", whole, strings.Replace(card, fee, "", 1), "reversed")},
			sums{payment.StatusCanceled, 14990, 14990, 0, 0}},
		{"an attempt that is undone", []moment{created, of("reversed", whole, attempt, "reversed")}, sums{status: payment.StatusCanceled}},
	}
}

var begin = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

// notice is one event of a story.
type notice struct {
	moment int
	body   string
	at     time.Time // as Zoop says
}

func (s story) notices() (all []notice) {
	for i, m := range s.moments {
		at := begin.AddDate(0, 0, i)
		for _, typ := range m.types {
			all = append(all, notice{i, fmt.Sprintf(`{"id":"e%d%d","type":%q,"created_at":%q,"payload":{"object":%s}}`, i, len(all), typ, at.Format(time.RFC3339), m.object), at})
		}
	}
	return all
}
