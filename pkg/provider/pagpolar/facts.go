package pagpolar

import (
	"errors"
	"strings"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Facts implements provider.Provider. A body names no amount, so what it
// claims needs a lookup before it can move money. Types that are not listed
// here (a refund was asked for; all names that PagPolar has not published)
// claim nothing but that the sale should be looked at.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	var env envelope
	if err := provider.Decode(e.Body, &env); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(env.Event), transactions) || isEmptyData(env.Data) {
		return nil, nil
	}
	sale, err := p.saleID.Text(env.Data)
	if err != nil || sale == "" || !sale.Clean() {
		return nil, errors.New("the sale's id is missing or not a clean identifier")
	}
	claim := payment.Claim{GatewayID: string(sale), Reason: string(env.Event), Beneficiary: p.src.Beneficiary}
	switch env.Event {
	case "TRANSACTION_PAID":
		claim.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}}
	case "TRANSACTION_CREATED":
		claim.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPending}}
	}
	return []payment.Claim{claim}, nil
}
