package gatewaysim

import (
	"strconv"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// KindRefundDenied: a refund was asked for and did not come about.
const KindRefundDenied Kind = "refund_denied"

type efiScript struct{ *script }

// The types of Efí's steps, by the names of its API for resending callbacks.
const (
	efiReceived = "PIX_RECEBIDO"
	efiRefunded = "DEVOLUCAO_ENVIADA"
)

func (efi) write(sc *script) {
	s := efiScript{sc}
	p := s.p
	p.method = "PIX"
	p.id = efiID(s.Rand, 'E', s.now)
	// A txid has letters and digits only; it names the owner up to the x.
	p.beneficiary = strings.ReplaceAll(p.beneficiary, "-", "")
	p.reference = p.beneficiary + "xPED" + strconv.Itoa(1_000_000+p.index) + randomText(s.Rand, 10, base62)
	s.cur.status, s.cur.captured = payment.StatusPaid, p.amount
	s.cur.fee = min(p.amount, []int64{0, 99, 119, (p.amount*119 + 5000) / 10000}[s.IntN(4)])
	s.cur.feeKnown = s.cur.fee > 0
	s.did(event(efiReceived))
	if s.one(4) {
		s.wait(6 * time.Hour)
		s.did(noise(efiSent))
	}
	s.afterwards()
}

func (s efiScript) afterwards() {
	s.wait(12 * time.Hour)
	switch s.p.kind {
	case KindPaidRepeatedly: // somebody has asked for the callback again
		for range 1 + s.IntN(2) {
			s.wait(6 * time.Hour)
			s.did(event(efiReceived))
		}
	case KindPartRefunded:
		n := 1 + s.IntN(3)
		for _, part := range s.parts(s.cur.captured, n+1)[:n] {
			s.giveBack(part)
		}
	case KindRefunded:
		for _, part := range s.parts(s.cur.captured, 1+s.IntN(2)) {
			if s.one(3) {
				s.deny(part)
			}
			s.giveBack(part)
		}
	case KindRefundDenied:
		s.deny(s.parts(s.cur.captured, 2)[0])
	case KindDisputeLost:
		all := s.parts(s.cur.captured, 2)
		if s.one(2) {
			s.giveBack(all[1])
			all = all[:1]
		}
		s.takenBack(all)
	}
}

// ask begins a refund. Its id is unique within the payment only.
func (s efiScript) ask(part int64) *refund {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{
		id: "dev" + strconv.Itoa(len(s.cur.refunds)+1), txn: efiID(s.Rand, 'D', s.now), amount: part, at: s.now, word: "EM_PROCESSAMENTO",
	})
	if s.one(2) {
		s.did(event(efiRefunded))
		s.wait(6 * time.Hour)
	}
	return &s.cur.refunds[len(s.cur.refunds)-1]
}

func (s efiScript) giveBack(part int64) {
	r := s.ask(part)
	r.word, r.done = "DEVOLVIDO", true
	s.cur.status = payment.StatusPartiallyRefunded
	if s.cur.refunded() == s.cur.captured {
		s.cur.status = payment.StatusRefunded
	}
	s.did(event(efiRefunded)).mayLag = true
}

func (s efiScript) deny(part int64) {
	s.ask(part).word = "NAO_REALIZADO"
	s.did(event(efiRefunded))
}

// takenBack: the payer's institution claims money back, for fraud or a fault
// of its own; nobody on our side asked for it.
func (s efiScript) takenBack(parts []int64) {
	var sum int64
	for _, part := range parts {
		sum += part
	}
	s.wait(6 * time.Hour)
	s.cur.dispute = &dispute{
		id: "med1", out: efiID(s.Rand, 'D', s.now), word: "EM_PROCESSAMENTO", amount: sum, formal: true, at: s.now,
		reason: []string{"MED_FRAUDE", "MED_OPERACIONAL"}[s.IntN(2)],
	}
	if s.one(2) {
		s.did(event(efiRefunded))
		s.wait(6 * time.Hour)
	}
	s.cur.dispute.word, s.cur.dispute.withdrawn, s.cur.status = "DEVOLVIDO", true, payment.StatusChargedBack
	s.did(event(efiRefunded)).mayLag = true
}
