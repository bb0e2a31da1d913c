// Package chaostest breaks everything on purpose, on this machine, under load,
// and looks for any harm that was done.
//
// A campaign is one or several acts. An act starts a world of real processes
// (two ingests, three processors, a sweeper that is run like a CronJob's, a
// PostgreSQL, one broker or a cluster of three) with a proxy on every
// connection between them, and lets the simulator of gateways send webhooks to
// it. Meanwhile the nemesis draws faults from a deck, so that each kind comes
// again and again, several at once, on what is not under a fault already:
//
//	gateways --proxy--> ingest 1, 2 --proxy--> PostgreSQL
//	   ^                    |  \----proxy--> broker(s)
//	   |                    |
//	   +--proxy---- processor 1, 2, 3 --proxy--> both
//
// Now and then it is calm: everything heals, and what comes in then has to
// become final within a bound. At the end of an act everything heals, sweeps
// run as an operator would run them, and the judge compares what is there with
// the simulator's truth, checks every invariant on the database, the history
// of all attempts, the domain events that an application received, what the
// processes still hold, and that no log has a secret or a personal datum in
// it.
//
// A campaign that was too tame fails too: each kind of fault and each kind of
// rescue must have occurred.
//
// The nemesis is random from a seed: the same seed draws the same cards. When
// each of them hits is the machine's doing, so a seed makes a failure likely
// again, not certain. What can be replayed to the letter are the schedules of
// virtual time.
package chaostest
