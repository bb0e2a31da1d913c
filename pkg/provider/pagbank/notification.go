package pagbank

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// notification is a body of format B.
type notification struct{ code, about string }

// maxNotification bounds a form: strangers may post one, and a code is short.
const maxNotification = 1024

var (
	codePattern  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	aboutPattern = regexp.MustCompile(`^[A-Za-z]{1,32}$`)
)

// readNotification says whether a body is one of format B. Verify, Parse and
// Facts all ask it, since it decides whether a body needs a signature: what
// begins like JSON is never one, so nothing that Facts would read as a charge
// can come in unsigned.
func readNotification(raw []byte) (n notification, ok bool) {
	raw = provider.SkipBOM(raw)
	if len(raw) == 0 || len(raw) > maxNotification || !letter(raw[0]) {
		return n, false
	}
	form, err := provider.DecodeForm(raw)
	if err != nil {
		return n, false
	}
	n = notification{string(form["notificationCode"]), string(form["notificationType"])}
	return n, codePattern.MatchString(n.code) && aboutPattern.MatchString(n.about)
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// message is filed under the code. Whether a code may stand for two changes of
// a transaction is not established, but it may be asked about again at any
// time and gives the state of that time: so a repeat is processed again.
func (n notification) message(raw []byte) provider.Message {
	m := provider.Message{
		DedupeKey: event.Key("notification", n.code), ProviderEventID: n.code, Type: n.about,
		Body: raw, Disposition: provider.Process, Reopen: true,
	}
	if n.about != "transaction" {
		m.DedupeKey, m.Reopen = event.Key("notification", n.about, n.code), false
		m.Disposition, m.Reason = provider.Ignore, provider.ReasonUnknownType
	}
	return m
}

// unresolved is why a form has no facts.
func (p *Provider) unresolved(n notification) error {
	switch {
	case n.about != "transaction":
		return errors.New("notificationType is not transaction")
	case p.email == "":
		return fmt.Errorf("%s is not set, without which PagBank does not say what a notification code is about; set it, and have the event processed again",
			p.src.Variable("EMAIL"))
	}
	return provider.ErrUnresolved
}

// transaction asks the old API what a notification code is about. What the
// code was sent for is not said, only how the transaction stands now.
//
// It is joined with our payment by its reference: how the transaction's code
// maps to a charge is not established.
func (p *Provider) transaction(ctx context.Context, client *http.Client, code string) ([]payment.Claim, error) {
	if p.email == "" {
		return nil, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("EMAIL"))
	}
	asked := p.now()
	raw, err := provider.GetBytes(ctx, client, provider.Call{
		Base: p.notificationBase, Segments: []string{"v3", "transactions", "notifications", code},
		Query: url.Values{"email": {p.email}, "token": {p.src.APIKey.Reveal()}},
	}, "application/xml;charset=ISO-8859-1")
	if err != nil {
		return nil, err
	}
	t, err := readTransaction(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	claim, err := p.transactionClaim(t, asked)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return []payment.Claim{claim}, nil
}

func (p *Provider) transactionClaim(t transaction, asked time.Time) (payment.Claim, error) {
	status, known := transactionStatuses[t.status]
	switch {
	case !known:
		return payment.Claim{}, errors.New("transaction.status is not in the table of PagBank's contract")
	case t.reference == "" || !t.reference.Clean():
		return payment.Claim{}, errors.New("transaction.reference, by which the payment is found, is missing or not a clean text")
	}
	claim := payment.Claim{Reference: string(t.reference), Reason: "transaction." + string(t.status)}
	if status == "" {
		return claim, nil
	}
	gross, err := reais(t.gross, "transaction.grossAmount")
	if err != nil {
		return payment.Claim{}, err
	}
	if gross.Value > 0 {
		claim.Captured = gross
	}
	claim.Currency, claim.Beneficiary = currency, p.src.Owner(claim.Reference)
	if claim.At = instant(t.lastEvent); claim.At.IsZero() {
		claim.At = asked // the state of that moment
	}
	claim.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: status}}
	if status != payment.StatusPaid {
		return claim, nil
	}
	fee, err := t.fee(gross)
	if err != nil {
		return payment.Claim{}, err
	}
	if fee > 0 {
		claim.Facts = append(claim.Facts, payment.Fact{Kind: payment.FactFee, ID: string(t.code), Amount: payment.Of(fee)})
	}
	return claim, nil
}

// fee is what PagBank kept of a transaction that stands as paid. Its fields
// are known from the old API alone, so they are taken only where they account
// for each other to the cent, and where there is a code to name the fee by.
func (t *transaction) fee(gross payment.Minor) (int64, error) {
	kept, err := reais(t.kept, "transaction.feeAmount")
	if err != nil {
		return 0, err
	}
	net, err := reais(t.net, "transaction.netAmount")
	if err != nil {
		return 0, err
	}
	if !kept.Known || !net.Known || kept.Value > gross.Value || gross.Value-kept.Value != net.Value || t.code == "" || !t.code.Clean() {
		return 0, nil
	}
	return kept.Value, nil
}

// reais reads decimal reais into centavos, zero or more; unknown when absent.
func reais(n provider.Text, field string) (payment.Minor, error) {
	if n == "" {
		return payment.Minor{}, nil
	}
	v, err := money.ParseDecimal(string(n), currency)
	switch {
	case err != nil:
		return payment.Minor{}, fmt.Errorf("%w (%s)", err, field)
	case v < 0:
		return payment.Minor{}, fmt.Errorf("the amount is below zero (%s)", field)
	}
	return payment.Of(v), nil
}
