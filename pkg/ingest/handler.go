package ingest

import (
	"errors"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/provider"
)

// The answers that no contract of a gateway overrides. They are constant: an
// answer tells a stranger nothing of what is inside.
var (
	answerNotFound  = provider.Answer{Status: http.StatusNotFound, Body: "not found\n"}
	answerMethod    = provider.Answer{Status: http.StatusMethodNotAllowed, Body: "method not allowed\n"}
	answerForbidden = provider.Answer{Status: http.StatusForbidden, Body: "forbidden\n"}
	answerTooLarge  = provider.Answer{Status: http.StatusRequestEntityTooLarge, Body: "body too large\n"}
	answerTooSlow   = provider.Answer{Status: http.StatusRequestTimeout, Body: "request too slow\n"}
	answerEmpty     = provider.Answer{Status: http.StatusBadRequest, Body: "empty body\n"}
	answerMalformed = provider.Answer{Status: http.StatusBadRequest, Body: "malformed request\n"}
	answerEncoding  = provider.Answer{Status: http.StatusUnsupportedMediaType, Body: "unsupported content encoding\n"}
	answerLater     = provider.Answer{Status: http.StatusServiceUnavailable, Body: "try again later\n"}
	answerPanic     = provider.Answer{Status: http.StatusInternalServerError, Body: "internal error\n"}
)

// nobody is the provider label of requests for no configured source.
const nobody = "none"

const prefix = "/webhooks/"

func (in *Ingest) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range []string{prefix + "{provider}", prefix + "{provider}/{rest...}"} {
		mux.HandleFunc(pattern, in.receive)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { in.notFound(w) })
	return mux
}

// ServeHTTP implements http.Handler for the public listener.
func (in *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // by contract this very value
			panic(p)
		}
		in.metrics.panics.WithLabelValues("handler").Inc()
		in.log.Error("ingest.panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		in.answer(w, nobody, answerPanic)
	}()
	// ServeMux would answer an unclean path with a redirect, which gateways
	// take for a failure or follow with a GET.
	if p := r.URL.Path; !strings.HasPrefix(p, prefix) || path.Clean(p) != strings.TrimSuffix(p, "/") {
		in.notFound(w)
		return
	}
	in.mux.ServeHTTP(w, r)
}

// receive handles one request for a webhook address.
func (in *Ingest) receive(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	src, rest, ok := in.source(r)
	if !ok {
		in.notFound(w)
		return
	}
	if r.Method != http.MethodPost {
		leaveUnread(w)
		w.Header().Set("Allow", http.MethodPost)
		in.answer(w, src.name, answerMethod)
		return
	}
	defer in.inHand.Add(-1)
	if in.inHand.Add(1) > int64(in.config.MaxRequests) {
		leaveUnread(w)
		in.overflow(w, src, "requests")
		return
	}
	// Before the body is read and verified, which is most of the work.
	if full := in.committer.admit(); full != "" {
		leaveUnread(w)
		in.overflow(w, src, full)
		return
	}
	admitted := time.Now()
	peer, clientVerified := in.senders.of(r)
	if len(src.allowed) > 0 && !provider.Contains(src.allowed, peer) {
		leaveUnread(w)
		in.refuse(w, src, provider.Request{}, 0, provider.ReasonAddress)
		return
	}
	l := loan{from: &in.large}
	defer l.giveBack()
	req, sent, err := in.read(w, r, admitted, &l)
	if err != nil {
		in.refuseBody(w, src, err)
		return
	}
	if err := failpoint.At(r.Context(), "ingest.body_read"); err != nil {
		in.refuseBody(w, src, errTruncated)
		return
	}
	req.Path, req.Peer, req.ClientVerified = rest, peer, clientVerified
	secret, reason := verify(src, req, sent)
	if reason != provider.ReasonNone {
		in.refuse(w, src, req, len(sent), reason)
		return
	}
	if err := failpoint.At(r.Context(), "ingest.authentic"); err != nil {
		in.later(w, src)
		return
	}
	if len(sent) == 0 && !src.Traits().EmptyBodies {
		// No gateway sends an event without a body: something on the way lost
		// it. Success would lose the event; a refusal brings it again.
		w.Header().Set("Connection", "close")
		in.metrics.rejected.WithLabelValues(src.name, "empty_body").Inc()
		in.log.Warn("webhook.empty", zap.String("provider", src.name), zap.String("account", src.account))
		in.answer(w, src.name, answerEmpty)
		return
	}
	arrivals, failed := arrivalsOf(src, req, secret, in.config.EventsPerRequest)
	if failed != nil {
		in.metrics.panics.WithLabelValues("parser").Inc()
		in.log.Error("ingest.panic", zap.String("provider", src.name), zap.Any("panic", failed))
	}
	if err := failpoint.At(r.Context(), "ingest.parsed"); err != nil {
		in.later(w, src)
		return
	}
	in.store(w, r, src, newUnit(arrivals), started)
}

