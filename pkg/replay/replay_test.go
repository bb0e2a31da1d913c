package replay_test

import (
	"context"
	"math"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/replay"
)

// store holds settled events with the ids 1 to n, and remembers what it was
// asked for.
type store struct {
	n        int64
	limits   []int
	replayed []int64
}

func (s *store) ReplayPage(_ context.Context, _ replay.Filter, after int64, limit int) (page []replay.Row, err error) {
	s.limits = append(s.limits, limit)
	for id := after + 1; id <= s.n && len(page) < limit; id++ {
		page = append(page, replay.Row{Event: event.Event{ID: id}, Status: event.StatusDead, Turn: 1, HasBody: true})
	}
	return page, nil
}

func (s *store) Replay(_ context.Context, rows []replay.Row) (ids []int64, err error) {
	for _, r := range rows {
		ids = append(ids, r.Event.ID)
	}
	s.replayed = append(s.replayed, ids...)
	return ids, nil
}

func TestALimitIsKeptHoweverLargeItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, want int
		more        bool
	}{{1, 1, true}, {499, 499, true}, {500, 500, true}, {501, 501, true}, {1199, 1199, true}, {1200, 1200, false}, {math.MaxInt, 1200, false}} {
		s := &store{n: 1200}
		r := replay.Replayer{Store: s, Judge: func(replay.Row) string { return "" }}
		sum, err := r.Run(t.Context(), replay.Filter{Provider: "gw"}, false, c.limit, 5)
		if err != nil || sum.Replayed != c.want || len(s.replayed) != c.want || sum.More != c.more {
			t.Errorf("limit %d: %d replayed, more %t, %v", c.limit, sum.Replayed, sum.More, err)
		}
		for _, n := range s.limits {
			if n < 1 || n > 500 {
				t.Errorf("limit %d: a page of %d was asked for", c.limit, n)
			}
		}
	}
}
