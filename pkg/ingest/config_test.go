package ingest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kelseyhightower/envconfig"

	"github.com/umavez/umavez/pkg/ingest"
)

func TestTheDefaultsAreThoseOfTheTestsAndValid(t *testing.T) {
	var c ingest.Config
	if err := envconfig.Process("", &c); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Addr, want.IdleTimeout = ":8080", 2*time.Minute
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("defaults (-tests +environment):\n%s", diff)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if err := c.ValidateDatabase(4*time.Second, 4); err != nil {
		t.Error(err)
	}
}

func TestAllFaultsOfTheSettingsAreReportedAtOnceByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ingest.Config)
		want   []string
	}{
		"everything is zero": {func(c *ingest.Config) { *c = ingest.Config{} }, []string{
			"INGEST_ADDR", "INGEST_BODY_LIMIT", "INGEST_HEADER_LIMIT", "INGEST_HEADER_TIMEOUT", "INGEST_BODY_TIMEOUT",
			"INGEST_WRITE_TIMEOUT", "INGEST_IDLE_TIMEOUT", "INGEST_REQUEST_DEADLINE", "INGEST_COMMIT_TIMEOUT", "INGEST_RETRY_AFTER",
			"INGEST_DRAIN_TIMEOUT", "INGEST_BATCH_ROWS", "INGEST_BATCH_BYTES", "INGEST_FLUSHERS", "INGEST_QUEUE_REQUESTS", "INGEST_QUEUE_WAIT",
			"INGEST_MAX_REQUESTS", "INGEST_EVENTS_PER_REQUEST"}},
		"a deadline after the gateway's": {func(c *ingest.Config) { c.RequestDeadline, c.WriteTimeout = 11*time.Second, 12*time.Second },
			[]string{"INGEST_REQUEST_DEADLINE (11s) must be below the gateways' own time-out (10s)"}},
		"a commit that outlives its requests": {func(c *ingest.Config) { c.CommitTimeout = 6 * time.Second },
			[]string{"INGEST_COMMIT_TIMEOUT (6s) must be below INGEST_REQUEST_DEADLINE (5s)"}},
		"a 503 that could not be written": {func(c *ingest.Config) { c.WriteTimeout = 4 * time.Second }, []string{"INGEST_WRITE_TIMEOUT"}},
		"a body that takes all the time":  {func(c *ingest.Config) { c.BodyTimeout = 5 * time.Second }, []string{"INGEST_BODY_TIMEOUT"}},
		"a wait at the door and a body that take all the time": {func(c *ingest.Config) { c.AdmitWait = 2 * time.Second },
			[]string{"INGEST_ADMIT_WAIT (2s) and INGEST_BODY_TIMEOUT (3s)"}},
		"a wait below zero":             {func(c *ingest.Config) { c.AdmitWait = -time.Second }, []string{"INGEST_ADMIT_WAIT is -1s"}},
		"a queue smaller than one body": {func(c *ingest.Config) { c.QueueBytes = 1000 }, []string{"INGEST_QUEUE_BYTES"}},
		"memory smaller than one body":  {func(c *ingest.Config) { c.LargeBytes = 1 << 20 }, []string{"INGEST_LARGE_BYTES"}},
		"a batch beyond sense":          {func(c *ingest.Config) { c.BatchRows = 100000 }, []string{"INGEST_BATCH_ROWS"}},
		"a stop without time":           {func(c *ingest.Config) { c.DrainTimeout = time.Second }, []string{"INGEST_DRAIN_TIMEOUT"}},
	} {
		config := defaults()
		c.change(&config)
		err := config.Validate()
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not reported in\n%v", name, w, err)
			}
		}
	}
}

func TestTheDatabasesTimersAndConnectionsMustFit(t *testing.T) {
	c := defaults()
	for name, err := range map[string]error{
		"DATABASE_STATEMENT_TIMEOUT (4.5s) must be below INGEST_COMMIT_TIMEOUT (4.5s)": c.ValidateDatabase(4500*time.Millisecond, 4),
		"DATABASE_STATEMENT_TIMEOUT must be above zero":                                c.ValidateDatabase(0, 4),
		"INGEST_FLUSHERS (2) must not be above DATABASE_MAX_CONNS (1)":                 c.ValidateDatabase(4*time.Second, 1),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
