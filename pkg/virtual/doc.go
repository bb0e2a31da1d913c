// Package virtual holds tests only: schedules of the real code in virtual time.
//
// A schedule is one short life of umavez that a seed decides wholly: a few
// payments at a model gateway with their histories, the webhooks that tell of
// them (lost, repeated, out of order, forged, signed by an old secret), ingest
// pods, processors, sweepers, an application that registers payments, and the
// faults that befall all of them. The code that runs is the product's own:
// ingest from the HTTP request on, processor with its loops, lookup with its
// breaker, relay, sweeper, payment and ledger. What it talks to are models, in
// memory, of PostgreSQL (store*), JetStream (broker) and the gateway (gateway).
//
// # Order
//
// Each call to a model, and each statement within a transaction, is a
// scheduling point (sched): the caller waits there until the scheduler picks
// it. One goroutine runs at a time, and the seed says which. So two workers
// are interleaved statement by statement, and the same seed gives the same
// run, which TestASeedRepeatsItsScheduleExactly proves.
//
// # Time
//
// A schedule runs within a bubble of testing/synctest: the clock stands while
// anything can run, and jumps when all wait. Thirty days of retention cost
// what their sweeps cost. The bubble gives time and no order; the scheduler
// gives order and no time.
//
// # Truth
//
// The models are compared with the real servers on the same random traces
// (conform_*): results and tables of PostgreSQL, row locks and waits
// included, and the answers of an embedded NATS.
//
// What must hold is checked at each commit and at the end (checks): the
// invariants of docs/guarantees.md, and that money moves only as the gateway
// says. A run of many schedules also fails when some fault or some rescue
// never occurred in it (coverage), and each guarantee that a model can break
// on purpose must be missed by the checks at once (faults).
//
// On failure a schedule prints its seed and its last steps:
//
//	SCHEDULE_SEED=n go test ./pkg/virtual -run TestSchedules -v
package virtual
