package gatewaysim_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// ingest is a receiver that checks credentials by itself and
// keeps the hashes of what it accepted.
type ingest struct {
	mu     sync.Mutex
	bodies map[string]int
	paths  []string
	before func(w http.ResponseWriter, n int) bool // answers itself, if true
	n      int
}

func (in *ingest) handler(s *gatewaysim.Sim) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.mu.Lock()
		in.n++
		n := in.n
		in.mu.Unlock()
		if in.before != nil && in.before(w, n) {
			return
		}
		if status := credentials(s, r, body); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		sum := sha256.Sum256(body)
		in.mu.Lock()
		if in.bodies == nil {
			in.bodies = map[string]int{}
		}
		in.bodies[hex.EncodeToString(sum[:])]++
		in.paths = append(in.paths, r.URL.Path)
		in.mu.Unlock()
	})
}

func run(t *testing.T, s *gatewaysim.Sim, in *ingest, cfg gatewaysim.RunConfig) gatewaysim.Report {
	t.Helper()
	srv := httptest.NewServer(in.handler(s))
	defer srv.Close()
	cfg.BaseURL = func(string, string) string { return srv.URL + "/" }
	report, err := s.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestARunSendsTheScheduleAndTellsWhatWasAccepted(t *testing.T) {
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 300, Gateways: threeAndASecond, Shares: gatewaysim.DefaultShares()})
	in := &ingest{}
	var last, calls atomic.Int64
	report := run(t, s, in, gatewaysim.RunConfig{Progress: func(done, total int) {
		calls.Add(1)
		if done == total {
			last.Store(int64(done))
		}
	}})
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n := report.ByKind
	authentic := report.Scheduled - n[gatewaysim.DeliveryForged] - n[gatewaysim.DeliveryLost]
	if report.Acknowledged != authentic || report.GivenUp != 0 || report.Retries != 0 ||
		report.Refused != n[gatewaysim.DeliveryForged] || report.ForgedAccepted+report.ForgedOdd != 0 {
		t.Errorf("%d authentic, %d forged: %+v", authentic, n[gatewaysim.DeliveryForged], report)
	}
	if report.Requests != report.Scheduled-n[gatewaysim.DeliveryLost] || report.Answers["200"] != authentic {
		t.Errorf("requests %d, answers %v", report.Requests, report.Answers)
	}
	if int(last.Load()) != report.Scheduled || int(calls.Load()) != report.Scheduled {
		t.Errorf("progress came to %d in %d calls, want %d", last.Load(), calls.Load(), report.Scheduled)
	}
	if report.EventsPerSecond <= 0 || report.Latency.P50 <= 0 || report.Latency.Max < report.Latency.P99 {
		t.Errorf("measured %+v, %v/s", report.Latency, report.EventsPerSecond)
	}
	if len(report.Accepted) != authentic {
		t.Fatalf("%d accepted, want %d", len(report.Accepted), authentic)
	}
	for _, a := range report.Accepted {
		if in.bodies[a.BodySHA256]--; in.bodies[a.BodySHA256] < 0 {
			t.Errorf("%s was not received as often as it was accepted", a.EventType)
		}
	}
	for _, path := range []string{"/webhooks/stripe", "/webhooks/asaas", "/webhooks/pagpolar", "/webhooks/stripe/loja2"} {
		if !slices.Contains(in.paths, path) {
			t.Errorf("nothing was sent to %s", path)
		}
	}
	var back gatewaysim.Report
	if b, err := json.Marshal(report); err != nil || json.Unmarshal(b, &back) != nil || back.Acknowledged != authentic {
		t.Errorf("the report does not survive JSON: %v", err)
	}
}

func TestARefusedDeliveryIsTriedAgainAsAGatewayWould(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 100, Shares: gatewaysim.Shares{Duplicates: .2, Concurrent: .5}})
	in := &ingest{before: func(w http.ResponseWriter, n int) bool {
		switch {
		case n%5 == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n%7 == 0:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			return false
		}
		return true
	}}
	var mu sync.Mutex
	tries := map[int][]gatewaysim.Answer{}
	report := run(t, s, in, gatewaysim.RunConfig{OnAnswer: func(a gatewaysim.Answer) {
		mu.Lock()
		defer mu.Unlock()
		tries[a.Delivery.Seq] = append(tries[a.Delivery.Seq], a)
	}})
	if report.GivenUp != 0 || report.Acknowledged != report.Scheduled || report.Retries == 0 {
		t.Errorf("%+v", report)
	}
	for _, a := range report.Accepted { // only PagPolar's bodies differ from one attempt to the next
		tried := 0
		for _, others := range tries {
			if d := others[0].Delivery; d.Payment == a.Payment && d.Identity == a.Identity {
				tried = max(tried, len(others))
			}
		}
		if n := len(a.EarlierSHA256); a.Gateway != "pagpolar" && n > 0 || n >= max(tried, 1) || slices.Contains(a.EarlierSHA256, a.BodySHA256) {
			t.Errorf("%s %s: %d earlier bodies in %d attempts", a.Gateway, a.EventType, n, tried)
		}
	}
	if report.Answers["503"] == 0 || report.Answers["no answer"] == 0 {
		t.Errorf("answers %v", report.Answers)
	}
	for seq, as := range tries {
		for i, a := range as {
			if a.Try != i {
				t.Errorf("delivery %d: attempt %d is number %d", seq, i, a.Try)
			}
			if ok := a.Err == nil && a.Status == 200; ok != (i == len(as)-1) {
				t.Errorf("delivery %d: attempt %d of %d has status %d", seq, i+1, len(as), a.Status)
			}
		}
	}
}

