package stripe

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (g *gateway) About() provider.About {
	return provider.About{
		Title:       "Stripe",
		Credentials: "`Stripe-Signature`: HMAC-SHA256 of time-stamp and body, any active `v1`; 300 s tolerance both ways",
		DedupeKey:   "the event's id",
		Payment:     "the PaymentIntent, `pi_...`",
		Lookup:      "the PaymentIntent with its charge, refunds, disputes and balance transactions, with a restricted key",
		Confirmed: []string{
			"signature, headers and rotation: documented, and compared with stripe-go in tests",
			"event types and objects of snapshot events; lookups run against stripe-mock in tests",
			"any 2xx is success; retries for three days",
		},
		Unknown: []string{
			"how long Stripe waits for an answer is not published: umavez answers in milliseconds",
			"thin events (API v2) are stored and set aside, not read",
		},
		Sandbox: "A test-mode endpoint has a secret of its own; run with `ENVIRONMENT=sandbox`. `stripe listen --forward-to` and `stripe trigger` send test events.",
	}
}