func (in *Ingest) notFound(w http.ResponseWriter) {
	leaveUnread(w)
	in.answer(w, nobody, answerNotFound)
}

// source finds the account that an address is for, and what follows it.
// /webhooks/<provider>/<x> is the account x where there is one; else, for a
// gateway that has something of its own in the address, x is that, and the
// account the plain one.
func (in *Ingest) source(r *http.Request) (src source, rest string, ok bool) {
	name, path := r.PathValue("provider"), strings.TrimSuffix(r.PathValue("rest"), "/")
	account, rest, _ := strings.Cut(path, "/")
	if account == "" {
		account = provider.DefaultAccount
	}
	p, s, ok := in.parts.Sources.Lookup(name, account)
	if !ok && account != provider.DefaultAccount {
		rest = path
		if p, s, ok = in.parts.Sources.Lookup(name, provider.DefaultAccount); ok {
			ok = p.Traits().OwnsPath
		}
	}
	if !ok || rest != "" && !p.Traits().OwnsPath {
		return source{}, "", false
	}
	if s.Account == "" {
		s.Account = provider.DefaultAccount
	}
	return source{p, s.Provider, s.Account, s.AllowedFrom}, rest, true
}

// refuse answers a request whose credentials do not hold. Nothing of it is
// stored but a line of the list of refused requests.
func (in *Ingest) refuse(w http.ResponseWriter, src source, req provider.Request, bodyBytes int, reason provider.Reason) {
	in.log.Warn("webhook.rejected", zap.String("provider", src.name), zap.String("account", src.account), zap.String("reason", string(reason)))
	in.rejections.add(src, reason, bodyBytes, func() string { return explain(src, req, reason) })
	switch reason {
	case provider.ReasonAddress:
		in.answer(w, src.name, answerForbidden)
	case provider.ReasonUnavailable:
		in.later(w, src)
	default:
		in.answer(w, src.name, orStatus(src.Traits().Unauthorized, http.StatusUnauthorized))
	}
}

// read reads and decodes the body, for which there is time from now on. sent are the bytes on the wire; they are
// those of the request unless there was a content encoding.
func (in *Ingest) read(w http.ResponseWriter, r *http.Request, now time.Time, l *loan) (req provider.Request, sent []byte, err error) {
	sent, err = readBody(w, r, in.config.BodyLimit, now.Add(in.config.BodyTimeout), l)
	if err != nil {
		return provider.Request{}, nil, err
	}
	body, encoded, err := decodeBody(r.Header, sent, in.config.BodyLimit, l)
	if err != nil {
		return provider.Request{}, nil, err
	}
	if !encoded {
		sent = body
	}
	return provider.Request{Header: r.Header, Query: r.URL.RawQuery, Body: body, Now: in.now()}, sent, nil
}

