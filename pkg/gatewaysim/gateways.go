package gatewaysim

import (
	"maps"
	"slices"
)

// gateways lists every gateway that is played, a line each.
var gateways = map[string]gateway{
	"asaas":            asaas{},
	"efi":              efi{},
	"iugu":             iugu{},
	"pagbank":          pagbank{},
	"mercadopago":      mercadopago{},
	"pagarme":          pagarme{},
	"pagpolar":         pagpolar{},
	"standardwebhooks": standardWebhooks{},
	"stripe":           stripe{},
	"zoop":             zoop{},
}

// Gateways are the names of all gateways, sorted.
func Gateways() []string { return slices.Sorted(maps.Keys(gateways)) }

// AllSources are an account of every gateway, and those accounts that play
// another side of one: Mercado Pago's orders, and senders of Standard Webhooks
// with public keys and with a shape of their own.
func AllSources() []string {
	all := append(Gateways(), "mercadopago/orders", "standardwebhooks/ed25519", "standardwebhooks/mapped")
	slices.Sort(all)
	return all
}
