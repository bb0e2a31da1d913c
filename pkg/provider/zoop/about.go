package zoop

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "Zoop",
		Credentials: "a long secret at the end of the address, on request also an exact `Authorization`; the body is not covered",
		DedupeKey:   "marketplace and event id; never type and transaction, since each partial refund is a `transaction.canceled`",
		Payment:     "the transaction, `payload.object.id`",
		Lookup:      "`GET /v1/marketplaces/{marketplace}/transactions/{id}`, HTTP Basic with the key as user",
		Confirmed: []string{
			"event id and `payload.object.id`; one configuration a marketplace",
			"partial and total cancellation come under one type: the refund is `original_amount - amount`, and its increase is booked",
			"requests take cents, answers give reais as texts with a decimal point; a bare number is refused",
			"HTTP Basic authentication of the API",
		},
		Unknown: []string{
			"any signature, and what `authorization` of a webhook does",
			"success codes, time-outs, retries, rate limits (200 is answered, five lookups a second are made)",
			"the closed list of statuses, and amounts after a capture in part: such answers are refused",
			"a fee that shrinks with a refund is reported as a disagreement; what was booked stands",
		},
		Sandbox: "Test and live share one host, and no body marks a test: use a marketplace, an account and an address of their own with a `zpk_test_` key. Pay 149.90, cancel 49.90 of it, then the rest, and expect `paid`, `partially_refunded`, `refunded`.",
	}
}
