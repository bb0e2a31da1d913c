package app

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/replay"
)

// Replay is what a replay needs open: the database and the gateways' code. It
// asks no gateway and no queue.
type Replay struct {
	*replay.Replayer
	db *postgres.DB
}

// NewReplay reads the settings and opens the database.
func NewReplay(ctx context.Context) (*Replay, error) {
	var cfg postgres.Config
	read := load(&cfg)
	sources, err := loadSources(zap.NewNop())
	if err := distinct(read, err); err != nil {
		return nil, &daemon.ConfigError{Err: err}
	}
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := db.CheckSchema(ctx); err != nil {
		db.Close()
		return nil, &daemon.ConfigError{Err: err}
	}
	return &Replay{&replay.Replayer{Store: db, Judge: judgeBy(sources)}, db}, nil
}

// Close gives the connections back.
func (r *Replay) Close() { r.db.Close() }

// judgeBy leaves alone what today's adapters would not process: an event whose
// source is not configured would be parked until it is dead, and one that was
// settled on receipt was meant to reach no processor. A test event in
// production is the one that matters most.
func judgeBy(sources *registry.Set) replay.Judge {
	return func(row replay.Row) string {
		e := &row.Event
		p, _, ok := sources.Lookup(e.Provider, e.Account)
		switch {
		case !ok:
			return "its source is not in SOURCES"
		case row.OnReceipt:
			return today(p, e)
		}
		return ""
	}
}

// today says why ingest would settle a stored event on receipt today as well,
// or "". The stored body may be a part of a request; then Parse cannot read it
// and Facts can.
func today(p provider.Provider, e *event.Event) (why string) {
	defer func() {
		if recover() != nil {
			why = "its adapter panics"
		}
	}()
	messages := p.Parse(asReceived(e))
	if len(messages) == 1 && messages[0].Disposition == provider.Ignore {
		return "still ignored: " + messages[0].Reason
	}
	if len(messages) == 1 && messages[0].Disposition != provider.Quarantine {
		return ""
	}
	if e.Test {
		return "still ignored: " + provider.ReasonTestEvent
	}
	claims, err := p.Facts(e)
	switch {
	case err != nil && !errors.Is(err, provider.ErrUnresolved):
		return "still quarantined: " + err.Error()
	case err == nil && len(claims) == 0:
		return "still without facts"
	}
	return ""
}

// asReceived is the request that an event came with, as far as it was kept.
func asReceived(e *event.Event) provider.Request {
	r := provider.Request{Header: http.Header{}, Body: e.Body, Now: time.Now()}
	query := url.Values{}
	for _, h := range e.Headers {
		if name, ok := strings.CutPrefix(h.Name, "?"); ok {
			query.Add(name, h.Value)
		} else {
			r.Header.Add(h.Name, h.Value)
		}
	}
	r.Query = query.Encode()
	return r
}
