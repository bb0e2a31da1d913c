package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/localpg"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/powercut"
)

// BrokerLoss is what the broker lost of what it had acknowledged.
type BrokerLoss struct {
	// BySync is by how often it syncs: "10s", "always". With ", names lost" the
	// disk was a strict POSIX one, which syncs no name that it is not asked to;
	// the broker asks for none.
	BySync map[string]*SyncLoss `json:"by_sync_interval"`
	// Refused is how often the broker did not start on what the cut had left,
	// and got an empty store directory instead.
	Refused int `json:"starts_refused"`
	// Remade is how many consumers the broker removed at a start, since the cut
	// had left too little of them.
	Remade int `json:"consumers_removed"`
}

// Syncs are the sync intervals that a whole campaign tries: the one of the
// embedded broker, one in which most cuts meet a sync, and always. Each is
// tried on both kinds of disk.
var Syncs = []time.Duration{10 * time.Second, time.Second, 0}

// always is the name of the sync interval 0.
const always = "always"

// SyncLoss is what happened with one sync interval on one kind of disk.
type SyncLoss struct {
	Cuts int `json:"cuts"`
	// Events and Domain are messages of the streams WEBHOOKS and PAYMENTS that
	// were stored before a cut and are not counted by the broker after it.
	Events int `json:"webhooks_messages_lost"`
	Domain int `json:"payments_messages_lost"`
	// Vanished are streams that were gone whole.
	Vanished int `json:"streams_vanished"`
	// Rescued are events that a sweep put back.
	Rescued int `json:"events_rescued"`
	// Relayed are all domain events; Again are those that a relay sent again
	// when it met a broker that had been started.
	Relayed int `json:"domain_events_relayed"`
	Again   int `json:"domain_events_relayed_again"`
	// Untold are those that never reached an application which reads all the
	// time: acknowledged by the broker, marked as relayed, and lost. It must
	// be zero.
	Untold int `json:"domain_events_untold"`
	// Skipped are those of them that the stream holds: the application's
	// consumer believes to have delivered them, or cannot be made.
	Skipped int `json:"domain_events_untold_in_the_stream"`
}

// JetStream cuts the power of the machine that the broker runs on; PostgreSQL
// and umavez go on, and umavez is killed too at some cuts.
func JetStream(ctx context.Context, cfg Config) (*Result, error) {
	began := time.Now()
	c, err := begin(cfg, "JetStream", powercut.Options{SyncNames: true})
	if err != nil {
		return c.end(began, err)
	}
	c.r.Broker = &BrokerLoss{BySync: map[string]*SyncLoss{}}
	return c.end(began, c.jetStream(ctx))
}

