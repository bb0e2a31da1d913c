package pagarme

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// maxPages bounds the payables of one charge: one an instalment and recipient.
const maxPages = 20

// payable is what of a charge is, or will be, paid out to one recipient.
type payable struct {
	ChargeID         provider.Text   `json:"charge_id"`
	Type             provider.Text   `json:"type"`
	Installment      provider.Number `json:"installment"`
	Fee              provider.Number `json:"fee"`
	AnticipationFee  provider.Number `json:"anticipation_fee"`
	FraudCoverageFee provider.Number `json:"fraud_coverage_fee"`
}

type page struct {
	Data   *[]payable                `json:"data"`
	Paging map[string]jsontext.Value `json:"paging"`
}

// fees asks what Pagar.me kept of a captured charge. Only payables of the type
// credit count: which sign the fees of refunds and chargebacks have is not
// established.
func (p *Provider) fees(ctx context.Context, client *http.Client, ref string) ([]payment.Fact, error) {
	query := url.Values{"charge_id": {ref}}
	sums := feeSums{ref: ref}
	for range maxPages {
		var list page
		err := p.get(ctx, client, &list, query, "payables")
		if errors.Is(err, provider.ErrNotFound) {
			err = fmt.Errorf("%w: there are no payables; set %s=false if this is no PSP account", provider.ErrUnreadable, p.src.Variable("PAYABLES"))
		}
		if err != nil {
			return nil, err
		}
		if list.Data == nil {
			return nil, fmt.Errorf("%w: the payables have no data", provider.ErrUnreadable)
		}
		for i := range *list.Data {
			if err := sums.add(&(*list.Data)[i]); err != nil {
				return nil, err
			}
		}
		next, err := list.next(query)
		if err != nil {
			return nil, err
		}
		if err := list.count(sums.items, next == nil); err != nil {
			return nil, err
		}
		if next == nil {
			return sums.facts(), nil
		}
		query = next
	}
	return nil, fmt.Errorf("%w: the payables of the charge have more than %d pages", provider.ErrUnreadable, maxPages)
}

// count compares what came with paging.total, where the answer has one. A list
// that is read while it grows, or from servers that lag, ends too early.
func (l *page) count(items int, last bool) error {
	var text provider.Number
	if err := provider.Decode(l.Paging["total"], &text); err != nil || text == "" {
		return nil // it says no number
	}
	total, err := money.ParseMinor(string(text))
	if err != nil || total < int64(items) || last && total > int64(items) {
		return &provider.RetryError{Err: errors.New("the list of payables changed while it was read")}
	}
	return nil
}

// next gives the query of the next page, nil after the last. Of the link in
// paging.next only the query is used, never the address. An answer that goes
// on in a way which we cannot follow is refused: a part of the fees would pass
// for all of them.
func (l *page) next(asked url.Values) (url.Values, error) {
	var link provider.Text
	if v, ok := l.Paging["next"]; ok {
		if err := provider.Decode(v, &link); err != nil {
			return nil, fmt.Errorf("%w: paging.next is not a text", provider.ErrUnreadable)
		}
	}
	if link == "" {
		for name, v := range l.Paging {
			if strings.Contains(name, "cursor") && !strings.Contains(name, "back") && !strings.Contains(name, "prev") &&
				!provider.Empty(v) && string(v) != `""` {
				return nil, fmt.Errorf("%w: the payables go on behind a cursor without a link in paging.next", provider.ErrUnreadable)
			}
		}
		return nil, nil
	}
	u, err := url.Parse(string(link))
	if err != nil || u.RawQuery == "" {
		return nil, fmt.Errorf("%w: paging.next is not a link", provider.ErrUnreadable)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: paging.next is not a link", provider.ErrUnreadable)
	}
	query["charge_id"] = asked["charge_id"] // it stays about this charge
	if query.Encode() == asked.Encode() {
		return nil, fmt.Errorf("%w: paging.next leads to the same page", provider.ErrUnreadable)
	}
	return query, nil
}

// feeSums adds fees up: what was kept for the charge itself under the charge's
// id, and for each instalment that was paid out early under an id of its own,
// since that happens later, one by one.
type feeSums struct {
	ref      string
	items    int
	credits  int
	base     int64
	advanced map[int64]int64 // by instalment
}

func (s *feeSums) add(item *payable) error {
	s.items++
	if item.ChargeID != "" && string(item.ChargeID) != s.ref {
		return fmt.Errorf("%w: a payable is of another charge", provider.ErrMismatch)
	}
	if item.Type != "credit" {
		return nil
	}
	s.credits++
	fault := func(field string, err error) error {
		return fmt.Errorf("%w: %w (payable's %s)", provider.ErrUnreadable, err, field)
	}
	number := func(n provider.Number, field string) (int64, error) {
		v, err := cents(n)
		if err != nil {
			return 0, fault(field, err)
		}
		return v.Value, nil
	}
	instalment, err := number(item.Installment, "installment")
	if err != nil {
		return err
	}
	for field, n := range map[string]provider.Number{"fee": item.Fee, "fraud_coverage_fee": item.FraudCoverageFee} {
		v, err := number(n, field)
		if err != nil {
			return err
		}
		if s.base, err = money.Add(s.base, v); err != nil {
			return fault(field, err)
		}
	}
	v, err := number(item.AnticipationFee, "anticipation_fee")
	if err != nil || v == 0 {
		return err
	}
	if s.advanced == nil {
		s.advanced = map[int64]int64{}
	}
	if s.advanced[instalment], err = money.Add(s.advanced[instalment], v); err != nil {
		return fault("anticipation_fee", err)
	}
	return nil
}

// facts are the fees. A captured charge has a payable at least; without one
// the fee is not known yet, which is not zero, and is asked for again.
func (s *feeSums) facts() []payment.Fact {
	base := payment.Fact{Kind: payment.FactFee, ID: s.ref}
	if s.credits > 0 {
		base.Amount = payment.Of(s.base)
	}
	facts := []payment.Fact{base}
	for _, instalment := range slices.Sorted(maps.Keys(s.advanced)) {
		facts = append(facts, payment.Fact{
			Kind: payment.FactFee, ID: s.ref + ":anticipation:" + strconv.FormatInt(instalment, 10), Amount: payment.Of(s.advanced[instalment]),
		})
	}
	return facts
}
