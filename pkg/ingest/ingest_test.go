package ingest_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

func TestMain(m *testing.M) {
	if at := os.Getenv("UMAVEZ_TEST_CRASH_AT"); at != "" {
		crashingProcess(at)
		return
	}
	code := m.Run()
	postgrestest.Close()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// testpay is a gateway for these tests: an HMAC of the body in X-Signature,
// one JSON object or an array of them.
type testpay struct {
	secrets []string
	traits  provider.Traits
}

const signatureHeader = "X-Signature"

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (p *testpay) Verify(r provider.Request) (string, provider.Reason) {
	given := r.Header.Get(signatureHeader)
	switch given {
	case "":
		return "", provider.ReasonMissing
	case "panic":
		panic("verify")
	case "old":
		return "", provider.ReasonTooOld
	}
	for i, s := range p.secrets {
		if hmac.Equal([]byte(given), []byte(sign(s, r.Body))) {
			return fmt.Sprint(i + 1), provider.ReasonNone
		}
	}
	return "", provider.ReasonMismatch
}

type testMessage struct {
	ID, Key, Type, Payment string
	Test, Reopen           bool
}

func (p *testpay) Parse(r provider.Request) []provider.Message {
	if bytes.Contains(r.Body, []byte("panic in the parser")) {
		panic("parse")
	}
	var parts []json.RawMessage
	switch err := json.Unmarshal(r.Body, &parts); {
	case bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("[")) && err == nil:
		if len(parts) == 0 {
			return []provider.Message{{DedupeKey: event.Key("empty", string(r.Body)), Disposition: provider.Ignore, Reason: provider.ReasonEmptyData}}
		}
	default:
		parts = []json.RawMessage{r.Body}
	}
	var messages []provider.Message
	for _, part := range parts {
		var m testMessage
		if err := json.Unmarshal(part, &m); err != nil || m.ID == "" {
			sum := sha256.Sum256(part)
			messages = append(messages, provider.Message{DedupeKey: event.Key("body", hex.EncodeToString(sum[:])), Body: part,
				Disposition: provider.Quarantine, Reason: provider.ReasonUnreadable})
			continue
		}
		out := provider.Message{DedupeKey: event.Key("evt", m.ID), ProviderEventID: m.ID, Type: m.Type, PaymentRef: m.Payment,
			Test: m.Test, Reopen: m.Reopen, Body: part, Disposition: provider.Process}
		if m.Key != "" {
			out.DedupeKey = m.Key
		}
		if m.Test {
			out.Disposition, out.Reason = provider.Ignore, provider.ReasonTestEvent
		}
		messages = append(messages, out)
	}
	return messages
}

func (p *testpay) Facts(*event.Event) ([]payment.Claim, error) { return nil, nil }

func (p *testpay) Lookup(context.Context, *http.Client, string) (payment.Claim, error) {
	return payment.Claim{}, errors.New("testpay has no lookups")
}

func (p *testpay) Traits() provider.Traits {
	t := p.traits
	t.SignedHeaders = []string{"x-signature"}
	return t
}

// sources has testpay, a second account of it, and otherpay, whose answers
// are unusual.
type sources map[string]*testpay

func (s sources) Lookup(name, account string) (provider.Provider, provider.Source, bool) {
	p, ok := s[name+"/"+account]
	return p, provider.Source{Provider: name, Account: account}, ok
}

var testSources = sources{
	"testpay/default": {secrets: []string{"old-secret", "secret"}, traits: provider.Traits{
		Success: provider.Answer{Status: 200, Body: "ok"}, Unauthorized: provider.Answer{Status: 400, Body: "signature"}}},
	"testpay/loja2": {secrets: []string{"secret-2"}},
	"otherpay/default": {secrets: []string{"secret"}, traits: provider.Traits{
		Success: provider.Answer{Status: 204}, Unauthorized: provider.Answer{Status: 401, Body: "token"}}},
}

// bell records what is published.
type bell struct {
	mu      sync.Mutex
	notices []event.Notice
	deaf    bool
}

func (b *bell) Offer(n event.Notice) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deaf {
		return false
	}
	b.notices = append(b.notices, n)
	return true
}

func (b *bell) rung() []event.Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]event.Notice(nil), b.notices...)
}

