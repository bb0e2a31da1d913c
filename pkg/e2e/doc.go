// Package e2e holds tests only: the whole product as its users run it.
//
// One half starts the binaries as separate processes, with environment
// variables and nothing else, beside a real PostgreSQL and a NATS server in a
// process of its own (stack). Storms of the gateway simulator go through them
// while processes are killed; afterwards the database is compared with the
// simulator's truth to the cent, and every invariant is checked.
//
// With the tag failpoints the same processes are broken at every named place
// (TestFailpoints; make failpoints).
//
// The other half runs the same roles in this process (world), where one
// webhook at a time takes a few milliseconds from the socket to the ledger,
// and goes through the cases that real teams have hit, for each gateway that
// has the trait.
package e2e
