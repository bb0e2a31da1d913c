package registry

import (
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/pagpolar"
	"github.com/umavez/umavez/pkg/provider/stripe"
)

// Factories lists every gateway by the name that SOURCES and the webhook
// addresses use. A new gateway is a folder beside this one and a line here.
func Factories() map[string]provider.Factory {
	return map[string]provider.Factory{
		"asaas":    asaas.New,
		"pagpolar": pagpolar.New,
		"stripe":   stripe.New,
	}
}