// verify checks the credentials on the decoded bytes: a gateway signs the
// message it wrote, and its HTTP client or a proxy on the way compresses it
// afterwards. Should a sender sign what it put on the wire, that is accepted
// too. Only compressed requests pay for a second digest. What is stored is the
// decoded body in both cases, since the facts are read from it.
//
// The second check leaves one thing to a stranger who holds a signed request:
// he may send its bytes again under a coding that they were not sent with, and
// it passes where they happen to decode. JSON and forms do not: gzip and zlib
// have a first byte and a check sum, and what raw deflate makes of the first
// byte of either ends in an error, or in bytes that nobody can read as facts.
// At worst he makes such an event stored as quarantined.
func verify(src source, req provider.Request, sent []byte) (string, provider.Reason) {
	secret, reason := src.Verify(req)
	if reason != provider.ReasonMismatch || sameBytes(req.Body, sent) {
		return secret, reason
	}
	req.Body = sent
	if secret, second := src.Verify(req); second != provider.ReasonMismatch {
		return secret, second
	}
	return "", reason
}

func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (in *Ingest) refuseBody(w http.ResponseWriter, src source, err error) {
	// What is left of the body is unread, so the connection has no next
	// request.
	w.Header().Set("Connection", "close")
	switch {
	case errors.Is(err, errTooLarge):
		in.answer(w, src.name, answerTooLarge)
	case errors.Is(err, errTooSlow):
		in.answer(w, src.name, answerTooSlow)
	case errors.Is(err, errEncoding):
		w.Header().Set("Accept-Encoding", "gzip, deflate")
		in.answer(w, src.name, answerEncoding)
	case errors.Is(err, errNoMemory):
		in.overflow(w, src, "memory")
	default:
		in.answer(w, src.name, answerMalformed)
	}
}

// store waits for the unit's commit, but not longer than the deadline. It
// does not watch for the sender's leaving: the batch goes on anyway, and soon.
func (in *Ingest) store(w http.ResponseWriter, r *http.Request, src source, u *unit, started time.Time) {
	switch err := in.committer.submit(u); {
	case errors.Is(err, errFull):
		in.overflow(w, src, "queue")
		return
	case err != nil:
		in.later(w, src)
		return
	}
	deadline := time.NewTimer(time.Until(started.Add(in.config.RequestDeadline)))
	defer deadline.Stop()
	select {
	case <-u.done:
	case <-deadline.C:
		u.abandon()
		in.log.Warn("request.late", zap.String("provider", src.name), zap.Duration("duration", time.Since(started)))
		in.later(w, src)
		return
	}
	if u.err != nil {
		in.later(w, src)
		return
	}
	if err := failpoint.At(r.Context(), "ingest.answering"); err != nil {
		if errors.Is(err, failpoint.ErrLost) {
			panic(http.ErrAbortHandler) // the sender's connection ends without an answer
		}
		in.later(w, src)
		return
	}
	in.answer(w, src.name, orStatus(src.Traits().Success, http.StatusOK))
	in.metrics.ackTime.Observe(time.Since(started).Seconds())
	if entry := in.log.Check(zap.DebugLevel, "event.accepted"); entry != nil {
		entry.Write(zap.String("provider", src.name), zap.String("account", src.account), zap.Int64("event_id", u.stored[0].ID),
			zap.Bool("new", u.stored[0].New), zap.Int("events", len(u.stored)), zap.Duration("duration", time.Since(started)))
	}
}

func (in *Ingest) overflow(w http.ResponseWriter, src source, what string) {
	in.metrics.overflow.WithLabelValues(what).Inc()
	in.log.Warn("request.shed", zap.String("provider", src.name), zap.String("full", what))
	in.later(w, src)
}

// later asks for the same request again.
func (in *Ingest) later(w http.ResponseWriter, src source) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(in.config.RetryAfter/time.Second))))
	in.answer(w, src.name, answerLater)
}

func orStatus(a provider.Answer, status int) provider.Answer {
	if a.Status == 0 {
		a.Status = status
	}
	return a
}

func (in *Ingest) answer(w http.ResponseWriter, providerName string, a provider.Answer) {
	h := w.Header()
	if a.Status != http.StatusNoContent {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	if a.Body != "" && a.Status != http.StatusNoContent {
		w.Write([]byte(a.Body)) //nolint:errcheck // a sender that has gone will send again
	}
	in.metrics.answered(providerName, a.Status)
}
