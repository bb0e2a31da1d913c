// Package gatewaysim plays the payment gateways: it sends their webhooks,
// answers their lookup APIs, and knows the truth.
//
// A Sim is made from a seed. It invents payments, each with a history of
// steps; a step has the state of the payment after it and the webhooks that
// tell of it. From the histories follow
//
//   - the truth, kept by plain bookkeeping beside the histories and without
//     the state machine that is under test (Truth, Balances);
//   - the schedule of webhooks (Deliveries): shuffled, repeated at the same
//     instant and later, forged, unreadable, marked as tests, lost;
//   - the lookup APIs (APIHandler).
//
// The same Config gives the same payments, ids, histories, bodies and
// schedule. What depends on the moment of sending is not covered by that:
// Stripe's signature holds the time of each attempt, and which requests of
// the API fail depends on the order in which they arrive.
//
// # What is true when
//
// A step becomes true for the API right before its first webhook is sent, or
// would have been sent if it were not lost (Run does that; see Publish). So a
// lookup is never behind the webhook that caused it, unless a stale replica
// is simulated, and may be ahead of webhooks that are still under way.
//
// Stale answers are given for steps only whose webhook states the money that
// moved, so that a receiver can notice the contradiction. The histories lie
// in the past: for an older step, a replica that lags by a second has caught
// up long ago, and a receiver is right to take its answer as the newer one.
//
// The package holds none of the code that reads webhooks, on purpose: it is
// the other side, written from the gateways' contracts.
package gatewaysim
