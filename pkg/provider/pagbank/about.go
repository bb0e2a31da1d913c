package pagbank

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title: "PagBank",
		Credentials: "`x-authenticity-token`: SHA-256 of account token, hyphen and body; it covers the body. " +
			"Notification codes are unsigned, and nothing of them is believed",
		DedupeKey: "all that is read of the charges (ids, statuses, sums, times); the notification code",
		Payment:   "the charge, `CHAR_...`; an order may have several",
		Lookup: "`GET /charges/{id}` with the token as a bearer; `GET /orders/{id}` for an order without charges; for a notification code " +
			"`GET /v3/transactions/notifications/{code}` of the old API, with e-mail and token in the query",
		Confirmed: []string{
			"the signature of JSON bodies, with account token and raw body (PagBank's reference, page on the authenticity of notifications)",
			"two formats to one address: JSON until a charge is paid or canceled, a form with a code for what happens afterwards (page on changes of status)",
			"the statuses of a charge, amounts in centavos, BRL only (page on the charge object)",
		},
		Unknown: []string{
			"time-out, success codes, retries, resending, and limits of the API: every authentic request is answered 200, and the default rate is a guess on the low side",
			"the content of a chargeback's body (`CBKS_...`): it is set aside for a person; disputes are read from notification codes",
			"the signature of the recurring payments (`X-Payload-Signature`): refused, or set aside when it came to the secret address",
			"how a transaction of the old API maps to a charge: they are joined by reference, and a reference that several payments carry is for a person",
			"charges do not show disputes: a dispute whose codes are all lost is not found by a lookup",
			"names and meaning of the old API's `grossAmount`, `feeAmount`, `netAmount` and `lastEventDate` are taken from what is well known of it; a fee is booked only where the amounts add up to the cent",
			"a checkout that expires concerns no payment here",
		},
		Sandbox: "`ENVIRONMENT=sandbox` asks the sandbox's APIs. The sandbox often sends no signature: then set `PAGBANK_SANDBOX_SECRET` and an address that ends with it; each body is read back by a lookup.",
	}
}
