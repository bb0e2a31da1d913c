package mercadopago

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title: "Mercado Pago",
		Credentials: "`x-signature`: HMAC-SHA256 over `data.id` of the address, `x-request-id` and the time; it does not cover the body. " +
			"IPN and QR-code notifications cannot be verified and are answered 401: end `notification_url` with `?source_news=webhooks`",
		DedupeKey: "seller, topic and id of the notification, with the signed `data.id`; for orders without an id the order, action and version",
		Payment:   "the number of the Payments API; with `MONEY_SOURCE=order` the order, `ORD...`",
		Lookup: "`GET /v1/payments/{id}` and its refunds, or `GET /v1/orders/{id}`, with the access token as a bearer; " +
			"`GET /v1/chargebacks/{id}` for a chargeback that does not name its payment",
		Confirmed: []string{
			"200 and 201 are success; others come again every 15 minutes, without a documented end",
			"a payment's notification has no status; the API decides",
			"`stop_delivery_op_wh`, the alert of fraud, is sent once: it is quarantined, where a person looks, and changes no status",
			"amounts are decimal numbers of the Payments API, texts of the Orders API; fees are those whose payer is the collector",
		},
		Unknown: []string{
			"whether `data.id` is signed in lower case or as sent: both are accepted, or the one in `ID_CASE`",
			"the unit of the time: seconds and milliseconds are accepted",
			"whether a repetition is signed anew: there is no limit of age unless `TOLERANCE` sets one",
			"the amount of a chargeback in the Payments API: what is left of the payment is taken",
			"fees and the net amount in the Orders API: none are booked there",
			"rate limits: 5 requests a second, or `LOOKUP_RATE`",
		},
		Sandbox: "`ENVIRONMENT=sandbox` with the access token and the webhook secret of the test mode. `live_mode` says nothing; " +
			"orders made with test credentials have ids that begin with `ORDTST`, and production ignores them. " +
			"The panel's \"simulate\" names a payment that does not exist: its event waits and then is dead, with `lookup_not_found`.",
	}
}