func TestADeliveryIsGivenUpAtItsLimitAndAForgedOneIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 10, Shares: gatewaysim.Shares{WrongSignatures: .2}})
	in := &ingest{before: func(w http.ResponseWriter, _ int) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}}
	report := run(t, s, in, gatewaysim.RunConfig{RetryFor: 2 * time.Second})
	forged := report.ByKind[gatewaysim.DeliveryForged]
	authentic := report.Scheduled - forged
	if report.GivenUp != authentic || report.ForgedOdd != forged || report.Acknowledged != 0 || len(report.Accepted) != 0 {
		t.Errorf("%+v", report)
	}
	// 50, 100, 200, 400 and 800 ms fit into 2 s, 1600 more do not.
	if report.Retries > 5*authentic || report.Retries < authentic {
		t.Errorf("%d retries of %d deliveries", report.Retries, authentic)
	}
}

func TestOnlyTheGatewaysOwnSuccessCounts(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 60})
	in := &ingest{before: func(w http.ResponseWriter, _ int) bool {
		w.WriteHeader(http.StatusNoContent)
		return true
	}}
	report := run(t, s, in, gatewaysim.RunConfig{RetryFor: time.Millisecond})
	for _, a := range report.Accepted {
		if a.Gateway != "stripe" {
			t.Fatalf("%s took a 204 for success", a.Gateway)
		}
	}
	if report.Acknowledged == 0 || report.GivenUp == 0 {
		t.Errorf("%+v", report)
	}
}

func TestAForgedRequestThatIsAcceptedIsReported(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 30, Shares: gatewaysim.Shares{WrongSignatures: .3}})
	in := &ingest{before: func(http.ResponseWriter, int) bool { return true }} // takes everything
	if report := run(t, s, in, gatewaysim.RunConfig{}); report.ForgedAccepted != report.ByKind[gatewaysim.DeliveryForged] {
		t.Errorf("%+v", report)
	}
}

func TestARunKeepsTheOrderOfAPaymentAndPublishesBeforeItSends(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 200, Order: gatewaysim.OrderKeep})
	var mu sync.Mutex
	last := map[int]int{}
	report := run(t, s, &ingest{}, gatewaysim.RunConfig{OnAnswer: func(a gatewaysim.Answer) {
		mu.Lock()
		defer mu.Unlock()
		if a.Delivery.Step < last[a.Delivery.Payment] {
			t.Errorf("payment %d: step %d after step %d", a.Delivery.Payment, a.Delivery.Step, last[a.Delivery.Payment])
		}
		last[a.Delivery.Payment] = a.Delivery.Step
	}})
	if report.Acknowledged != report.Scheduled {
		t.Errorf("%+v", report)
	}
}

func TestARunObeysItsRateAndItsContext(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 40})
	begin := time.Now()
	report := run(t, s, &ingest{}, gatewaysim.RunConfig{Rate: 400})
	if least := time.Duration(report.Scheduled-25) * time.Second / 400; time.Since(begin) < least {
		t.Errorf("%d deliveries at 400 a second took %s, want at least %s", report.Scheduled, time.Since(begin), least)
	}
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	defer srv.Close()
	_, err := s.Run(ctx, gatewaysim.RunConfig{BaseURL: func(string, string) string { return srv.URL }, Rate: 50})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled run ends with %v", err)
	}
}

func credentials(s *gatewaysim.Sim, r *http.Request, body []byte) int {
	c, ok := s.Credentials(r.URL.Path[len("/webhooks/"):])
	if !ok {
		return http.StatusNotFound
	}
	switch {
	case r.Header.Get("asaas-access-token") == c.WebhookSecrets[0], r.Header.Get("Authorization") == "Bearer "+c.WebhookSecrets[0]:
		return http.StatusOK
	case r.URL.Path == "/webhooks/asaas" || r.URL.Path == "/webhooks/pagpolar":
		return http.StatusUnauthorized
	}
	return stripeStatus(c.WebhookSecrets[0], r.Header.Get("Stripe-Signature"), body)
}
