package ingest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// crashingProcess is this test binary run again as an ingest of its own, which
// dies without a word at the given step.
func crashingProcess(at string) {
	db, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: os.Getenv("UMAVEZ_TEST_CRASH_DB"), MaxConns: 4})
	if err != nil {
		panic(err)
	}
	db.Hook = func(step string) error {
		if step == at {
			os.Exit(137) // as by kill -9: nothing deferred runs
		}
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	p := parts(db, &bell{})
	fmt.Println("http://" + l.Addr().String())
	if err := ingest.New(defaults(), p).Serve(context.Background(), l); err != nil {
		panic(err)
	}
}

func TestAProcessThatDiesBetweenAnyTwoStatementsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"insert_answered", "redeliveries_answered", "revivals_locked", "events_revived", "revival_committed"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.send(`{"id":"dead"}`)
			w.exec(`WITH gone AS (DELETE FROM event_work RETURNING event_id) INSERT INTO event_results (event_id, status, reason) SELECT event_id, 'dead', 'gave up' FROM gone`)

			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), "UMAVEZ_TEST_CRASH_AT="+step, "UMAVEZ_TEST_CRASH_DB="+postgrestest.URL(t))
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			url, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			const both = `[{"id":"fresh"},{"id":"dead"}]`
			if r, err := tryDo(client, signed(strings.TrimSpace(url), both)); err == nil {
				t.Fatalf("the process answered %d before it died", r.status)
			}
			if err := child.Wait(); child.ProcessState.ExitCode() != 137 {
				t.Fatalf("the process ended with %v", err)
			}

			w.send(both) // the gateway tries again, another pod answers
			if got := query[string](w, `SELECT string_agg(provider_event_id || ' ' || turn, ',' ORDER BY provider_event_id) FROM events JOIN event_work ON event_id = id`); got != "dead 2,fresh 1" {
				t.Errorf("work: %s", got)
			}
			if n := w.rows(); n != 2 {
				t.Errorf("%d rows, want 2", n)
			}
		})
	}
}
