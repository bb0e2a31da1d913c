package iugu

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "Iugu",
		Credentials: "the `Authorization` value of the registration, or a secret in the address; neither covers the body",
		DedupeKey:   "event, invoice and status; a repeat is looked up again, since a second partial refund has the bytes of the first",
		Payment:     "the invoice",
		Lookup:      "`GET /v1/invoices/{id}` with the API token; only `*_cents` are read, never formatted texts",
		Confirmed: []string{
			"triggers are forms; exactly 200 is success, anything else brings them again",
			"the status words of invoices, `externally_paid` (no money came through Iugu, nothing is credited) among them",
			"HTTP Basic with the token as user",
		},
		Unknown: []string{
			"the header in which the `authorization` of the registration arrives: `IUGU_AUTH` has no default",
			"most event names: an unknown name about an invoice is looked up",
			"`refunded_cents` and `taxes_paid_cents`: an answer about money without the fee is refused rather than credited gross",
			"time-outs, retries and rate limits: five lookups a second here",
		},
		Sandbox: "A test token of the same account. Register a trigger with `authorization`, pay a test invoice and see whether the `Authorization` header arrives; if it does not, use `IUGU_AUTH=path`. The real event names are in `GET /v1/web_hooks/supported_events`.",
	}
}
