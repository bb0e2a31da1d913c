package efi

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// devolucao is one element of an item's list of refunds. Its id is unique
// within the Pix that it refunds, and only there.
type devolucao struct {
	ID       provider.Text   `json:"id"`
	Valor    provider.Number `json:"valor"`
	Status   provider.Text   `json:"status"`
	Natureza provider.Text   `json:"natureza"`
	Horario  jsontext.Value  `json:"horario"`
}

// refund is a devolucao in our terms.
type refund struct {
	id      string
	cents   int64
	state   payment.RefundState
	unasked bool // taken back by the payer's side, not given by us
	at      time.Time
}

// refundStates is the table of the standard's status words.
var refundStates = map[provider.Text]payment.RefundState{
	"EM_PROCESSAMENTO": payment.RefundPending,
	"DEVOLVIDO":        payment.RefundSucceeded,
	"NAO_REALIZADO":    payment.RefundFailed,
}

// unaskedFor are the natures of refunds that nobody on our side asked for: the
// special return mechanism (MED), by which the payer's institution claims
// money back. Of the others, ORIGINAL is a refund of ours, RETIRADA one of
// cash, and a refund without a nature is one of ours too.
var unaskedFor = map[provider.Text]bool{
	"MED_OPERACIONAL":    true,
	"MED_FRAUDE":         true,
	"MED_PIX_AUTOMATICO": true,
}

// refundsOf reads the list, and sorts it by id: its order says nothing.
func refundsOf(list []devolucao) ([]refund, error) {
	refunds := make([]refund, 0, len(list))
	for i, d := range list {
		field := func(name string) string { return fmt.Sprintf("devolucoes[%d].%s", i, name) }
		if d.ID == "" || !d.ID.Clean() {
			return nil, fmt.Errorf("%s is missing or not a clean identifier", field("id"))
		}
		state, known := refundStates[d.Status]
		if !known {
			return nil, fmt.Errorf("%s %s is not in the table of the contract", field("status"), word(d.Status))
		}
		cents, err := amount(d.Valor, field("valor"))
		if err != nil {
			return nil, err
		}
		if cents == 0 {
			return nil, fmt.Errorf("%s is zero", field("valor"))
		}
		refunds = append(refunds, refund{string(d.ID), cents, state, unaskedFor[d.Natureza], d.at()})
	}
	slices.SortFunc(refunds, func(a, b refund) int { return cmp.Compare(a.id, b.id) })
	for i := 1; i < len(refunds); i++ {
		if refunds[i].id == refunds[i-1].id {
			return nil, fmt.Errorf("devolucoes has two entries with one id")
		}
	}
	return refunds, nil
}

// at is when the refund was settled, or else asked for.
func (d *devolucao) at() time.Time {
	var h struct {
		Solicitacao jsontext.Value `json:"solicitacao"`
		Liquidacao  jsontext.Value `json:"liquidacao"`
	}
	if provider.Empty(d.Horario) || provider.Decode(d.Horario, &h) != nil {
		return time.Time{}
	}
	if at := moment(h.Liquidacao); !at.IsZero() {
		return at
	}
	return moment(h.Solicitacao)
}

// fact is what a refund says. One that was asked for is a refund. One that was
// not is a dispute that is lost once it is done; before that, and when it does
// not come about, nothing of it has happened.
func (d *refund) fact(pixID string) (f payment.Fact, ok bool) {
	f = payment.Fact{Kind: payment.FactRefund, ID: pixID + ":" + d.id, Amount: payment.Of(d.cents), Refund: d.state, OneSum: true, At: d.at}
	if !d.unasked {
		return f, true
	}
	f.Kind, f.Refund, f.Dispute = payment.FactDispute, "", payment.DisputeLost
	return f, d.state == payment.RefundSucceeded
}

var plainWord = regexp.MustCompile(`^[A-Z_]{1,40}$`)

// word quotes a status word in an error, when it is no more than a word.
func word(t provider.Text) string {
	if plainWord.MatchString(string(t)) {
		return string(t)
	}
	return "(not a plain word)"
}
