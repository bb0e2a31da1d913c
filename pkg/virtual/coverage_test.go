package virtual

import "slices"

// common are the faults and rescues that every run has to contain, rare those
// that a run of some ten thousand schedules has to, and rarest those of a
// hundred thousand.
var common = []string{
	"crash of a processor", "crash right after a commit", "processor killed", "rollout of a processor", "a step longer than the ack wait",
	"commit unknown, done", "commit unknown, not done", "connection lost in a transaction", "deadline passed in the database",
	"deadlock said by the server", "lock wait", "lock time-out", "row skipped because it is locked", "statement sent again",
	"batch run again", "batch split", "verdict refused by the database", "dead by MAX_ATTEMPTS", "revival of a dead event",
	"revival of a processed event", "told again while unfinished", "arrival refused by the database",
	"redelivery found settled", "event claimed by another", "message delivered again", "message given back", "ack lost",
	"publish lost on the way", "publish stored, answer lost", "publish refused while waiting", "sweep rescue", "stream lost", "stream made again",
	"database away", "broker away", "gateway API away", "webhook never sent", "webhook not accepted", "request without an answer",
	"forged body", "two events of one fact", "signed by the old secret while it is active", "signed by a secret that is gone: refused",
	"lookup: 404", "lookup: 429", "lookup: 5xx", "lookup: no answer in time", "lookup: about another payment", "lookup: lagged behind",
	"lookup: not there yet", "parked: contradicted_by_lookup", "parked: payment_unknown", "unknown payment registered while it was waited for",
	"parked sibling came along", "due event taken from the database", "several steps walked at once",
	"outcome applied", "outcome repeated", "outcome stale", "parked: exceeds_captured",
	"reconciliation entered", "bodies dropped by retention", "keys forgotten by retention", "resend after its key was forgotten",
	"domain event known by its id", "broker started again", "broker met that was started: domain events are unsent again", "relay found another one leading", "relay cut short", "relay answer lost",
}

var rare = []string{
	"parked: snapshot_outdated", "dead by PARK_LIMIT", "crash of a sweeper", "crash of a ingest pod", "locks of a dead process held on",
	"message lost by the broker", "lookup: stale beyond the lag", "body restored by a resend", "domain event told twice",
	"domain event told twice: the broker was started meanwhile",
	"deadlock of two transactions", "gateway gave up sending",
}

var rarest = []string{
	"domain event told twice: sent, and not marked while the broker remembered its id",
}

// missing lists what has to occur in a run of this size and did not.
func (r *run) missing() (out []string) {
	must := common
	if r.Schedules >= 20_000 {
		must = slices.Concat(common, rare)
	}
	if r.Schedules >= 100_000 {
		must = append(must, rarest...)
	}
	for _, what := range must {
		if r.Seen[what] == 0 {
			out = append(out, what)
		}
	}
	return out
}
