package campaign

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/umavez/umavez/pkg/localpg"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/powercut"
)

// pgDisk is what PostgreSQL runs on; see the package powercut for why it needs
// SyncNames. A sync takes as long as on a good SSD, so that cuts meet some.
var pgDisk = powercut.Options{SyncNames: true, SyncDelay: 300 * time.Microsecond}

// startPostgres makes a cluster on the mount. Small segments and a small log
// make checkpoints frequent, so that cuts meet them; checksums make a torn page
// that recovery left torn an error.
func startPostgres(ctx context.Context, dir, data string, params map[string]string) (*localpg.Cluster, error) {
	all := map[string]string{"max_wal_size": "4MB", "min_wal_size": "2MB", "shared_buffers": "16MB", "max_connections": "50", "checkpoint_completion_target": "0.5"}
	for name, value := range params {
		all[name] = value
	}
	return localpg.Start(ctx, localpg.Config{Dir: dir, DataDir: data, InitArgs: []string{"--wal-segsize=1", "--data-checksums"}, Params: all})
}

// Postgres cuts the power of the machine that PostgreSQL runs on; the broker
// and umavez go on, and are killed too at some cuts. The error says that the
// campaign could not be played to its end; the result has what was wrong.
func Postgres(ctx context.Context, cfg Config) (*Result, error) {
	began := time.Now()
	c, err := begin(cfg, "PostgreSQL", pgDisk)
	if err != nil {
		return c.end(began, err)
	}
	return c.end(began, c.postgres(ctx))
}

func (c *campaign) postgres(ctx context.Context) (err error) {
	params := map[string]string{}
	if c.Liar {
		params["fsync"] = "" // see lie
	}
	pg, err := startPostgres(ctx, filepath.Join(c.Dir, "pg"), filepath.Join(c.mount.Dir, "data"), params)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.PowerOff(), pg.Stop()) }()
	c.disk.SyncAll() // whoever makes a cluster lets the disk come to rest
	for c.r.Cuts < c.Cuts {
		store := filepath.Join(c.Dir, fmt.Sprintf("nats-%d", c.r.Phases+1))
		p, err := c.newPhase(ctx, pg.URL(""), store, "")
		if err != nil {
			return err
		}
		err = c.cutPostgres(ctx, pg, p)
		p.close()
		if err != nil {
			return err
		}
		if c.Liar && !c.r.OK() {
			return nil // it was found out
		}
	}
	return nil
}

// lie turns fsync off in a server whose clients have already seen that it is
// on: umavez does not start on one that has it off.
func lie(ctx context.Context, db *postgres.DB) error {
	if _, err := db.Pool.Exec(ctx, "ALTER SYSTEM SET fsync = off"); err != nil {
		return err
	}
	_, err := db.Pool.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

// cutPostgres plays one load with its cuts.
func (c *campaign) cutPostgres(ctx context.Context, pg *localpg.Cluster, p *phase) error {
	db, err := open(ctx, p.url)
	if err != nil {
		return err
	}
	defer func() { db.Close() }()
	if c.Liar {
		if err := lie(ctx, db); err != nil {
			return err
		}
	}
	heard := 0
	for n := 0; n < c.PerPhase && c.r.Cuts < c.Cuts && p.load(ctx, heard, 600*time.Millisecond); n++ {
		before, err := look(ctx, db)
		if err != nil {
			return err
		}
		if !pause(ctx, time.Duration(c.rng.Int64N(int64(100*time.Millisecond)))) {
			return ctx.Err()
		}
		killToo := c.rng.IntN(5) == 0 && !c.Liar
		mode := c.mode()
		cut := fmt.Sprintf("cut %d (%s, %s)", c.r.Cuts+1, mode, p.name)
		loss := c.disk.Cut(mode, c.rng.Uint64())
		if err := pg.PowerOff(); err != nil {
			return err
		}
		if killToo {
			p.killRoles()
		}
		c.r.cut(loss)
		db.Close()
		back := time.Now()
		c.disk.Reopen()
		if err := pg.Restart(ctx); err != nil {
			c.r.fault("%s: PostgreSQL does not start again: %v", cut, err)
			return nil
		}
		c.r.restarts = append(c.r.restarts, time.Since(back))
		if err := p.restartRoles(); err != nil {
			return err
		}
		heard = p.heard.ok()
		if db, err = open(ctx, p.url); err != nil {
			return err
		}
		if c.Liar {
			c.Say("%s", loss)
		}
		if err := c.judge(ctx, db, p.heard, before, cut); err != nil {
			// What cannot be read after a cut is broken, not unlucky.
			c.r.fault("%v", err)
			if c.Liar {
				return nil
			}
			return err
		}
		c.Say("%s: %d of %d cuts, restart in %s, %d events promised, %d lost, %d faults (%s)", c.r.Name, c.r.Cuts, c.Cuts,
			time.Since(back).Round(time.Millisecond), len(p.heard.promises()), c.r.Lost, c.r.Faulty, loss)
	}
	if c.Liar && !c.r.OK() {
		return nil
	}
	if err := p.settle(ctx, db); err != nil {
		return err
	}
	return c.forget(ctx, db, p)
}
