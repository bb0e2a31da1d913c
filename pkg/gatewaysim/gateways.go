package gatewaysim

import (
	"maps"
	"slices"
)

// gateways lists every gateway that is played, a line each.
var gateways = map[string]gateway{
	"asaas":    asaas{},
	"pagpolar": pagpolar{},
	"stripe":   stripe{},
}

// Gateways are the names of all gateways, sorted.
func Gateways() []string { return slices.Sorted(maps.Keys(gateways)) }
