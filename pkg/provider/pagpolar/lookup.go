package pagpolar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Lookup implements provider.Provider. Everything that it reads from an
// answer, it finds by a setting; what it does not find is ErrUnreadable with
// the setting's name, and moves nothing.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.api == nil {
		return payment.Claim{}, fmt.Errorf("%w: %s and the settings that go with it are not set", provider.ErrRefused, p.src.Variable("API_BASE"))
	}
	segments := make([]string, len(p.api.sale))
	for i, s := range p.api.sale {
		segments[i] = s
		if s == idSegment {
			segments[i] = ref
		}
	}
	var sale jsontext.Value
	if err := p.get(ctx, client, &sale, nil, segments); err != nil {
		return payment.Claim{}, err
	}
	id, err := p.api.id.Text(sale)
	if err != nil || id == "" {
		return payment.Claim{}, p.unreadable("SALE_ID_PATH", "no sale id is there")
	}
	if string(id) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the sale's id is another one", provider.ErrMismatch)
	}
	claim, status, err := p.claim(sale, ref)
	if err != nil {
		return payment.Claim{}, err
	}
	facts, err := p.moneyFacts(ctx, client, claim, status, sale)
	if err != nil {
		return payment.Claim{}, err
	}
	claim.Facts = append(claim.Facts, facts...)
	return claim, nil
}

// claim reads what any sale says: status, amount, whose it is.
func (p *Provider) claim(sale jsontext.Value, ref string) (payment.Claim, payment.Status, error) {
	c := payment.Claim{GatewayID: ref, Reason: "lookup"}
	word, err := p.api.status.Text(sale)
	if err != nil || word == "" {
		return c, "", p.unreadable("STATUS_PATH", "no status is there")
	}
	status, known := p.api.statuses[string(word)]
	if !known {
		return c, "", p.unreadable("STATUS_MAP", "does not have the status "+quoted(word))
	}
	if c.Currency, err = p.currency(sale); err != nil {
		return c, "", err
	}
	amount, err := p.amount(sale, p.api.amount, "AMOUNT_PATH", c.Currency)
	if err != nil {
		return c, "", err
	}
	if p.api.reference != nil {
		if t, err := p.api.reference.Text(sale); err == nil && t.Clean() {
			c.Reference = string(t)
		}
	}
	c.Beneficiary = p.src.Owner(c.Reference)
	if p.api.owner != nil && p.src.Beneficiary == "" {
		if t, err := p.api.owner.Text(sale); err == nil && t != "" && t.Clean() {
			c.Beneficiary = string(t)
		}
	}
	c.Expected = amount
	if !afterCapture(status) {
		c.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: status}}
		return c, status, nil
	}
	if !amount.Known || amount.Value == 0 {
		return c, "", p.unreadable("AMOUNT_PATH", "no amount is there, or it is zero")
	}
	c.Captured = amount
	return c, status, nil
}

func afterCapture(s payment.Status) bool {
	switch s {
	case payment.StatusPaid, payment.StatusPartiallyRefunded, payment.StatusRefunded, payment.StatusDisputed, payment.StatusChargedBack:
		return true
	}
	return false
}

// moneyFacts reads what a captured sale says of its money. "paid" is said only
// while the money stands: payment.Apply takes it, after "disputed", for a
// dispute that was won. A refunded or disputed sale was captured all the same.
func (p *Provider) moneyFacts(ctx context.Context, client *http.Client, c payment.Claim, status payment.Status, sale jsontext.Value) ([]payment.Fact, error) {
	if !afterCapture(status) {
		return nil, nil
	}
	if status == payment.StatusPartiallyRefunded && p.api.refunds == nil {
		return nil, p.unreadable("REFUNDS_LIST_PATH", "and the other refund settings are not set, and a partial refund cannot be booked without them")
	}
	facts, refunded, err := p.refunds(ctx, client, c)
	if err != nil {
		return nil, err
	}
	state := payment.Fact{Kind: payment.FactStatus, Status: status}
	switch {
	case status == payment.StatusPartiallyRefunded:
		state.Status = payment.StatusPaid
		if refunded == 0 { // the list lags behind the sale: more than it names
			facts = append(facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: moreThan(facts), ByID: true})
		}
	case status == payment.StatusRefunded && refunded >= c.Captured.Value:
		state.Kind = "" // the list has said it
	}
	if state.Kind != "" {
		facts = append([]payment.Fact{state}, facts...)
	}
	fee, err := p.fee(sale, c)
	if err != nil {
		return nil, err
	}
	if fee.Known {
		facts = append(facts, payment.Fact{Kind: payment.FactFee, ID: c.GatewayID, Amount: fee})
	}
	return facts, nil
}

// moreThan is an amount above all refunds that were named, which makes
// payment.Apply ask for their ids again.
func moreThan(facts []payment.Fact) payment.Minor {
	sum := int64(1)
	for _, f := range facts {
		var err error
		if sum, err = money.Add(sum, f.Amount.Value); err != nil {
			return payment.Of(math.MaxInt64)
		}
	}
	return payment.Of(sum)
}

