package ingest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ingest"
)

func TestCase_D11_AnswersAreExactlyThoseOfTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	post := func(path, signature, body string) *http.Request {
		req, _ := http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(body))
		if signature != "" {
			req.Header.Set(signatureHeader, signature)
		}
		return req
	}
	const text = "text/plain; charset=utf-8"
	good := `{"id":"evt_1"}`
	for _, c := range []struct {
		name         string
		req          *http.Request
		status       int
		body, ctype  string
		storedEvents int
	}{
		{"a new event", post("/webhooks/testpay", sign("secret", []byte(good)), good), 200, "ok", text, 1},
		{"a duplicate", post("/webhooks/testpay", sign("secret", []byte(good)), good), 200, "ok", text, 1},
		{"signed with the older secret", post("/webhooks/testpay", sign("old-secret", []byte(good)), good), 200, "ok", text, 1},
		{"the plain form by its account's name", post("/webhooks/testpay/default", sign("secret", []byte(good)), good), 200, "ok", text, 1},
		{"a trailing slash", post("/webhooks/testpay/", sign("secret", []byte(good)), good), 200, "ok", text, 1},
		{"an answer that the contract leaves open", post("/webhooks/testpay/loja2", sign("secret-2", []byte(good)), good), 200, "", text, 2},
		{"a success without a body", post("/webhooks/otherpay", sign("secret", []byte(good)), good), 204, "", "", 3},
		{"a wrong signature", post("/webhooks/testpay", sign("wrong", []byte(good)), good), 400, "signature", text, 3},
		{"no credentials", post("/webhooks/testpay", "", good), 400, "signature", text, 3},
		{"the secret of another account", post("/webhooks/testpay", sign("secret-2", []byte(good)), good), 400, "signature", text, 3},
		{"a wrong token", post("/webhooks/otherpay", "x", good), 401, "token", text, 3},
		{"an account without words of its own", post("/webhooks/testpay/loja2", "x", good), 401, "", text, 3},
		{"an authentic body that is not readable", post("/webhooks/testpay", sign("secret", []byte("<xml>")), "<xml>"), 200, "ok", text, 4},
		{"an authentic empty body", post("/webhooks/testpay", sign("secret", nil), ""), 400, "empty body\n", text, 4},
		{"an unknown gateway", post("/webhooks/nobody", sign("secret", []byte(good)), good), 404, "not found\n", text, 4},
		{"an unknown account", post("/webhooks/testpay/loja3", sign("secret", []byte(good)), good), 404, "not found\n", text, 4},
		{"a deeper path", post("/webhooks/testpay/default/x", sign("secret", []byte(good)), good), 404, "not found\n", text, 4},
		{"the health page, which is elsewhere", post("/healthz", "", ""), 404, "not found\n", text, 4},
		{"metrics, which are elsewhere", post("/metrics", "", ""), 404, "not found\n", text, 4},
		{"the root", post("/", "", ""), 404, "not found\n", text, 4},
		{"a path that is not clean", post("//webhooks/testpay", sign("secret", []byte(good)), good), 404, "not found\n", text, 4},
		{"a path that climbs", post("/webhooks/x/../testpay", sign("secret", []byte(good)), good), 404, "not found\n", text, 4},
		{"an escaped slash", post("/webhooks/testpay%2Fdefault", sign("secret", []byte(good)), good), 404, "not found\n", text, 4},
	} {
		r := w.do(c.req)
		if r.status != c.status || r.body != c.body || r.header.Get("Content-Type") != c.ctype {
			t.Errorf("%s: %d %q %q, want %d %q %q", c.name, r.status, r.body, r.header.Get("Content-Type"), c.status, c.body, c.ctype)
		}
		if n := w.rows(); n != c.storedEvents {
			t.Errorf("%s: %d events stored, want %d", c.name, n, c.storedEvents)
		}
	}
}

func TestOtherMethodsAreRefusedAndPostIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch, "BREW"} {
		req, _ := http.NewRequest(method, w.url+"/webhooks/testpay", nil)
		if r := w.do(req); r.status != 405 || r.header.Get("Allow") != "POST" {
			t.Errorf("%s: %d, Allow %q", method, r.status, r.header.Get("Allow"))
		}
	}
}

func TestEventsOfOneRequestAreStoredTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("TestCase_A13", func(t *testing.T) {
		w.send(`[{"id":"ev_T1"},{"id":"ev_T2"}]`)
		if n := w.rows(); n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
		w.send(`[]`)
		if got := query[string](w, `SELECT status || ' ' || reason FROM webhook_events ORDER BY id DESC LIMIT 1`); got != "ignored empty_data" {
			t.Errorf("an empty list is %s", got)
		}
	})
	t.Run("one that is known beside one that is new", func(t *testing.T) {
		w.send(`[{"id":"ev_T2"}, {"id":"ev_T3"},{"id":"ev_T3"}]`)
		if got := query[string](w, `SELECT string_agg(provider_event_id || deliveries, ',' ORDER BY id) FROM webhook_events WHERE provider_event_id IS NOT NULL`); got != "ev_T11,ev_T22,ev_T32" {
			t.Errorf("deliveries %s", got)
		}
		if got := query[string](w, `SELECT body FROM webhook_events WHERE provider_event_id = 'ev_T3'`); got != `{"id":"ev_T3"}` {
			t.Errorf("body of one event: %s", got)
		}
	})
	t.Run("too many are kept as one for a person", func(t *testing.T) {
		before := w.rows()
		w.send("[" + strings.Repeat(`{"id":"x"},`, 1000) + `{"id":"y"}]`)
		if n := w.rows(); n != before+1 {
			t.Errorf("%d rows more, want 1", n-before)
		}
		if got := query[string](w, `SELECT status || ' ' || reason FROM webhook_events ORDER BY id DESC LIMIT 1`); got != "quarantined too_many_events_in_one_request" {
			t.Errorf("stored as %s", got)
		}
	})
}

func TestTestEventsInProductionAreIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(`{"id":"evt_t","test":true}`)
	if got := query[string](w, `SELECT status || ' ' || reason || ' ' || test FROM webhook_events`); got != "ignored test_event true" {
		t.Errorf("stored as %s", got)
	}
	if n := len(w.bell.rung()); n != 0 {
		t.Errorf("published %d times", n)
	}
}

func TestWhatTheDatabaseCannotHoldIsKeptForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("é", 5000)
	for i, text := range []string{
		`{"id":"1","payment":"a\u0000b"}`,
		`{"id":"2","payment":"` + long + `"}`,
		`{"id":"3","key":"k\u0000` + long + `"}`,
		`{"id":"4","type":"t\u0000` + long + `"}`,
		`{"id":"5\u0000` + long + `"}`,
	} {
		w.send(text)
		w.send(text)
		if n := w.rows(); n != i+1 {
			t.Errorf("%d rows after %.20s, want %d", n, text, i+1)
		}
	}
	if n := query[int](w, `SELECT count(*) FROM webhook_events WHERE status = 'quarantined' AND reason = 'payment_reference_unusable' AND payment_ref IS NULL`); n != 2 {
		t.Errorf("%d events with an unusable reference, want 2", n)
	}
}

func TestCase_D7_NULAndHalfSurrogatesAreStoredAsTheyCame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{
		`{"id":"1","name":"A\u0000B"}`, `{"id":"2","name":"\ud83d"}`, "{\"id\":\"3\",\"name\":\"\x00\xff\"}", "\x00", "\xed\xa0\xbd",
	} {
		w.send(text)
		got := query[[]byte](w, `SELECT body FROM event_bodies ORDER BY event_id DESC LIMIT 1`)
		if string(got) != text {
			t.Errorf("stored %q, want %q", got, text)
		}
	}
	if n := query[int](w, `SELECT count(body) FROM webhook_events`); n != 5 {
		t.Errorf("%d bodies shown by the view, want 5", n)
	}
}

func TestRefusedCredentialsAreCountedAndListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.do(signed(w.url, "x")) // fine, to see that only the others count
		req := signed(w.url, "0123456789")
		req.Header.Set(signatureHeader, "wrong")
		w.do(req)
	}
	old := signed(w.url, "x")
	old.Header.Set(signatureHeader, "old")
	w.do(old)
	for name, want := range map[string]float64{
		`rejected_total{provider="testpay",reason="digest_differs"}`:      3,
		`rejected_total{provider="testpay",reason="timestamp_too_old"}`:   1,
		`clock_skew_total{provider="testpay",reason="timestamp_too_old"}`: 1,
		`clock_skew_total{provider="testpay",reason="digest_differs"}`:    0,
	} {
		if got := w.metric(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	w.Close() // writes what is left
	const list = `SELECT string_agg(concat_ws(' ', provider, account, reason, detail), '; ' ORDER BY reason, slot) FROM rejected_deliveries`
	if got := query[string](w, list); !strings.Contains(got, "testpay default digest_differs") || !strings.Contains(got, "testpay default timestamp_too_old 1 request, a body of 1 bytes") {
		t.Errorf("list: %s", got)
	}
	if n := w.rows(); n != 1 {
		t.Errorf("%d events, want the good one", n)
	}
}

func TestForgersCostNoStatement(t *testing.T) {
	t.Parallel()
	recorded := make(chan int, 100)
	w := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) {
		p.RecordRejections = func(_ context.Context, list []ingest.Rejection) error {
			recorded <- len(list)
			return nil
		}
	})
	for range 500 {
		rec := httptest.NewRecorder()
		req := signed("http://x", "x")
		req.Header.Set(signatureHeader, "wrong")
		w.ServeHTTP(rec, req)
		if rec.Code != 400 {
			t.Fatalf("answer %d", rec.Code)
		}
	}
	w.Close()
	close(recorded)
	writes := 0
	for n := range recorded {
		writes++
		if n != 1 {
			t.Errorf("%d groups in one write, want 1", n)
		}
	}
	if writes == 0 || writes > 5 {
		t.Errorf("%d writes for 500 refused requests", writes)
	}
}

