package registry

import (
	"fmt"

	"github.com/umavez/umavez/pkg/provider"
)

// quiet is a provider that prints as the name of its source. A gateway keeps
// its secrets in fields that fmt reads without asking Secret's methods, so
// this is done for all of them here rather than by each.
type quiet struct {
	provider.Provider
	name string
}

// Unwrap leads provider.As to the optional parts of the gateway's contract.
func (q *quiet) Unwrap() provider.Provider { return q.Provider }

// Format implements fmt.Formatter for every verb.
func (q *quiet) Format(f fmt.State, _ rune) { fmt.Fprint(f, q.String()) }

// String implements fmt.Stringer, which loggers prefer.
func (q *quiet) String() string { return "source " + q.name }

// MarshalText implements encoding.TextMarshaler, for JSON.
func (q *quiet) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// Format implements fmt.Formatter, for the same reason.
func (s *snapshot) Format(f fmt.State, _ rune) {
	for i, e := range s.entries {
		if i > 0 {
			fmt.Fprint(f, ", ")
		}
		fmt.Fprint(f, e.Source.Name())
	}
}

// Format implements fmt.Formatter: a set prints as the names of its sources.
func (s *Set) Format(f fmt.State, verb rune) { s.current.Load().Format(f, verb) }
