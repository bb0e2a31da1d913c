package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The same gateway for a seller who uses its Orders API: ids have letters,
// bodies have amounts that nobody signed, and fees are not told.
var mercadopagoOrders = func() gateway {
	g := mercadopagoGateway
	g.label, g.accounts, g.prefix, g.noFee, g.mute, g.vague, g.forget, g.open = "mercadopago-orders", []string{"pedidos"}, "ORD01", true, false, false, true, nil
	g.id = func(text string) string { return "ORD01" + strings.ToUpper(text) }
	g.body = func(e hook) []byte {
		action := "order." + map[string]string{"created": "action_required", "failed": "failed", "paid": "processed", "again": "processed", "look": "updated", "part": "refunded", "lost": "charged_back", "refunded": "refunded"}[e.kind]
		data := mercadopagoOrder(e.sale, map[string]string{"again": "paid"}[e.kind], e.note)
		switch e.kind {
		case "look":
			data = fmt.Sprintf(`{"id":"%s","description":%s}`, e.sale.id, e.note)
		case "again":
		default:
			data = mercadopagoOrder(e.sale, e.kind, e.note)
		}
		return fmt.Appendf(nil, `{"action":"%s","api_version":"v1","application_id":"7000000000000001","data":%s,"date_created":"%s","id":%s,"live_mode":true,"type":"order","user_id":"444555666"}`,
			action, data, e.at.UTC().Format(time.RFC3339), mercadopagoNumber(e.id))
	}
	g.answer = func(_ *http.Request, s sale) string { return mercadopagoOrder(s, s.status, `""`) }
	g.settings = func(string, string) map[string]string {
		return map[string]string{"USER_ID": "444555666", "MONEY_SOURCE": "order", "CURRENCY": "BRL"}
	}
	return g
}()

func mercadopagoOrder(s sale, status, note string) string {
	word, detail := "action_required", "waiting_payment"
	paid, refunds, chargebacks, more := "0.00", "", "", ""
	switch status {
	case "failed":
		word, detail = "failed", "failed"
	case "paid":
		word, detail, paid = "processed", "accredited", reais(s.amount)
	case "part":
		word, detail, paid = "processed", "partially_refunded", reais(s.amount)
	case "lost":
		word, detail, paid = "charged_back", "settled", reais(s.amount)
		chargebacks = fmt.Sprintf(`{"id":"CHB%s","transaction_id":"PAY%s","case_id":"200000000000000001","amount":"%s","status":"settled"}`, s.id[3:], s.id[3:], reais(s.amount-s.refunded))
	case "refunded":
		word, detail, paid = "refunded", "refunded", reais(s.amount)
	}
	if status == "part" || status == "refunded" || status == "lost" {
		refunds = s.each(func(number string, amount int64) string {
			return fmt.Sprintf(`{"id":"REF%s%s","transaction_id":"PAY%s","amount":"%s","status":"processed"}`, s.id[3:], number, s.id[3:], reais(amount))
		})
	}
	if !s.withoutFields {
		more = fmt.Sprintf(`"external_reference":"%s","total_amount":"%s",`, s.reference(), cmp.Or(s.rawAmount, reais(s.amount)))
	}
	return fmt.Sprintf(`{"id":"%s",%s"status":"%s","status_detail":"%s","total_paid_amount":"%s","description":%s,"transactions":{"payments":[],"refunds":[%s],"chargebacks":[%s]},"type":"online","user_id":"444555666"}`,
		s.id, more, cmp.Or(s.word, word), detail, cmp.Or(s.rawAmount, paid), note, refunds, chargebacks)
}
