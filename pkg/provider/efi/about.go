package efi

import "github.com/umavez/umavez/pkg/provider"

// About implements provider.Describer.
func (p *Provider) About() provider.About {
	return provider.About{
		Title:       "Efí Pix",
		Credentials: "client certificate (mTLS), or a secret in the address; no body is signed",
		DedupeKey:   "`endToEndId`, `txid`, amount, fee and the state of every refund; each Pix of a request is an event of its own",
		Payment:     "one settled transfer, by its `endToEndId`; its reference is the charge's `txid`",
		Lookup:      "`GET /v2/pix/{endToEndId}` with OAuth2 and a client certificate; access tokens are kept and replaced by themselves",
		Confirmed: []string{
			"`/pix` is appended to the registered address, and several Pix may come in one request",
			"Pix that you send come in the same list: never credited, ignored as `own_payout`",
			"the three states of a refund: only `DEVOLVIDO` moves money",
			"the registration probe is answered 200 and ignored",
		},
		Unknown: []string{
			"that a refund's nature (`MED_...`) tells refunds that you did not ask for apart: those are booked as lost chargebacks",
			"that `gnExtras.tarifa` is the fee: `EFI_TARIFA=ignore` if it is not",
			"rate limits (two lookups a second here), the current source address, whether every finished refund is told",
			"nothing is known of a payment before it is paid: Efí does not call when a charge expires; a payment whose only call was lost is not found by reconciliation",
		},
		Sandbox: "`ENVIRONMENT=sandbox` asks `https://pix-h.api.efipay.com.br` with the homologation credentials and certificate. Register with `PUT /v2/webhook/{chave}`; `POST /v2/gn/webhook/reenviar` sends a call again.",
	}
}
