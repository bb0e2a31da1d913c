package processor

import (
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/settlement"
)

// contradictedFor is how long the event has waited for the gateway's API to
// agree with it, and for nothing else.
func (it *item) contradictedFor() time.Duration {
	w := &it.work
	if w.State != event.StatusParked || code(w.Reason) != string(payment.NeedAgreement) {
		return 0
	}
	return it.now.Sub(w.ReasonSince)
}

// needReason says in words what a parked event waits for.
func needReason(n payment.Need) string {
	words := map[payment.Need]string{
		payment.NeedCapturedAmount:  "waits for an event or a lookup that gives it",
		payment.NeedRefundIDs:       "waits for the refunds by id",
		payment.NeedDisputeAmount:   "waits for an event or a lookup that gives it",
		payment.NeedCurrency:        "waits for an event or a lookup that gives it",
		payment.NeedRefundAmount:    "waits for the refund's amount",
		payment.NeedFeeAmount:       "waits for the fee's amount",
		payment.NeedPaidAgain:       "money left after an undone receipt; waits for the next payment",
		payment.NeedID:              "a refund, dispute, fee or undo has no id",
		payment.NeedSamePayment:     "the claim names another payment",
		payment.NeedAmountMatch:     "the amount differs from what was registered or captured",
		payment.NeedCurrencyMatch:   "the currency differs from what was registered or seen",
		payment.NeedWithinCaptured:  "refunds and chargebacks would exceed what was captured",
		payment.NeedDisputeReopened: "a dispute that was won moves again; book it by hand",
		payment.NeedAgreement:       "the gateway's API says otherwise; asking again",
		payment.NeedRange:           "an amount is not within 64 bits above zero",
		payment.NeedLegalMove:       "defect: the move is not in the table of legal moves",
	}
	return string(n) + ": " + words[n]
}

// parkDelays are how long an event waits before it is tried again by itself;
// an event of the same payment, or a registration, brings it back earlier.
var parkDelays = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// lookupDelays are for a gateway that gave no answer. They may be short: the
// breaker leaves a gateway alone that keeps failing.
var lookupDelays = []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

// parked is a verdict to wait; atLeast lengthens the schedule's delay.
func (it *item) parked(reason string, atLeast time.Duration) *settlement.Verdict {
	w := &it.work
	v := &settlement.Verdict{Status: event.StatusParked, Reason: reason, Attempts: w.Attempts, LastError: ""}
	if w.State == event.StatusParked {
		v.Since = w.Since
		if code(w.Reason) == code(reason) {
			v.Parks, v.ReasonSince = w.Parks, w.ReasonSince
			if !w.Sibling { // its own time had come
				v.Parks++
			}
		}
	}
	v.Delay = max(parkDelays[min(v.Parks, len(parkDelays)-1)], atLeast)
	switch code(reason) {
	case "snapshot_outdated", "lookup_needed":
		v.Delay = time.Duration(min(v.Parks, 10)) * time.Second
	case "lookup_waits":
		// Nobody was asked: the gateway said how long, or our own limits do,
		// and they go on to bound what comes back. Spread by id.
		v.Delay = max(time.Second, atLeast) + time.Duration(w.Event.ID%8)*250*time.Millisecond
	case "lookup_unavailable", "lookup_failed":
		v.Delay = max(lookupDelays[min(v.Parks, len(lookupDelays)-1)], atLeast)
	}
	switch {
	case it.awaits != "":
		v.WaitingFor = it.awaits
	case w.Event.PaymentRef != "":
		v.WaitingFor = settlement.RefOf(&w.Event).String()
	}
	return v
}

// code is the fixed part of a reason, before its words.
func code(reason string) string {
	c, _, _ := strings.Cut(reason, ":")
	return c
}

func (it *item) park(reason string, atLeast time.Duration) { it.verdict = it.parked(reason, atLeast) }

func (it *item) settle(status event.Status, reason string) {
	it.verdict = &settlement.Verdict{Status: status, Reason: reason, Attempts: it.work.Attempts}
}

// limited turns a wait that has lasted too long into a dead letter.
func (p *Processor) limited(it *item, v settlement.Verdict) settlement.Verdict {
	w := &it.work
	if v.Status == event.StatusParked && w.State == event.StatusParked && it.now.Sub(w.Since) >= p.cfg.ParkLimit {
		return settlement.Verdict{Status: event.StatusDead, Reason: "parked for too long: " + v.Reason, Attempts: w.Attempts}
	}
	return v
}
