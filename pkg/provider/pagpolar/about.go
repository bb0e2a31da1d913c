package pagpolar

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "PagPolar",
		Credentials: "`Authorization: Bearer <token>`; it does not cover the body",
		DedupeKey:   "one created and one paid event a sale; else a hash of what is said, since the envelope's id changes with each attempt",
		Payment:     "the sale, `transaction.id`",
		Lookup:      "the sale and its refunds, by settings",
		Confirmed: []string{
			"the bearer token, the envelope, the names of the main events, the test marks",
		},
		Unknown: []string{
			"address and credentials of the API, status words, where amounts are and in which unit, currencies, names of refund and chargeback events, retries: each is a setting without a default",
		},
		Sandbox: "PagPolar's playground sends events marked as tests; run with `ENVIRONMENT=sandbox` to have them processed.",
	}
}
