package asaas

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "Asaas",
		Credentials: "`asaas-access-token`: the token of the webhook configuration; it does not cover the body",
		DedupeKey:   "the event's id; for bodies from before March 2024 event, payment and time",
		Payment:     "the charge, `pay_...`",
		Lookup:      "`GET /payments/{id}` and its refunds, with the API key in `access_token`",
		Confirmed: []string{
			"exactly 200 is success; fifteen failures in a row stop the queue, and 14 days of events are kept",
			"the event's id stays the same on every redelivery",
			"25,000 requests in 12 hours, which the default rate keeps within",
		},
		Unknown: []string{
			"refunds have no id: umavez makes one of payment, time, amount and place in the list",
			"times carry no zone: they are read as those of São Paulo",
		},
		Sandbox: "`ENVIRONMENT=sandbox` asks the sandbox's API; keys begin with `$aact_hmlg_`. The sandbox's panel can confirm a payment by hand.",
	}
}
