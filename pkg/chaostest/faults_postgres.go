package chaostest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postgresFaults hit the one thing that everything depends on.
func (w *world) postgresFaults() []fault {
	whole := func(hit func(context.Context, *rand.Rand) (string, error)) []target {
		return []target{{[]string{"postgres"}, hit}}
	}
	all := []fault{
		{"postgres: killed whole", whole(w.postgresDies)},
		{"postgres: killed during a commit", []target{{[]string{"postgres", "points"}, w.postgresDiesInCommit}}},
		{"postgres: restarted", whole(func(ctx context.Context, r *rand.Rand) (string, error) { return "in order", w.restartPostgres(ctx) })},
		{"postgres: one backend killed", whole(w.backendDies)},
		{"postgres: every session terminated", whole(w.sessionsEnd)},
		{"postgres: a session stopped with its locks", whole(w.backendStops)},
		{"postgres: payments locked by a stranger", whole(w.strangerLocks)},
		{"postgres: deadlocks with a stranger", whole(w.strangerDeadlocks)},
	}
	if dir := w.disks["postgres"]; dir != "" {
		all = append(all, fault{"postgres: disk full", whole(func(ctx context.Context, r *rand.Rand) (string, error) {
			free, err := fill(dir)
			if err != nil {
				return "", err
			}
			d := last(ctx, r, 2*time.Second, 6*time.Second)
			free()
			return fmt.Sprintf("for %s", d), w.revivePostgres(ctx)
		})})
	}
	return all
}

// postmaster is the number of the server's first process.
func (w *world) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(w.pg.Dir(), "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(strings.TrimSpace(first))
}

// children are the processes of a parent.
func children(parent int) (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// "pid (name) state ppid": the name may hold anything but is last in ")".
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// killPostgres ends every process of the server at once.
func (w *world) killPostgres() error {
	pid, err := w.postmaster()
	if err != nil {
		return err
	}
	all := append([]int{pid}, children(pid)...)
	for _, p := range all {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	return nil
}

func (w *world) postgresDies(ctx context.Context, r *rand.Rand) (string, error) {
	if err := w.killPostgres(); err != nil {
		return "", err
	}
	d := last(ctx, r, 0, 2*time.Second)
	return fmt.Sprintf("down for %s", d), w.restartPostgres(ctx)
}

// postgresDiesInCommit waits until a processor is about to commit, and lets it
// send the commit as the server dies.
func (w *world) postgresDiesInCommit(ctx context.Context, r *rand.Rand) (string, error) {
	n := w.someNode(r, "processor")
	heal, err := n.arm(ctx, fmt.Sprintf("postgres.settle_committing=delay:%dms*1", 20+r.IntN(60)))
	if err != nil {
		return "", err
	}
	defer heal()
	if err := n.awaitFired(ctx, 5*time.Second); err != nil {
		return "", err
	}
	time.Sleep(time.Duration(r.IntN(90)) * time.Millisecond)
	return w.postgresDies(ctx, r)
}

// restartPostgres has the server back whatever became of it.
func (w *world) restartPostgres(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	var err error
	for range 20 {
		if err = w.pg.Restart(ctx); err == nil {
			return nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	return fmt.Errorf("PostgreSQL does not come back: %w", err)
}

// revivePostgres restarts the server if it has given up.
func (w *world) revivePostgres(ctx context.Context) error {
	for range 20 {
		pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		err := w.db.Ping(pctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-w.pg.Done():
			return w.restartPostgres(ctx)
		case <-time.After(250 * time.Millisecond):
		}
	}
	return w.restartPostgres(ctx)
}

// victims are the server's processes that serve roles under test.
func (w *world) victims(ctx context.Context) (pids []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	rows, err := w.db.Pool.Query(ctx, `
SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()
ORDER BY xact_start NULLS LAST`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, errors.New("nobody is connected")
	}
	return pids, rows.Err()
}

// backendDies kills one process of the server, upon which it ends all others
// and recovers.
func (w *world) backendDies(ctx context.Context, r *rand.Rand) (string, error) {
	pids, err := w.victims(ctx)
	if err != nil {
		return "", err
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		return "", err
	}
	return "recovered by itself", w.revivePostgres(ctx)
}

func (w *world) sessionsEnd(ctx context.Context, _ *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var n int
	err := w.db.Pool.QueryRow(ctx, `
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
	return fmt.Sprintf("%d of them", n), err
}

// backendStops stops one session wherever it is, in a transaction if any is.
func (w *world) backendStops(ctx context.Context, r *rand.Rand) (string, error) {
	pids, err := w.victims(ctx)
	if err != nil {
		return "", err
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		return "", err
	}
	defer syscall.Kill(pids[0], syscall.SIGCONT) //nolint:errcheck // it may be gone
	return fmt.Sprintf("for %s", last(ctx, r, time.Second, 6*time.Second)), nil
}

// strangerLocks holds the locks of the newest payments for longer than a lock
// may be waited for.
func (w *world) strangerLocks(ctx context.Context, r *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tx, err := w.db.Pool.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // the server may be gone
	if _, err := tx.Exec(ctx, `SELECT 1 FROM payments ORDER BY id DESC LIMIT 200 FOR UPDATE`); err != nil {
		return "", err
	}
	return fmt.Sprintf("for %s", last(ctx, r, time.Second, 4*time.Second)), nil
}

// strangerDeadlocks takes locks in the order opposite to everybody's, balances
// before payments, so that the server has to choose a victim.
func (w *world) strangerDeadlocks(ctx context.Context, r *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rounds := 0
	for range 8 {
		err := func() error {
			tx, err := w.db.Pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // the server may be gone
			if _, err := tx.Exec(ctx, `SELECT 1 FROM ledger_balances FOR UPDATE`); err != nil {
				return err
			}
			time.Sleep(time.Duration(50+r.IntN(200)) * time.Millisecond)
			// Who loses is the server's choice.
			_, _ = tx.Exec(ctx, `SELECT 1 FROM payments ORDER BY id DESC LIMIT 500 FOR UPDATE`)
			return nil
		}()
		if err != nil {
			break
		}
		rounds++
	}
	if rounds == 0 {
		return "", errors.New("no lock was taken")
	}
	return fmt.Sprintf("%d rounds", rounds), nil
}
