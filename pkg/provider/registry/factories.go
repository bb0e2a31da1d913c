package registry

import (
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/iugu"
	"github.com/umavez/umavez/pkg/provider/mercadopago"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/pagpolar"
	"github.com/umavez/umavez/pkg/provider/standardwebhooks"
	"github.com/umavez/umavez/pkg/provider/stripe"
	"github.com/umavez/umavez/pkg/provider/zoop"
)

// Factories lists every gateway by the name that SOURCES and the webhook
// addresses use. A new gateway is a folder beside this one and a line here.
func Factories() map[string]provider.Factory {
	return map[string]provider.Factory{
		"asaas":            asaas.New,
		"efi":              efi.New,
		"iugu":             iugu.New,
		"pagarme":          pagarme.New,
		"pagbank":          pagbank.New,
		"mercadopago":      mercadopago.New,
		"pagpolar":         pagpolar.New,
		"standardwebhooks": standardwebhooks.New,
		"stripe":           stripe.New,
		"zoop":             zoop.New,
	}
}
