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

// AllSources are an account of every gateway.
func AllSources() []string { return Gateways() }