func TestCase_A9_OddHeadersAreRefusedAsTheContractSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, value := range map[string]string{
		"not ASCII": "v1=\xe9\xa9", "64 KB": strings.Repeat("a", 64<<10), "a list": strings.Repeat("v1=aa,", 5000),
	} {
		req := signed(w.url, `{"id":"1"}`)
		req.Header[signatureHeader] = []string{value}
		if r := w.do(req); r.status != 400 || r.body != "signature" {
			t.Errorf("%s: %d %q", name, r.status, r.body)
		}
	}
	if got := w.metric(`rejected_total{provider="testpay",reason="digest_differs"}`); got != 3 {
		t.Errorf("counted %v times, want 3", got)
	}
	if got := w.metric(`requests_total{class="5xx",provider="testpay"}`); got != 0 {
		t.Errorf("%v answers 5xx", got)
	}
}

func TestAPanicIsOneAnswerAndNotTheEnd(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	w := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) { p.Log = zap.New(core) })
	req := signed(w.url, "x")
	req.Header.Set(signatureHeader, "panic")
	if r := w.do(req); r.status != 500 || r.body != "internal error\n" {
		t.Errorf("answer %d %q", r.status, r.body)
	}
	if got := w.metric(`panics_total{where="handler"}`); got != 1 {
		t.Errorf("counted %v times", got)
	}
	w.send(`panic in the parser`)
	if got := query[string](w, `SELECT status || ' ' || reason || ' ' || body FROM webhook_events`); got != "quarantined parser_failed panic in the parser" {
		t.Errorf("an authentic request that the parser cannot bear is %s", got)
	}
	w.send(`{"id":"after"}`)
	if n := logs.FilterMessage("ingest.panic").Len(); n != 2 {
		t.Errorf("%d lines about panics, want 2", n)
	}
}

func TestLogsAndAnswersShowNothingOfARequest(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	w := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) { p.Log = zap.New(core) })
	const canary = "CANARY-4821"
	replies := []reply{
		w.do(signed(w.url, `{"id":"1","name":"`+canary+`"}`)),
		w.do(signed(w.url, canary)),
		w.do(signed(w.url+"/"+canary, canary)),
	}
	wrong := signed(w.url, canary)
	wrong.Header.Set(signatureHeader, canary)
	replies = append(replies, w.do(wrong))
	for _, r := range replies {
		if strings.Contains(r.body, canary) {
			t.Errorf("an answer says %q", r.body)
		}
	}
	for _, e := range logs.All() {
		if text := e.Message; strings.Contains(text, canary) {
			t.Errorf("logged %q", text)
		}
		for k, v := range e.ContextMap() {
			if s, ok := v.(string); ok && strings.Contains(s, canary) {
				t.Errorf("logged %s: %s=%q", e.Message, k, s)
			}
		}
	}
	if logs.Len() == 0 {
		t.Error("nothing was logged, so nothing was checked")
	}
}

func TestOnlyWhatIsNewWorkIsPublishedAfterItsCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(`{"id":"1","payment":"pay_1"}`)
	w.send(`{"id":"1","payment":"pay_1"}`)
	w.send(`not readable`)
	id := query[int64](w, `SELECT id FROM events WHERE payment_ref = 'pay_1'`)
	eventually(t, "one notice", func() bool { return len(w.bell.rung()) == 1 })
	if got, want := w.bell.rung()[0], (event.Notice{ID: id, Provider: "testpay", Account: "default", PaymentRef: "pay_1"}); got != want {
		t.Errorf("published %+v, want %+v", got, want)
	}
	w.bell.mu.Lock()
	w.bell.deaf = true
	w.bell.mu.Unlock()
	started := time.Now()
	w.send(`{"id":"2"}`)
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("the answer waited %s for a publisher that takes nothing", took)
	}
	eventually(t, "a refused notice is counted", func() bool { return w.metric("notices_refused_total") == 1 })
	if got := query[string](w, `SELECT state FROM event_work JOIN events ON id = event_id WHERE provider_event_id = '2'`); got != "pending" {
		t.Errorf("left to the sweeper as %s", got)
	}
}
