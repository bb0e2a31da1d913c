package e2e

import (
	"fmt"
	"testing"
)

func TestCase_D1_NothingWithNullsIsLost(t *testing.T) {
	w := inWorld(t)
	for _, c := range []struct {
		g     *gateway
		wants []want
	}{
		{&stripeGateway, stripeNulls()}, {&asaasGateway, asaasNulls()}, {&pagpolarGateway, pagpolarNulls()}, {&pagarmeGateway, pagarmeNulls()},
		{&pagarmeV4Gateway, pagarmeV4Nulls()}, {&mercadopagoGateway, mercadopagoNulls()}, {&mercadopagoOrders, mercadopagoOrderNulls()}, {&zoopGateway, zoopNulls()},
		{&standardWebhooksGateway, standardWebhooksNulls()}, {&standardWebhooksAlone, standardWebhooksNulls()}, {&pagbankGateway, pagbankNulls()}, {&efiGateway, efiNulls()}, {&iuguGateway, iuguNulls()},
	} {
		t.Run(c.g.String(), func(t *testing.T) { w.in(t).become(c.g, c.wants) })
	}
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM ledger_entries l JOIN payments p ON p.id = l.payment_id WHERE p.gateway_id ~ '_d1_|^[a-z]0d1[0-9]+$|^4242'`); n != 0 {
		t.Errorf("%d entries were booked", n)
	}
}

func stripeNulls() []want {
	event := func(id, typ, data string) string {
		return fmt.Sprintf(`{"id":"evt_d1_%s","object":"event","created":1767225601,"livemode":true,"type":"%s","data":%s}`, id, typ, data)
	}
	return []want{
		{event("1", "payment_intent.succeeded", `null`), "ignored", "empty_data"},
		{event("2", "payment_intent.succeeded", `{}`), "ignored", "empty_data"},
		{event("3", "payment_intent.succeeded", `{"object":null}`), "ignored", "empty_data"},
		{event("4", "payment_intent.succeeded", `{"object":{"id":null,"object":"payment_intent"}}`), "quarantined", "unreadable"},
		{event("5", "payment_intent.succeeded", `{"object":{"id":"pi_d1_5","object":"payment_intent","amount":null,"currency":null,"status":null}}`), "quarantined", "payment_intent.status"},
		{event("6", "charge.refunded", `{"object":{"id":"ch_d1_6","object":"charge","payment_intent":null,"captured":null}}`), "quarantined", "charge.captured"},
		{`{"id":null,"object":null,"type":null,"data":null}`, "quarantined", "unreadable"},
	}
}

func asaasNulls() []want {
	event := func(id, payment string) string {
		return fmt.Sprintf(`{"id":"evt_d1_%s","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-20 14:01:09","tax":null,"payment":%s}`, id, payment)
	}
	return []want{
		{event("1", `null`), "ignored", "empty_data"},
		{event("2", `{}`), "ignored", "empty_data"},
		{event("3", `{"id":null}`), "quarantined", "unreadable"},
		{event("4", `{"id":"pay_d1_4","value":null,"netValue":null,"status":null,"refunds":null,"chargeback":null}`), "quarantined", "payment.value"},
		{`{"id":null,"event":null,"payment":null}`, "quarantined", "unreadable"},
	}
}

func pagpolarNulls() []want {
	event := func(id, rest string) string {
		return fmt.Sprintf(`{"event":"TRANSACTION_PAID","id":"att_d1_%s"%s}`, id, rest)
	}
	return []want{
		{event("1", `,"data":null`), "ignored", "empty_data"},
		{event("2", `,"data":{}`), "ignored", "empty_data"},
		{event("3", `,"data":[]`), "ignored", "empty_data"},
		{event("5", `,"data":{"transaction":{"id":null}}`), "quarantined", "unreadable"},
		{event("6", `,"data":{"transaction":{"id":"sale-d1-6","status":null}}`), "parked", "lookup_not_found"},
		{`{"event":null,"id":null,"data":null}`, "quarantined", "unreadable"},
	}
}

func pagarmeNulls() []want {
	event := func(id, typ, data string) string {
		return fmt.Sprintf(`{"id":"hook_d1_%s","account":{"id":"acc_E2E01"},"type":"%s","created_at":"2026-01-15T12:00:05Z","data":%s}`, id, typ, data)
	}
	return []want{
		{event("1", "charge.paid", `null`), "ignored", "empty_data"},
		{event("2", "charge.paid", `{}`), "ignored", "empty_data"},
		{event("3", "charge.paid", `{"id":null}`), "quarantined", "unreadable"},
		{event("4", "charge.paid", `{"id":"ch_d1_4","amount":null,"paid_amount":null,"status":null,"currency":null,"order":null,"last_transaction":null,"metadata":null}`), "parked", "lookup_not_found"},
		{event("5", "order.paid", `{"id":"or_d1_5","charges":null}`), "quarantined", "unreadable"},
		{event("6", "order.paid", `{"id":"or_d1_6","charges":[null]}`), "quarantined", "unreadable"},
		{event("7", "order.canceled", `{"id":"or_d1_7","charges":[]}`), "ignored", "informational"},
		{event("8", "chargeback.received", `{"id":null,"charge":null}`), "quarantined", "unreadable"},
		{`{"id":null,"account":null,"type":null,"data":null}`, "quarantined", "unreadable"},
	}
}

func pagarmeV4Nulls() []want {
	const event = "event=transaction_status_changed&object=transaction&"
	return []want{
		{event + "id=&current_status=paid", "quarantined", "unreadable"},
		{event + "current_status=paid", "quarantined", "unreadable"},
		{event + "id=d1a&current_status=", "quarantined", "unreadable"},
		{event + "id=d1b&transaction%5Bid%5D=&current_status=paid", "quarantined", "unreadable"},
		{event + "id=d1c&transaction%5Bid%5D=d1other&current_status=paid", "quarantined", "unreadable"},
		{event + "id=d1d&current_status=null", "quarantined", "current_status"},
		{event + "id=d1e&current_status=paid&transaction%5Bpaid_amount%5D=null", "quarantined", ""},
		{event + "id=d1f&current_status=pending_refund", "ignored", "informational"},
		{"event=subscription_status_changed&id=d1g", "ignored", "informational"},
		{"event=&id=d1h", "quarantined", "unreadable"},
	}
}

func mercadopagoNulls() []want {
	event := func(id, rest string) string {
		return fmt.Sprintf(`{"id":%s,"live_mode":true,"user_id":444555666,"api_version":"v1","action":"payment.updated",%s}`, id, rest)
	}
	return []want{ // the address says which payment it is, where the body does not
		{event("9001", `"type":"payment","data":{"id":"42420001"},"date_created":null`), "parked", "lookup_not_found"},
		{event("null", `"type":"payment","data":{"id":"42420002","x":null}`), "parked", "lookup_not_found"},
		{event("9003", `"type":null,"data":{"id":"42420003"}`), "quarantined", "unreadable"},
		{event("9004", `"type":"subscription_preapproval","data":null`), "ignored", "informational"},
		{event("9005", `"type":"novel","data":null`), "ignored", "unknown_type"},
		{`{"id":null,"type":null,"action":null,"data":null}`, "quarantined", "unreadable"},
	}
}

func mercadopagoOrderNulls() []want {
	event := func(id, data string) string {
		return fmt.Sprintf(`{"id":%s,"type":"order","user_id":"444555666","action":"order.processed","data":%s}`, id, data)
	}
	return []want{
		{event("9101", `{"id":"ORD01D1A","status":null,"transactions":null}`), "parked", "lookup_not_found"},
		{event("9102", `{"id":null}`), "quarantined", "unreadable"},
		{event("9103", `null`), "quarantined", "unreadable"},
	}
}

func zoopNulls() []want {
	event := func(id, typ, payload string) string {
		return fmt.Sprintf(`{"id":"e0d1%s","resource":"event","type":"transaction.%s","created_at":null,"payload":%s}`, id, typ, payload)
	}
	return []want{
		{event("1", "succeeded", `null`), "quarantined", "unreadable"}, // nothing is guessed in its place
		{event("2", "succeeded", `{}`), "quarantined", "unreadable"},
		{event("3", "succeeded", `{"object":null}`), "quarantined", "unreadable"},
		{event("4", "succeeded", `{"object":{}}`), "quarantined", "unreadable"},
		{event("5", "succeeded", `{"object":{"id":null}}`), "quarantined", "unreadable"},
		{event("6", "succeeded", `{"id":"a0d16","object":null}`), "quarantined", "unreadable"},
		{event("7", "succeeded", `{"object":{"id":"a0d17","amount":null,"original_amount":null,"status":null}}`), "parked", "lookup_not_found"}, // a hint: its id is all that is needed
		{event("8", "updated", `{"object":{"id":"a0d18","status":null,"metadata":null,"history":null}}`), "parked", "lookup_not_found"},
		{`{"id":null,"type":null,"payload":null}`, "quarantined", "unreadable"},
	}
}

func standardWebhooksNulls() []want {
	event := func(id, typ, data string) string {
		return fmt.Sprintf(`{"type":"%s","timestamp":null,"message_id":"evt_d1_%s","data":%s}`, typ, id, data)
	}
	return []want{
		{event("1", "payment.paid", `null`), "ignored", "empty_data"},
		{event("2", "payment.paid", `{}`), "ignored", "empty_data"},
		{event("3", "payment.paid", `{"payment_id":null}`), "quarantined", "unreadable"},
		{event("4", "payment.paid", `{"payment_id":"pay_d1_4","amount":1.5,"currency":"BRL"}`), "quarantined", ""},
		{event("5", "payment.novel", `null`), "ignored", "unknown_type"},
		{event("6", "invoice.paid", `null`), "ignored", "informational"},
		{`{"type":null,"timestamp":null,"data":null}`, "quarantined", "unreadable"},
	}
}

func pagbankNulls() []want {
	return []want{
		{`{"id":null,"charges":null}`, "quarantined", "unreadable"},
		{`{"id":"CHAR_d1_1","status":null,"amount":null}`, "quarantined", "charge.status"},
		{`{"id":"CHAR_d1_2","status":"DECLINED","amount":null,"reference_id":null,"paid_at":null}`, "parked", "lookup_not_found"},
		{`{"id":"ORDE_d1_3","charges":[null]}`, "quarantined", "unreadable"},
		{`{"id":"ORDE_d1_4","charges":[{"id":null,"status":"PAID"}]}`, "quarantined", "unreadable"},
		{`{"id":"ORDE_d1_5","charges":null}`, "parked", ""}, // an order before its payment: the API is asked
		{`{"id":"CHEC_d1_6","status":null}`, "ignored", "informational"},
		{`{"id":"CBKS_d1_7","status":null}`, "quarantined", "not_supported"},
		{`{"id":"NEWS_d1_8"}`, "ignored", "unknown_type"},
	}
}

func efiNulls() []want {
	return []want{
		{`{"pix":[null]}`, "quarantined", "unreadable"},
		{`{"pix":[{ "x": null }]}`, "quarantined", "unreadable"},
		{`{"pix":[{"endToEndId":null,"txid":"tx","valor":"1.00"}]}`, "quarantined", "unreadable"},
		{`{"pix":[{"endToEndId":"Ed1a","txid":null,"valor":"1.00"}]}`, "quarantined", "unreadable"},
		{`{"pix":[{"endToEndId":"Ed1b","txid":"tx","valor":null}]}`, "quarantined", "unreadable"},
		{`{"pix":[{"endToEndId":"Ed1c","txid":"tx","valor":"1.00","horario":null,"devolucoes":null,"gnExtras":null,"tipo":null}]}`, "parked", "lookup_not_found"},
		{`{"pix":[{"endToEndId":"Ed1d","txid":"tx","valor":"1.00","devolucoes":[null]}]}`, "quarantined", "unreadable"},
		{`{"evento":null}`, "quarantined", ""},
	}
}

func iuguNulls() []want {
	return []want{
		{"event=invoice.status_changed", "ignored", "empty_data"},
		{"event=invoice.status_changed&data=", "ignored", "empty_data"},
		{"event=invoice.status_changed&data%5Bid%5D=&data%5Bstatus%5D=", "ignored", "empty_data"},
		{"event=invoice.status_changed&data%5Bid%5D=&data%5Bstatus%5D=paid", "quarantined", "unreadable"},
		{"event=invoice.status_changed&data%5Bid%5D=INVd1a&data%5Bstatus%5D=", "parked", "lookup_not_found"},
		{"event=invoice.status_changed&data%5Bid%5D=INVd1b&data%5Bstatus%5D=novel", "parked", "lookup_not_found"},
		{"event=invoice.due&data%5Bid%5D=INVd1c&data%5Bstatus%5D=", "ignored", "informational"},
		{"event=novel.thing&data%5Bid%5D=INVd1d", "ignored", "unknown_type"},
		{"event=&data%5Bid%5D=INVd1e", "quarantined", "unreadable"},
	}
}