func defaults() ingest.Config {
	return ingest.Config{
		Addr: "127.0.0.1:0", BodyLimit: 1 << 20, HeaderLimit: 128 << 10,
		HeaderTimeout: 5 * time.Second, BodyTimeout: 3 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		RequestDeadline: 5 * time.Second, CommitTimeout: 4500 * time.Millisecond, RetryAfter: 2 * time.Second, DrainTimeout: 15 * time.Second,
		BatchRows: 256, BatchBytes: 4 << 20, Flushers: 2, QueueRequests: 4096, QueueWait: time.Second, AdmitWait: 500 * time.Millisecond, QueueBytes: 64 << 20, LargeBytes: 64 << 20,
		MaxRequests: 8192, EventsPerRequest: 1000,
	}
}

// world is one ingest over HTTP on a database of its own.
type world struct {
	*ingest.Ingest
	t      testing.TB
	db     *postgres.DB
	bell   *bell
	url    string
	server *httptest.Server
	client *http.Client
	reg    *prometheus.Registry
}

type option func(*ingest.Config, *ingest.Parts)

func parts(db *postgres.DB, b *bell) ingest.Parts {
	return ingest.Parts{
		Sources: testSources, Store: db, Publisher: b,
		Refused: func(err error) bool { return errors.Is(err, postgres.ErrRefusedRow) },
		RecordRejections: func(ctx context.Context, list []ingest.Rejection) error {
			var rows []postgres.Rejection
			for _, r := range list {
				rows = append(rows, postgres.Rejection(r))
			}
			return db.RecordRejections(ctx, rows)
		},
	}
}

func newWorld(t testing.TB, options ...option) *world {
	return worldOn(t, postgrestest.New(t), options...)
}

func worldOn(t testing.TB, db *postgres.DB, options ...option) *world {
	t.Helper()
	w := &world{t: t, db: db, bell: &bell{}, reg: prometheus.NewRegistry()}
	c, p := defaults(), parts(db, w.bell)
	p.Metrics = w.reg
	for _, o := range options {
		o(&c, &p)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	w.Ingest = ingest.New(c, p)
	w.Start()
	w.server = httptest.NewUnstartedServer(w.Ingest)
	w.server.Config = w.Server()
	w.server.Start()
	w.url = w.server.URL
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 300}, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		w.server.Close()
		w.Close()
	})
	return w
}

// signed is a request for testpay with the right signature.
func signed(url, text string) *http.Request {
	req, err := http.NewRequest(http.MethodPost, url+"/webhooks/testpay", strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	req.Header.Set(signatureHeader, sign("secret", []byte(text)))
	return req
}

type reply struct {
	status int
	body   string
	header http.Header
}

func (w *world) do(req *http.Request) reply {
	w.t.Helper()
	r, err := tryDo(w.client, req)
	if err != nil {
		w.t.Error(err)
	}
	return r
}

func tryDo(client *http.Client, req *http.Request) (reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(b), resp.Header}, err
}

// send posts a signed body and expects the gateway's success answer.
func (w *world) send(text string) {
	w.t.Helper()
	if r := w.do(signed(w.url, text)); r.status != 200 || r.body != "ok" {
		w.t.Errorf("answer %d %q to %.80s", r.status, r.body, text)
	}
}

func query[T any](w *world, sql string, args ...any) (v T) {
	w.t.Helper()
	if err := w.db.Pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) rows() int { return query[int](w, `SELECT count(*) FROM events`) }

// metric is the value of a counter or gauge, its labels written as {a="b"}.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			full := f.GetName()
			if len(labels) > 0 {
				full += "{" + strings.Join(labels, ",") + "}"
			}
			if full == "umavez_ingest_"+name {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// eventually polls, since what it waits for happens after the answer.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(`{"id":"evt_1"}`)
	w.do(signed(w.url+"/nowhere", "x"))
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	for name, want := range map[string]float64{
		`requests_total{class="2xx",provider="testpay"}`: 1,
		`requests_total{class="4xx",provider="none"}`:    1,
		`events_total{outcome="new",provider="testpay"}`: 1,
		`batch_events`:   1,
		`commit_seconds`: 1,
	} {
		eventually(t, name, func() bool { return w.metric(name) == want })
	}
}
