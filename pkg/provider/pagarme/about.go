package pagarme

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "Pagar.me",
		Credentials: "RS256 over the body with a published key set, or HTTP Basic; v4: HMAC-SHA1 over the body",
		DedupeKey:   "account and the delivery's id; v4: transaction, event, old and new status, date",
		Payment:     "the charge, `ch_...`; orders are read charge by charge. v4: the transaction",
		Lookup:      "`GET /charges/{id}`, with `PAGARME_PAYABLES=true` also `GET /payables` for the fees; v4 is not asked",
		Confirmed: []string{
			"format of the signature and its vector, event names, statuses, cents",
			"v4: form bodies, HMAC-SHA1 with the API key over the raw bytes, exactly 200 is success, up to 31 attempts",
		},
		Unknown: []string{
			"whether webhooks that are typed into the dashboard are signed: `PAGARME_AUTH` has no default",
			"the body of `chargeback.received`: looked up by the charge's id inside it, or else quarantined",
			"events for the end of a dispute and for the expiry of a Pix, intervals of retries, the signs of fees on payables of refunds (not booked)",
			"how v4's API answers: `PAGARME_LOOKUP=never` is required with it",
		},
		Sandbox: "Host and bodies are those of production; a test account is told by its `acc_...` id and an `sk_test_` key. Run with `ENVIRONMENT=sandbox`, look at one delivery's headers to choose `PAGARME_AUTH`, and resend with `POST /core/v5/hooks/{hook_id}/retry`.",
	}
}
