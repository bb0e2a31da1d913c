package virtual

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres"
)

// pod is one replica of ingest. It starts with the first request and stops
// some seconds after the last one, as rollouts do all the time.
type pod struct {
	w      *world
	n      int
	lives  int
	p      *proc
	in     *ingest.Ingest // nil: not running
	inHand int
	idling bool // somebody waits to close it
}

var ingestConfig = ingest.Config{
	Addr: ":0", BodyLimit: 1 << 20, HeaderLimit: 128 << 10, HeaderTimeout: 5 * time.Second, BodyTimeout: 3 * time.Second,
	WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, RequestDeadline: 5 * time.Second, CommitTimeout: 4500 * time.Millisecond,
	RetryAfter: 2 * time.Second, DrainTimeout: 15 * time.Second, BatchRows: 256, BatchBytes: 4 << 20, Flushers: 2,
	QueueRequests: 4096, QueueBytes: 64 << 20, LargeBytes: 64 << 20, MaxRequests: 8192, EventsPerRequest: 1000,
}

func (d *pod) start() {
	if d.in != nil && !d.p.dead {
		return
	}
	d.close()
	d.lives++
	d.p = d.w.newProc("ingest pod", fmt.Sprintf("ingest %d.%d", d.n+1, d.lives))
	d.p.onDeath = d.close
	d.inHand, d.idling = 0, false
	d.in = ingest.New(ingestConfig, ingest.Parts{
		Sources: sources{d.w, d.p}, Store: db{d.w.store, d.p}, Publisher: offers{d.w, d.p}, Log: d.w.log,
		Refused: func(err error) bool { return errors.Is(err, postgres.ErrRefusedRow) },
	})
	d.in.Start()
}

// close lets the running replica go; one that died has no say in it.
func (d *pod) close() {
	if d.in == nil {
		return
	}
	in := d.in
	d.in = nil
	d.w.running.Add(1)
	go func() {
		defer d.w.running.Done()
		in.Close()
	}()
}

// answer is a http.ResponseWriter that keeps the status.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(s int)           { a.status = s }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }

// noAnswer is the status of a request whose pod died.
const noAnswer = 0

// request is one HTTP request of a gateway.
type request struct {
	path, query string
	header      http.Header
	body        []byte
}

// serve sends one request to the pod and gives the status that came back.
func (d *pod) serve(world *proc, r request, label string) int {
	d.start()
	p, in := d.p, d.in
	d.inHand++
	a := &answer{header: http.Header{}}
	in.ServeHTTP(a, &http.Request{Method: http.MethodPost, URL: &url.URL{Path: r.path, RawQuery: r.query}, Header: r.header, Host: "umavez",
		RemoteAddr: "127.0.0.1:1", Body: io.NopCloser(bytes.NewReader(r.body)), ContentLength: int64(len(r.body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1})
	world.step("answered " + label)
	if p.dead {
		d.w.saw("request without an answer")
		return noAnswer
	}
	d.inHand--
	if d.inHand == 0 && !d.idling {
		d.idling = true
		d.w.goWorld("idle pod", func(world *proc) {
			world.sleep(20*time.Second, "idle "+p.name)
			d.idling = false
			if d.in == in && d.inHand == 0 {
				d.close()
			}
		})
	}
	return a.status
}

// offers implements ingest.Publisher: publishing never holds up an answer.
type offers struct {
	w *world
	p *proc
}

// Offer implements ingest.Publisher.
func (o offers) Offer(n event.Notice) bool {
	o.w.goAs(o.p, func() { bell{o.w.broker, o.p}.publish(n, "ingest") })
	return true
}

// sendLater sends an event after a while, and again as gateways do when it is
// not answered well.
func (w *world) sendLater(t *tell, n int, after time.Duration) {
	w.begin(fmt.Sprintf("sender %s.%d", t.Key, n), func(world *proc) {
		world.step("signs " + t.Key)
		secret := w.gateway.signing
		world.sleep(after, "send "+t.Key)
		w.deliver(world, t, secret, 6)
	})
}

func (w *world) deliver(world *proc, t *tell, secret string, tries int) bool {
	for n := range tries {
		world.step("sends " + t.Key)
		d := w.pods[w.sched.rng.IntN(len(w.pods))]
		r := request{path: "/webhooks/" + gatewayName + "/" + w.gateway.account, header: http.Header{secretHeader: {secret}, "Content-Type": {"application/json"}}, body: t.body}
		switch status := d.serve(world, r, t.Key); status {
		case http.StatusOK:
			t.accepted = true
			w.checkStored(eventKey{gatewayName, w.gateway.account, t.Key}, sha256.Sum256(t.body))
			return true
		case http.StatusUnauthorized:
			w.saw("signed by a secret that is gone: refused")
			if slices.Contains(w.gateway.secrets, secret) {
				w.violated("a request signed by an active secret was refused")
			}
			secret = w.gateway.signing
		case http.StatusServiceUnavailable, noAnswer:
			w.saw("webhook not accepted")
		default:
			w.violated("a webhook was answered %d", status)
		}
		world.sleep(time.Second<<n+w.sched.below(time.Second), "retry "+t.Key)
	}
	w.saw("gateway gave up sending")
	return false
}

// checkStored: what was answered with success has a row of its key, and the
// bytes are those of the first delivery or are known as differing.
func (w *world) checkStored(k eventKey, sum [32]byte) {
	if k.dedupe == "junk" {
		return
	}
	id, ok := w.store.keys[k]
	if !ok {
		w.violated("1: %s was accepted and is not stored", k)
		return
	}
	e := w.store.events[id]
	if e.BodySHA256 == sum {
		if b, kept := w.store.bodies[id]; kept && sha256.Sum256(b.body) != sum {
			w.violated("1: %s is stored with other bytes", k)
		}
		return
	}
	if !slices.Contains(w.store.repeats[id].differing, sum) && len(w.store.repeats[id].differing) < 16 {
		w.violated("1: the body of a repeat of %s is not known", k)
	}
}
