package asaas

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// refundItem is one element of a payment's list of refunds. It has no id.
type refundItem struct {
	DateCreated provider.Text   `json:"dateCreated"`
	Status      provider.Text   `json:"status"`
	Value       provider.Number `json:"value"`
}

// refundStates are the known words; of any other item nothing is said.
var refundStates = map[provider.Text]payment.RefundState{
	"DONE":      payment.RefundSucceeded,
	"PENDING":   payment.RefundPending,
	"CANCELLED": payment.RefundFailed,
}

// refundFacts turns the list into facts and sums up what was refunded.
//
// Each refund gets an id made of its payment, its time, its amount and its
// place among those that have the same time and amount. Among these the ones
// that are done come first, then those pending, then cancelled ones: so the
// order of the list is of no account, and a twin that becomes done or is
// cancelled takes an id that allows it.
func refundFacts(paymentRef string, items []refundItem) (facts []payment.Fact, done int64, err error) {
	type item struct {
		refundItem
		cents int64
	}
	list := make([]item, 0, len(items))
	for i, it := range items {
		cents, err := amount(it.Value, "payment.refunds["+strconv.Itoa(i)+"].value")
		if err != nil {
			return nil, 0, err
		}
		switch {
		case cents == 0:
			return nil, 0, fmt.Errorf("payment.refunds[%d].value is zero", i)
		case !it.DateCreated.Clean():
			return nil, 0, fmt.Errorf("payment.refunds[%d].dateCreated is not a clean text", i)
		}
		list = append(list, item{it, cents})
	}
	slices.SortStableFunc(list, func(a, b item) int {
		return cmp.Or(
			cmp.Compare(a.DateCreated, b.DateCreated),
			cmp.Compare(a.cents, b.cents),
			cmp.Compare(refundOrder(a.Status), refundOrder(b.Status)),
		)
	})
	ordinal := 0
	for i, it := range list {
		if i > 0 && it.DateCreated == list[i-1].DateCreated && it.cents == list[i-1].cents {
			ordinal++
		} else {
			ordinal = 0
		}
		state, known := refundStates[it.Status]
		if !known {
			continue
		}
		if state == payment.RefundSucceeded {
			if done, err = money.Add(done, it.cents); err != nil {
				return nil, 0, fmt.Errorf("%w (sum of payment.refunds)", err)
			}
		}
		facts = append(facts, payment.Fact{
			Kind:   payment.FactRefund,
			ID:     fmt.Sprintf("%s:%s:%d:%d", paymentRef, it.DateCreated, it.cents, ordinal),
			Amount: payment.Of(it.cents),
			Refund: state,
		})
	}
	return facts, done, nil
}

func refundOrder(status provider.Text) int {
	switch status {
	case "DONE":
		return 0
	case "PENDING":
		return 1
	case "CANCELLED":
		return 3
	}
	return 2
}