// fee reads what the gateway kept; unknown when no setting, or no value, says.
func (p *Provider) fee(sale jsontext.Value, c payment.Claim) (payment.Minor, error) {
	if p.api.fee != nil {
		return p.amount(sale, p.api.fee, "FEE_PATH", c.Currency)
	}
	if p.api.net == nil {
		return payment.Minor{}, nil
	}
	net, err := p.amount(sale, p.api.net, "NET_PATH", c.Currency)
	if err != nil || !net.Known {
		return net, err
	}
	if net.Value > c.Captured.Value {
		return net, p.unreadable("NET_PATH", "the net amount there is above the gross one")
	}
	return payment.Of(c.Captured.Value - net.Value), nil
}

// refunds asks for the sale's refunds, where the settings say how.
func (p *Provider) refunds(ctx context.Context, client *http.Client, c payment.Claim) (facts []payment.Fact, refunded int64, err error) {
	s := p.api.refunds
	if s == nil {
		return nil, 0, nil
	}
	var answer jsontext.Value
	if err := p.get(ctx, client, &answer, url.Values{"sale_identifier": {c.GatewayID}}, s.address); err != nil {
		return nil, 0, err
	}
	var items []jsontext.Value
	if found := s.list.In(answer); found.Kind() != '[' || provider.Decode(found, &items) != nil {
		return nil, 0, p.unreadable("REFUNDS_LIST_PATH", "no list is there")
	}
	for _, item := range items {
		f, err := p.refund(item, c.Currency)
		if err != nil {
			return nil, 0, err
		}
		if f.Refund == payment.RefundSucceeded {
			if refunded, err = money.Add(refunded, f.Amount.Value); err != nil {
				return nil, 0, p.unreadable("REFUND_AMOUNT_PATH", err.Error())
			}
		}
		facts = append(facts, f)
	}
	return facts, refunded, nil
}

func (p *Provider) refund(item jsontext.Value, currency string) (payment.Fact, error) {
	s := p.api.refunds
	id, err := s.id.Text(item)
	if err != nil || id == "" || !id.Clean() {
		return payment.Fact{}, p.unreadable("REFUND_ID_PATH", "no refund id is there")
	}
	amount, err := p.amount(item, s.amount, "REFUND_AMOUNT_PATH", currency)
	if err != nil {
		return payment.Fact{}, err
	}
	if !amount.Known || amount.Value == 0 {
		return payment.Fact{}, p.unreadable("REFUND_AMOUNT_PATH", "no amount is there, or it is zero")
	}
	word, err := s.status.Text(item)
	if err != nil || word == "" {
		return payment.Fact{}, p.unreadable("REFUND_STATUS_PATH", "no status is there")
	}
	state, known := s.states[string(word)]
	if !known {
		return payment.Fact{}, p.unreadable("REFUND_STATUS_MAP", "does not have the status "+quoted(word))
	}
	return payment.Fact{Kind: payment.FactRefund, ID: string(id), Amount: amount, Refund: state}, nil
}

func (p *Provider) currency(sale jsontext.Value) (string, error) {
	if p.api.currency != "" {
		return p.api.currency, nil
	}
	text, err := p.api.currencyAt.Text(sale)
	if err != nil || text == "" {
		return "", p.unreadable("CURRENCY_PATH", "no currency is there")
	}
	code, err := money.Currency(string(text))
	if err != nil {
		return "", p.unreadable("CURRENCY_PATH", "what is there is not an ISO 4217 code")
	}
	return code, nil
}

// amount reads an amount in the configured unit; unknown when nothing is there.
func (p *Provider) amount(v jsontext.Value, at path, setting, currency string) (payment.Minor, error) {
	n, err := at.Number(v)
	if err != nil {
		return payment.Minor{}, p.unreadable(setting, "what is there is not a number")
	}
	if n == "" {
		return payment.Minor{}, nil
	}
	var minor int64
	if p.api.major {
		minor, err = money.ParseDecimal(string(n), currency)
	} else {
		minor, err = money.ParseMinor(string(n))
	}
	switch {
	case errors.Is(err, money.ErrInexact):
		return payment.Minor{}, p.unreadable(setting, err.Error()+"; check "+p.src.Variable("AMOUNT_UNIT"))
	case err != nil:
		return payment.Minor{}, p.unreadable(setting, err.Error())
	case minor < 0:
		return payment.Minor{}, p.unreadable(setting, "the amount there is below zero")
	}
	return payment.Of(minor), nil
}

// unreadable names the setting by which an answer was not understood.
func (p *Provider) unreadable(setting, what string) error {
	return fmt.Errorf("%w: %s: %s", provider.ErrUnreadable, p.src.Variable(setting), what)
}

func (p *Provider) get(ctx context.Context, client *http.Client, v any, query url.Values, segments []string) error {
	return provider.GetJSON(ctx, client, provider.Call{
		Base: p.api.base, Segments: segments, Query: query, Header: p.api.header.Clone(),
	}, v)
}

var plainWord = regexp.MustCompile(`^([A-Z_]{1,40}|[a-z_]{1,40})$`)

// quoted repeats a status word when it is no more than a word: it tells the
// operator what to add. Digits and mixed cases may be an id or a name.
func quoted(word provider.Text) string {
	if plainWord.MatchString(string(word)) {
		return string(word)
	}
	return "of this sale, which is not a plain word"
}
