package campaign

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/umavez/umavez/pkg/powercut"
)

// POSIX does not promise that a synced file keeps its name. PostgreSQL counts
// on it for the files of its relations: on a disk that forgets them, a table
// that was written and checkpointed is gone.
func TestWhatPostgreSQLNeedsOfTheDirectory(t *testing.T) {
	t.Parallel()
	cfg := short(t)
	at := filepath.Join(cfg.Dir, "mount")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := powercut.New(pgDisk)
	m, err := disk.Mount(at)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmount() //nolint:errcheck // the test is over
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	pg, err := startPostgres(t.Context(), filepath.Join(cfg.Dir, "pg"), filepath.Join(at, "data"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pg.PowerOff(); err != nil {
			t.Error(err)
		}
		_ = pg.Stop()
	}()
	disk.SyncAll()
	// count makes a table with the given name, cuts, and counts its rows.
	count := func(table string) (n int, err error) {
		db, err := open(t.Context(), pg.URL(""))
		if err != nil {
			return 0, err
		}
		_, err = db.Pool.Exec(t.Context(), "CREATE TABLE "+table+" AS SELECT generate_series(1, 1000) n")
		if err == nil {
			_, err = db.Pool.Exec(t.Context(), "CHECKPOINT")
		}
		db.Close()
		if err != nil {
			t.Fatal(err)
		}
		disk.Cut(powercut.LoseAll, 0)
		if err := pg.PowerOff(); err != nil {
			t.Fatal(err)
		}
		disk.Reopen()
		if err := pg.Restart(t.Context()); err != nil {
			return 0, err
		}
		if db, err = open(t.Context(), pg.URL("")); err != nil {
			return 0, err
		}
		defer db.Close()
		err = db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n)
		return n, err
	}
	if n, err := count("as_ext4_does"); n != 1000 || err != nil {
		t.Errorf("where a synced file keeps its name: %d rows, %v; want 1000", n, err)
	}
	disk.Set(func(o *powercut.Options) { o.SyncNames = false })
	if n, err := count("as_posix_allows"); err == nil {
		t.Errorf("on a strict POSIX disk all %d rows are there: PostgreSQL does not need SyncNames any more", n)
	} else {
		t.Logf("on a strict POSIX disk: %v", err)
	}
}
