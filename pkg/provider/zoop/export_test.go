package zoop

import (
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// SetClock gives a provider another clock, for the external tests.
func SetClock(p provider.Provider, now func() time.Time) { p.(*Provider).now = now }
