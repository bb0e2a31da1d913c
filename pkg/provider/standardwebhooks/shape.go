package standardwebhooks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// shape says where things are in the bodies of one sender, and what they mean.
type shape struct {
	typ        jsonpath.Path
	events     byType[meaning]
	status     jsonpath.Path
	statuses   map[string]payment.Status
	at         jsonpath.Path
	timeFormat string
	sequence   jsonpath.Path
	paymentID  byType[jsonpath.Path]
	livemode   jsonpath.Path
	test       jsonpath.Path

	sums       sums
	netMissing string
	reference  jsonpath.Path
	owner      jsonpath.Path

	refundID, refundAmount, refundTotal jsonpath.Path
	disputeID, disputeAmount            jsonpath.Path
}

// sums says where amounts are, in what unit, of what currency.
type sums struct {
	amount, fee, net jsonpath.Path
	decimal          bool
	currency         string // "": at currencyAt
	currencyAt       jsonpath.Path
}

// The formats of times.
const (
	timeRFC3339 = "rfc3339"
	timeUnix    = "unix"
	timeUnixMS  = "unix_ms"
)

// What to do where no net amount is.
const (
	netByFee    = "fee"
	netByLookup = "lookup"
	netGross    = "gross"
)

// shape reads all settings about bodies.
func (r *reader) shape() shape {
	s := shape{
		typ: r.path("TYPE_PATH"), events: r.events(), status: r.path("STATUS_PATH"), statuses: words(r, "STATUS_MAP", statuses),
		at: r.path("TIMESTAMP_PATH"), timeFormat: r.one("TIME_FORMAT", timeRFC3339, timeUnix, timeUnixMS), sequence: r.path("SEQUENCE_PATH"),
		paymentID: r.paymentIDs(), livemode: r.path("LIVEMODE_PATH"), test: r.path("TEST_PATH"),
		sums: sums{
			amount: r.path("AMOUNT_PATH"), fee: r.path("FEE_PATH"), net: r.path("NET_PATH"), decimal: r.decimal("AMOUNT_UNIT"),
			currency: r.currency("CURRENCY"), currencyAt: r.path("CURRENCY_PATH"),
		},
		netMissing: r.one("NET_MISSING", netByFee, netByLookup, netGross),
		reference:  r.path("REFERENCE_PATH"), owner: r.path("BENEFICIARY_PATH"),
		refundID: r.path("REFUND_ID_PATH"), refundAmount: r.path("REFUND_AMOUNT_PATH"), refundTotal: r.path("REFUND_TOTAL_PATH"),
		disputeID: r.path("DISPUTE_ID_PATH"), disputeAmount: r.path("DISPUTE_AMOUNT_PATH"),
	}
	if s.sums.currency != "" && s.sums.currencyAt != nil {
		r.fault("CURRENCY", "and %s are both set; keep one", r.name("CURRENCY_PATH"))
	}
	r.completeShape()
	r.completeRefunds(&s)
	return s
}

// completeShape names what a shape cannot do without: nothing has a default
// where the sender is not known.
func (r *reader) completeShape() {
	var missing []string
	for _, setting := range []string{"TYPE_PATH", "EVENTS", "PAYMENT_ID_PATH", "AMOUNT_PATH", "AMOUNT_UNIT"} {
		if !r.get(setting).set() {
			missing = append(missing, setting)
		}
	}
	if !r.get("CURRENCY").set() && !r.get("CURRENCY_PATH").set() {
		missing = append(missing, "CURRENCY")
	}
	if r.get("DEDUPE").text == string(dedupeFields) && !r.get("DEDUPE_FIELDS").set() {
		missing = append(missing, "DEDUPE_FIELDS")
	}
	r.need("to read this sender's bodies", missing)
	if r.get("STATUS_PATH").set() != r.get("STATUS_MAP").set() {
		r.fault("STATUS_PATH", "and %s go together; set both or none", r.name("STATUS_MAP"))
	}
}

// completeRefunds checks what the meanings of the table ask for.
func (r *reader) completeRefunds(s *shape) {
	if has(&s.events, meansByStatus) && s.status == nil {
		r.fault("EVENTS", "has a type that means %s, and %s is not set", meansByStatus, r.src.Variable("STATUS_PATH"))
	}
	if has(&s.events, meansRefund, meansPartly) && s.refundID == nil && s.refundTotal == nil {
		r.fault("EVENTS", "has a type about refunds; set %s with %s, or %s, since a refund without a name or a total cannot be told from its repetition",
			r.src.Variable("REFUND_ID_PATH"), r.src.Variable("REFUND_AMOUNT_PATH"), r.src.Variable("REFUND_TOTAL_PATH"))
	}
	if has(&s.events, meansRefundFailed, meansRefundPending) && s.refundID == nil {
		r.fault("EVENTS", "has a type about a refund's fate, and %s is not set", r.src.Variable("REFUND_ID_PATH"))
	}
	if s.refundID != nil && s.refundAmount == nil {
		r.fault("REFUND_ID_PATH", "is set, and %s is not; a refund is booked by both", r.src.Variable("REFUND_AMOUNT_PATH"))
	}
}

