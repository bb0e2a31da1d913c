package standardwebhooks

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "Standard Webhooks",
		Credentials: "`webhook-signature` over id, time-stamp and body: HMAC-SHA256 (`whsec_`) or ed25519 (`whpk_`); 300 s tolerance both ways",
		DedupeKey:   "`webhook-id`; for senders that change it fields of the body, or the body",
		Payment:     "where the settings say; `data.payment_id` in the profile `generic`",
		Lookup:      "by settings, optional, since bodies are signed",
		Confirmed: []string{
			"headers, algorithms, envelope, and that `webhook-id` is stable across retries: the specification",
			"signatures agree with the Go and the JavaScript library in both directions; an empty secret, which the tagged Go library accepts, is refused",
		},
		Unknown: []string{
			"shapes of bodies, statuses, API and test marks are each sender's: settings",
			"any official tolerance: 300 s is what the libraries have",
		},
		Sandbox: "A source of its own for each environment, and the sender's \"send test event\". If everything is refused, `umavez explain` names what the sender signed instead.",
	}
}
