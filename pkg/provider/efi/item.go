package efi

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// currency of all of Pix; the bodies do not say.
const currency = "BRL"

// item is one element of a callback's list, and the API's answer about a Pix.
// What no money depends on is read with a lenient hand, later.
type item struct {
	EndToEndID provider.Text   `json:"endToEndId"`
	TxID       provider.Text   `json:"txid"`
	Valor      provider.Number `json:"valor"`
	Horario    jsontext.Value  `json:"horario"`
	Devolucoes []devolucao     `json:"devolucoes"`
	GNExtras   jsontext.Value  `json:"gnExtras"`

	// Of Pix that we sent.
	Tipo   jsontext.Value `json:"tipo"`
	Status jsontext.Value `json:"status"`
}

// extras are Efí's own additions to the standard's item. The payer's name and
// document are among them, and stay unread.
type extras struct {
	IDEnvio jsontext.Value `json:"idEnvio"`
	Tarifa  jsontext.Value `json:"tarifa"`
}

// received is a Pix that was paid to us, in our terms.
type received struct {
	id, txid string
	cents    int64
	at       time.Time // of the settlement; zero when unreadable
	fee      payment.Minor
	refunds  []refund // sorted by id
}

// namesPix is the shape of an endToEndId. The standard's have 32 characters;
// the examples of Efí's pages, and so perhaps its sandbox, have fewer.
var namesPix = regexp.MustCompile(`^E[0-9A-Za-z]{1,63}$`)

// extras reads gnExtras; absent and empty are the same.
func (it *item) extras() (x extras, err error) {
	if provider.Empty(it.GNExtras) {
		return x, nil
	}
	if err := provider.Decode(it.GNExtras, &x); err != nil {
		return x, fmt.Errorf("gnExtras: %w", err)
	}
	return x, nil
}

// outgoing says whether the item is about a Pix that we sent: money out, which
// looks like money in but for these two fields.
func (it *item) outgoing(x extras) bool { return present(it.Tipo) || present(x.IDEnvio) }

func present(v jsontext.Value) bool {
	t := string(bytes.TrimSpace(v))
	return t != "" && t != "null" && t != `""`
}

// received reads an item that is not about a Pix that we sent. Errors name
// fields, never values.
func (p *Provider) received(it *item, x extras) (*received, error) {
	r := &received{id: string(it.EndToEndID), txid: string(it.TxID), at: moment(it.Horario)}
	switch {
	case !namesPix.MatchString(r.id):
		return nil, errors.New("endToEndId is missing, or is not letters and digits that begin with E")
	case r.txid == "":
		return nil, errors.New("txid is missing: this is neither a Pix that paid a charge nor, without tipo and gnExtras.idEnvio, one that we sent")
	case !it.TxID.Clean():
		return nil, errors.New("txid is not a clean identifier")
	}
	var err error
	if r.cents, err = amount(it.Valor, "valor"); err != nil {
		return nil, err
	}
	if r.cents == 0 {
		return nil, errors.New("valor is zero")
	}
	if r.fee, err = p.fee(x); err != nil {
		return nil, err
	}
	if r.refunds, err = refundsOf(it.Devolucoes); err != nil {
		return nil, err
	}
	return r, nil
}

// fee is what Efí kept, as far as it is established: gnExtras.tarifa where
// there is one. None and zero are not claimed as a fee: one may be told later.
func (p *Provider) fee(x extras) (payment.Minor, error) {
	if p.noFee || !present(x.Tarifa) {
		return payment.Minor{}, nil
	}
	var n provider.Number
	if err := provider.Decode(x.Tarifa, &n); err != nil {
		return payment.Minor{}, fmt.Errorf("gnExtras.tarifa: %w", err)
	}
	cents, err := amount(n, "gnExtras.tarifa")
	if err != nil || cents == 0 {
		return payment.Minor{}, err
	}
	return payment.Of(cents), nil
}

// amount reads decimal reais into cents, zero or more.
func amount(n provider.Number, field string) (int64, error) {
	if n == "" {
		return 0, fmt.Errorf("%s is missing", field)
	}
	cents, err := money.ParseDecimal(string(n), currency)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w (%s)", err, field)
	case cents < 0:
		return 0, fmt.Errorf("%s is below zero", field)
	}
	return cents, nil
}

// moment reads a time; what is none is the zero time, which means that Efí
// did not say.
func moment(v jsontext.Value) time.Time {
	var t provider.Text
	if len(v) == 0 || provider.Decode(v, &t) != nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// latest is the time of the newest thing that the item tells.
func (r *received) latest() time.Time {
	at := r.at
	for _, d := range r.refunds {
		if d.at.After(at) {
			at = d.at
		}
	}
	return at
}

// key names the state that the item tells. Efí gives its callbacks no id, and
// repeats the whole item each time, so an item is known by all of it that can
// move money: exact repeats collapse, however they are written or ordered, and
// every new state of a refund passes. What else a sender adds (names, notes)
// makes no new event.
func (r *received) key() string {
	parts := []string{r.id, r.txid, strconv.FormatInt(r.cents, 10), ""}
	if r.fee.Known {
		parts[3] = strconv.FormatInt(r.fee.Value, 10)
	}
	for _, d := range r.refunds {
		parts = append(parts, d.id, strconv.FormatInt(d.cents, 10), string(d.state), strconv.FormatBool(d.unasked))
	}
	return event.Key("pix", parts...)
}
