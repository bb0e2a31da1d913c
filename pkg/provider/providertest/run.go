package providertest

import "testing"

// Run runs the whole suite as subtests of t.
func Run(t *testing.T, s Spec) {
	s.check(t)
	t.Run("credentials", s.credentials)
	t.Run("bodies", s.bodies)
	t.Run("golden", s.goldens)
	t.Run("keys", s.keys)
	t.Run("amounts", s.amounts)
	t.Run("lookup", s.lookup)
}
