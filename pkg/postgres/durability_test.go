package postgres_test

import (
	"errors"
	"testing"

	"github.com/umavez/umavez/pkg/localpg"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func TestAServerThatIsNotDurableIsRefused(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, address string) error {
		db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: address, MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		return db.CheckDurability(t.Context())
	}
	t.Run("synchronous_commit is off", func(t *testing.T) {
		t.Parallel()
		postgrestest.New(t)
		address := postgrestest.URL(t)
		if err := check(t, address+"&synchronous_commit=off"); !errors.Is(err, postgres.ErrNotDurable) {
			t.Errorf("accepted: %v", err)
		}
		for _, level := range []string{"on", "local", "remote_apply"} {
			if err := check(t, address+"&synchronous_commit="+level); err != nil {
				t.Errorf("%s: %v", level, err)
			}
		}
	})
	t.Run("fsync is off", func(t *testing.T) {
		t.Parallel()
		cluster := postgrestest.Cluster(t, func(c *localpg.Config) { c.Params["fsync"] = "off" })
		if err := check(t, cluster.URL("")); !errors.Is(err, postgres.ErrNotDurable) {
			t.Errorf("accepted: %v", err)
		}
	})
}
