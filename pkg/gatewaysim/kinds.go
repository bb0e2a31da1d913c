package gatewaysim

// Kind is the kind of a payment's history.
type Kind string

// The kinds of history.
const (
	KindCreated          Kind = "created"            // stays pending
	KindPaid             Kind = "paid"               //
	KindSettled          Kind = "settled"            // one capture, told as CONFIRMED and as RECEIVED
	KindPaidRepeatedly   Kind = "paid_repeatedly"    // the gateway generates the same event several times
	KindAuthorized       Kind = "authorized"         // never captured
	KindCaptured         Kind = "captured"           // authorized, then captured in whole or in part
	KindPartRefunded     Kind = "part_refunded"      // one to three refunds
	KindRefunded         Kind = "refunded"           // in one or several refunds
	KindRefundFailed     Kind = "refund_failed"      // after it had succeeded
	KindFailed           Kind = "failed"             // never paid
	KindFailedThenPaid   Kind = "failed_then_paid"   //
	KindExpired          Kind = "expired"            // never paid
	KindExpiredThenPaid  Kind = "expired_then_paid"  //
	KindCanceled         Kind = "canceled"           //
	KindRestoredThenPaid Kind = "restored_then_paid" // canceled, restored, paid
	KindInquiry          Kind = "inquiry"            // a dispute that never moved money
	KindDisputed         Kind = "disputed"           // open
	KindDisputeWon       Kind = "dispute_won"        //
	KindDisputeLost      Kind = "dispute_lost"       //
)

type weighted struct {
	kind   Kind
	weight int
}

// plan is which kind of history happens at which account.
type plan struct {
	acct *account
	kind Kind
}

// plans deals the kinds out: each once as far as there are payments, the rest
// by weight, all of it shuffled.
func (s *Sim) plans() []plan {
	r := newRand(s.cfg.Seed, streamPlan)
	all := make([]plan, 0, s.cfg.Payments)
	for _, a := range s.accounts {
		for _, w := range a.gateway.kinds() {
			all = append(all, plan{a, w.kind})
		}
	}
	if len(all) > s.cfg.Payments {
		all = all[:0]
	}
	for len(all) < s.cfg.Payments {
		a := s.accounts[r.IntN(len(s.accounts))]
		total := 0
		for _, w := range a.gateway.kinds() {
			total += w.weight
		}
		n := r.IntN(total)
		for _, w := range a.gateway.kinds() {
			if n -= w.weight; n < 0 {
				all = append(all, plan{a, w.kind})
				break
			}
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