func (c *campaign) jetStream(ctx context.Context) (err error) {
	pg, err := localpg.Start(ctx, localpg.Config{Dir: filepath.Join(c.Dir, "pg"), Throwaway: true, Params: map[string]string{"max_connections": "50"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()
	for c.r.Cuts < c.Cuts {
		sync := c.Sync[c.r.Phases%len(c.Sync)]
		name := sync.String()
		if sync == 0 {
			name = always
		}
		kind := name
		strict := c.r.Phases/len(c.Sync)%2 == 1
		if c.disk.Set(func(o *powercut.Options) { o.SyncNames = !strict }); strict {
			kind += ", names lost"
		}
		p, err := c.newPhase(ctx, pg.URL(""), filepath.Join(c.mount.Dir, fmt.Sprintf("nats-%d", c.r.Phases+1)), name)
		if err != nil {
			return err
		}
		loss := c.r.Broker.BySync[kind]
		if loss == nil {
			loss = &SyncLoss{}
			c.r.Broker.BySync[kind] = loss
		}
		err = c.cutBroker(ctx, p, loss)
		p.close()
		if err != nil {
			return err
		}
	}
	c.vacuous()
	return nil
}

// cutBroker plays one load with its cuts.
func (c *campaign) cutBroker(ctx context.Context, p *phase, loss *SyncLoss) error {
	db, err := open(ctx, p.url)
	if err != nil {
		return err
	}
	defer db.Close()
	app, err := listen(ctx, p.env["NATS_URL"])
	if err != nil {
		return err
	}
	defer app.close()
	heard := 0
	for n := 0; n < c.PerPhase && c.r.Cuts < c.Cuts && p.load(ctx, heard, 800*time.Millisecond); n++ {
		before := app.streams(ctx)
		if err := c.oneBrokerCut(ctx, p); err != nil {
			return err
		}
		loss.Cuts++
		heard = p.heard.ok()
		if err := app.lost(ctx, before, loss); err != nil {
			return err
		}
		c.Say("%s: %d of %d cuts (sync %s), %d events promised, %d messages of events and %d of domain events lost by the broker, %d faults", c.r.Name,
			c.r.Cuts, c.Cuts, p.sync, len(p.heard.promises()), loss.Events, loss.Domain, c.r.Faulty)
	}
	rescued := c.r.Rescued
	if err := p.settle(ctx, db); err != nil {
		return err
	}
	loss.Rescued += c.r.Rescued - rescued
	if err := c.everyoneTold(ctx, p, db, app, loss); err != nil {
		return err
	}
	return c.forget(ctx, db, p)
}

func (c *campaign) oneBrokerCut(ctx context.Context, p *phase) error {
	mode := c.mode()
	killToo := c.rng.IntN(5) == 0
	cut := c.disk.Cut(mode, c.rng.Uint64())
	p.broker.Kill()
	if killToo {
		p.killRoles()
	}
	c.r.cut(cut)
	back := time.Now()
	c.disk.Reopen()
	if err := p.startBroker(ctx); err != nil {
		// What the operator does: the truth is in PostgreSQL.
		c.r.Broker.Refused++
		c.Say("%s: the broker does not start on what is left (%v); its store directory is removed", c.r.Name, err)
		p.broker.Kill()
		if err := os.RemoveAll(p.store); err != nil {
			return err
		}
		if err := p.startBroker(ctx); err != nil {
			return err
		}
	}
	c.r.restarts = append(c.r.restarts, time.Since(back))
	return p.restartRoles()
}

// everyoneTold compares what an application heard with what was to be told.
func (c *campaign) everyoneTold(ctx context.Context, p *phase, db *postgres.DB, app *listener, loss *SyncLoss) error {
	due, err := texts(ctx, db, `SELECT payment_id || '/' || seq FROM outbox`)
	if err != nil {
		return err
	}
	untold := func() (keys []string) {
		for key := range due {
			if !app.heard(key) {
				keys = append(keys, key)
			}
		}
		return keys
	}
	// What is in the stream comes within moments.
	missing := untold()
	for until := time.Now().Add(3 * time.Second); len(missing) > 0 && time.Now().Before(until); missing = untold() {
		pause(ctx, 20*time.Millisecond)
	}
	loss.Relayed += len(due)
	loss.Again += p.toldAgain()
	c.r.Broker.Remade += p.consumersRemoved()
	loss.Untold += len(missing)
	if len(missing) > 0 {
		where, held := app.place(ctx, missing)
		loss.Skipped += held
		c.r.fault("%s, sync %s: %d of %d domain events were relayed and never reached the application; %s", p.name, p.sync, len(missing), len(due), where)
	}
	return nil
}

// vacuous says whether a campaign lost nothing that it had to lose, and so
// showed nothing: a broker that does not sync before it acknowledges forgets.
func (c *campaign) vacuous() {
	lazy, lost, again := false, 0, 0
	for name, l := range c.r.Broker.BySync {
		if !strings.HasPrefix(name, always) {
			lazy = true
			lost += l.Events + l.Domain
			again += l.Again
		}
	}
	// In a few cuts, all messages that were lost may be of events that were
	// settled: the acks were lost with them. And on a busy machine nothing may
	// have been relayed before any of them.
	many := c.r.Cuts >= 40
	if lazy && (lost == 0 || many && (again == 0 || c.r.Rescued == 0)) {
		c.r.fault("the campaign shows nothing: the broker lost %d messages that it had acknowledged, %d domain events were relayed again, and %d events put back", lost, again, c.r.Rescued)
	}
}
