//go:build failpoints

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/gatewaysim"
)

// fault is one action at one point.
type fault struct{ point, action string }

func (f fault) String() string { return f.point + "=" + f.action }

// program is the process in which a point is broken.
type program string

const (
	atIngest    program = "ingest"
	atProcessor program = "processor"
	atSweeper   program = "sweeper"
)

// plan is how a point is reached.
type plan struct {
	role program
	// wants chooses among simulations; nil takes any.
	wants func(*gatewaysim.Sim) bool
	// helper is armed in the processor together with the fault, and brings the
	// processor to it.
	helper string
	// unrung: ingest rings for nothing, so that the sweeper finds everything.
	unrung bool
	// buried: events die while the story is played, and are sent again.
	buried bool
	// revived: events are dead before the fault is armed, and are sent again.
	revived bool
	// vanished: the streams are deleted when the fault is armed.
	vanished bool
	// restarted: the processor starts with the fault armed.
	restarted bool
	// aged: at the end everything is older than it is kept, and swept away
	// with the fault armed.
	aged bool
	// reconciled: the sweeper asks about every payment, with the fault armed.
	reconciled bool
}

// planOf says how a point is reached.
func planOf(point string) plan {
	room, step, _ := strings.Cut(point, ".")
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(step, p) })
	}
	switch room {
	case "ingest":
		return plan{role: atIngest}
	case "sweeper":
		return plan{role: atSweeper, unrung: true, reconciled: has("reconciled")}
	case "queue":
		if has("publish") {
			return plan{role: atIngest}
		}
		if has("nak") {
			return plan{role: atProcessor, helper: "postgres.load_answered=lost*1"}
		}
		return plan{role: atProcessor}
	case "processor":
		if has("resolve") {
			return plan{role: atProcessor, wants: codes}
		}
		return plan{role: atProcessor}
	}
	switch {
	case has("insert", "redeliveries"):
		return plan{role: atIngest}
	case has("rejections"):
		return plan{role: atIngest, wants: forgeries}
	case has("bodies", "revival", "revivals", "events_told_again", "events_revived"):
		return plan{role: atIngest, revived: true}
	case has("due_page", "mark_swept", "bury_parked"):
		return plan{role: atSweeper, unrung: true}
	case has("reconcile"):
		return plan{role: atSweeper, reconciled: true}
	case has("partitions", "drop_bodies", "trim_bodies", "forget"):
		return plan{role: atSweeper, aged: true}
	case has("relay_again"):
		return plan{role: atProcessor, restarted: true}
	case has("ring_for_all"):
		return plan{role: atProcessor, vanished: true}
	case has("referenced", "held"):
		return plan{role: atProcessor, wants: codes}
	case has("fail"):
		return plan{role: atProcessor, helper: "postgres.settle_locked=error*5", buried: true}
	case has("bury"):
		return plan{role: atProcessor, helper: "postgres.settle_locked=error", buried: true}
	}
	return plan{role: atProcessor}
}

// codes: a notification code tells of something that only the gateway's
// answer to it does, and the payment is found by its reference.
func codes(sim *gatewaysim.Sim) bool {
	return slices.ContainsFunc(sim.Deliveries(), func(d gatewaysim.Delivery) bool {
		return d.Kind == gatewaysim.DeliveryFirst && strings.HasPrefix(d.Identity, "code:")
	})
}

func forgeries(sim *gatewaysim.Sim) bool {
	return slices.ContainsFunc(sim.Deliveries(), func(d gatewaysim.Delivery) bool { return !d.Authentic() })
}

// cannotHappen are pairs that no machine can produce, with the reason.
var cannotHappen = map[string]string{}

// shortSelection is played by every run of the tests.
var shortSelection = []fault{
	{"ingest.answering", "lost"},
	{"ingest.stored", "crash"},
	{"postgres.insert_answered", "lost"},
	{"postgres.revival_committed", "crash"},
	{"queue.publish_sent", "lost"},
	{"processor.lookup_answered", "error"},
	{"postgres.payments_locked", "deadlock"},
	{"postgres.entries_written", "crash"},
	{"postgres.settle_committing", "lost"},
	{"postgres.settle_committed", "lost"},
	{"postgres.settle_locked", "delay"},
	{"processor.processed", "crash"},
	{"postgres.outbox_sent", "crash"},
	{"sweeper.published", "crash"},
}

// everyFault is every point times every action that makes sense there.
func everyFault() (all []fault) {
	for _, p := range failpoint.Points() {
		for _, action := range p.Actions() {
			if f := (fault{p.Name, action}); cannotHappen[f.String()] == "" {
				all = append(all, f)
			}
		}
	}
	return all
}

func TestTheFailpointsOfTheShortSelectionExist(t *testing.T) {
	all := everyFault()
	for _, f := range shortSelection {
		if !slices.Contains(all, f) {
			t.Errorf("%s is no fault", f)
		}
	}
	for name := range cannotHappen {
		point, action, _ := strings.Cut(name, "=")
		if i := slices.IndexFunc(failpoint.Points(), func(p failpoint.Point) bool { return p.Name == point }); i < 0 ||
			!slices.Contains(failpoint.Points()[i].Actions(), action) {
			t.Errorf("%s is left out and is no fault", name)
		}
	}
}