// time reads the time of the event; zero where the sender does not say, or
// not in the configured way. Where it says whole seconds, the sequence tells
// events of the same second apart: it counts as microseconds, which no clock
// of a payment minds, up to the end of the second.
func (s *shape) time(body jsontext.Value) time.Time {
	text, err := s.at.Text(body)
	if s.at == nil || err != nil || text == "" {
		return time.Time{}
	}
	var at time.Time
	whole := false
	if s.timeFormat == timeRFC3339 {
		if at, err = time.Parse(time.RFC3339, string(text)); err != nil {
			return time.Time{}
		}
		whole = !strings.ContainsAny(string(text), ".,")
	} else {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || n <= 0 || n > 253402300799000 {
			return time.Time{}
		}
		if s.timeFormat == timeUnix && n > 253402300799 {
			return time.Time{}
		}
		if at, whole = time.Unix(n, 0), true; s.timeFormat == timeUnixMS {
			at, whole = time.UnixMilli(n), false
		}
	}
	if whole && s.sequence != nil {
		const last = 999_999
		number, err := s.sequence.Number(body)
		if err == nil && number != "" {
			if n, err := strconv.ParseUint(string(number), 10, 64); err == nil {
				at = at.Add(time.Duration(min(n, last)) * time.Microsecond)
			}
		}
	}
	if y := at.UTC().Year(); y < 1970 || y > 9999 {
		return time.Time{}
	}
	return at.UTC()
}

// isTest reads the marks of tests. What is neither true nor false is an
// error: it must not be taken for a live event.
func (s *shape) isTest(body jsontext.Value) (bool, error) {
	for _, mark := range []struct {
		at   jsonpath.Path
		test bool
	}{{s.livemode, false}, {s.test, true}} {
		if mark.at == nil {
			continue
		}
		switch v := mark.at.In(body); strings.Trim(string(v), `"`) {
		case "true":
			if mark.test {
				return true, nil
			}
		case "false":
			if !mark.test {
				return true, nil
			}
		case "", "null":
		default:
			return false, fmt.Errorf("%s is neither true nor false", mark.at)
		}
	}
	return false, nil
}

var errAmount = errors.New("not an amount")

// read reads an amount; unknown when nothing is at the path.
func (s *sums) read(v jsontext.Value, at jsonpath.Path, currency string) (payment.Minor, error) {
	if at == nil {
		return payment.Minor{}, nil
	}
	n, err := at.Number(v)
	if err != nil {
		return payment.Minor{}, fmt.Errorf("%w: %s is not a number", errAmount, at)
	}
	if n == "" {
		return payment.Minor{}, nil
	}
	var minor int64
	switch {
	case !s.decimal:
		minor, err = money.ParseMinor(string(n))
	case currency == "":
		return payment.Minor{}, fmt.Errorf("%w: %s has no currency beside it, so its decimals cannot be read", errAmount, at)
	default:
		minor, err = money.ParseDecimal(string(n), currency)
	}
	switch {
	case err != nil:
		return payment.Minor{}, fmt.Errorf("%w (%s)", err, at)
	case minor < 0:
		return payment.Minor{}, fmt.Errorf("%w: %s is below zero", errAmount, at)
	}
	return payment.Of(minor), nil
}

// code reads the currency; "" when the value does not say.
func (s *sums) code(v jsontext.Value) (string, error) {
	if s.currency != "" || s.currencyAt == nil {
		return s.currency, nil
	}
	text, err := s.currencyAt.Text(v)
	if err != nil {
		return "", fmt.Errorf("%s is not a text", s.currencyAt)
	}
	if text == "" {
		return "", nil
	}
	code, err := money.Currency(string(text))
	if err != nil {
		return "", fmt.Errorf("%s is not an ISO 4217 code", s.currencyAt)
	}
	return code, nil
}

// kept reads what the sender kept of a gross amount: the fee, or the gross
// amount less the net one. netKnown says whether a net amount is there.
func (s *sums) kept(v jsontext.Value, gross payment.Minor, currency string) (fee payment.Minor, netKnown bool, err error) {
	if fee, err = s.read(v, s.fee, currency); err != nil {
		return fee, false, err
	}
	net, err := s.read(v, s.net, currency)
	if err != nil {
		return fee, false, err
	}
	if fee.Known && gross.Known && fee.Value > gross.Value {
		return fee, false, fmt.Errorf("%w: %s is above %s", errAmount, s.fee, s.amount)
	}
	if !net.Known || !gross.Known {
		return fee, net.Known, nil
	}
	if net.Value > gross.Value {
		return fee, true, fmt.Errorf("%w: %s is above %s", errAmount, s.net, s.amount)
	}
	rest := payment.Of(gross.Value - net.Value)
	if fee.Known && fee != rest {
		return fee, true, fmt.Errorf("%w: %s is not %s less %s", errAmount, s.net, s.amount, s.fee)
	}
	return rest, true, nil
}
