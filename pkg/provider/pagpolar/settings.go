package pagpolar

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// api is what must be known of PagPolar's API before anything can be looked
// up. All of it comes from settings; of the contract only the two paths are
// documented, and have a default.
//
//	API_BASE, API_KEY    the address, and the key
//	API_AUTH             the header that carries the key, for example
//	                     "Authorization: Bearer {key}"
//	SALE_PATH            address of a sale ("/sales/{id}")
//	SALE_ID_PATH         where the answer repeats the sale's id
//	STATUS_PATH          where it keeps the status, and
//	STATUS_MAP           what the words mean: "PAID=paid,EXPIRED=expired"
//	AMOUNT_PATH          where it keeps the gross amount, in
//	AMOUNT_UNIT          minor (centavos) or major (reais) units, of
//	CURRENCY             this currency, or the one at CURRENCY_PATH
//	FEE_PATH, NET_PATH   optional, one of them: what the gateway kept or left
//	REFERENCE_PATH       optional: your order id
//	BENEFICIARY_PATH     optional: whose money it is
//
// Refunds are told apart only when all of these are set:
//
//	REFUNDS_PATH         address of a sale's refunds ("/refunds")
//	REFUNDS_LIST_PATH    where the answer keeps the list ("." is the answer)
//	REFUND_ID_PATH, REFUND_AMOUNT_PATH, REFUND_STATUS_PATH   in an element
//	REFUND_STATUS_MAP    "DONE=succeeded,OPEN=pending,DENIED=failed"
//
// A path is made of names joined by dots ("data.amount.total").
type api struct {
	base       string
	header     http.Header
	sale       []string // segments, one of which is idSegment
	id, status path
	statuses   map[string]payment.Status
	amount     path
	major      bool
	currency   string // "": at currencyAt
	currencyAt path
	fee, net   path
	reference  path
	owner      path
	refunds    *refundsAPI
}

type refundsAPI struct {
	address            []string
	list               path
	id, amount, status path
	states             map[string]payment.RefundState
}

// idSegment stands for the sale's id in SALE_PATH.
const idSegment = "{id}"

// required are the settings without which nothing can be looked up.
var required = []string{"API_BASE", "API_KEY", "API_AUTH", "SALE_ID_PATH", "STATUS_PATH", "STATUS_MAP", "AMOUNT_PATH", "AMOUNT_UNIT"}

var refundSettings = []string{"REFUNDS_LIST_PATH", "REFUND_ID_PATH", "REFUND_AMOUNT_PATH", "REFUND_STATUS_PATH", "REFUND_STATUS_MAP"}

// reader reads settings and collects what is wrong with them. Its messages
// name the variable; they never repeat the value.
type reader struct {
	src    provider.Source
	faults []error
}

func (r *reader) fault(setting, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("source %s: %s %s", r.src.Name(), r.src.Variable(setting), fmt.Sprintf(format, args...)))
}

func (r *reader) err() error { return errors.Join(r.faults...) }

func (r *reader) value(setting string) string {
	switch setting {
	case "API_BASE":
		return r.src.APIBase
	case "API_KEY":
		return r.src.APIKey.Reveal()
	}
	return r.src.Value(setting, "")
}

// api returns nil when the source has no access to the API. Half an access is
// a fault: someone wanted it.
func (r *reader) api() *api {
	var missing []string
	for _, s := range required {
		if r.value(s) == "" {
			missing = append(missing, r.src.Variable(s))
		}
	}
	if r.value("CURRENCY") == "" && r.value("CURRENCY_PATH") == "" {
		missing = append(missing, r.src.Variable("CURRENCY")+" or "+r.src.Variable("CURRENCY_PATH"))
	}
	a := &api{
		base:       r.src.APIBase,
		header:     r.auth(),
		sale:       r.segments("SALE_PATH", "/sales/"+idSegment, true),
		id:         r.path("SALE_ID_PATH", ""),
		status:     r.path("STATUS_PATH", ""),
		statuses:   readMap(r, "STATUS_MAP", statuses),
		amount:     r.path("AMOUNT_PATH", ""),
		major:      r.unit(),
		currency:   r.currency(),
		currencyAt: r.path("CURRENCY_PATH", ""),
		fee:        r.path("FEE_PATH", ""),
		net:        r.path("NET_PATH", ""),
		reference:  r.path("REFERENCE_PATH", ""),
		owner:      r.path("BENEFICIARY_PATH", ""),
		refunds:    r.refunds(),
	}
	if a.fee != nil && a.net != nil {
		r.fault("FEE_PATH", "and %s are both set; keep one", r.src.Variable("NET_PATH"))
	}
	if len(missing) == 0 {
		return a
	}
	if r.src.APIKey != "" || r.src.APIBase != "" {
		r.faults = append(r.faults, fmt.Errorf("source %s: to look sales up, set also %s; PagPolar's answers are not published, so these have no default",
			r.src.Name(), strings.Join(missing, ", ")))
	}
	return nil
}

func (r *reader) refunds() *refundsAPI {
	var missing []string
	for _, s := range refundSettings {
		if r.value(s) == "" {
			missing = append(missing, r.src.Variable(s))
		}
	}
	if len(missing) == len(refundSettings) {
		return nil
	}
	if len(missing) > 0 {
		r.faults = append(r.faults, fmt.Errorf("source %s: to read refunds, set also %s, or none of the refund settings", r.src.Name(), strings.Join(missing, ", ")))
	}
	return &refundsAPI{
		address: r.segments("REFUNDS_PATH", "/refunds", false),
		list:    r.path("REFUNDS_LIST_PATH", ""),
		id:      r.path("REFUND_ID_PATH", ""),
		amount:  r.path("REFUND_AMOUNT_PATH", ""),
		status:  r.path("REFUND_STATUS_PATH", ""),
		states:  readMap(r, "REFUND_STATUS_MAP", refundStates),
	}
}

func (r *reader) path(setting, otherwise string) path {
	text := r.src.Value(setting, otherwise)
	if text == "" {
		return nil
	}
	p, ok := jsonpath.Parse(text)
	if !ok {
		r.fault(setting, "is not names joined by dots, like data.id")
	}
	return p
}

func (r *reader) flag(setting string) bool {
	text := r.src.Value(setting, "false")
	on, err := strconv.ParseBool(text)
	if err != nil {
		r.fault(setting, "is neither true nor false")
	}
	return on
}

func (r *reader) unit() bool {
	switch r.value("AMOUNT_UNIT") {
	case "", "minor":
		return false
	case "major":
		return true
	}
	r.fault("AMOUNT_UNIT", "is neither minor (1234 is BRL 12.34) nor major (12.34 is)")
	return false
}

func (r *reader) currency() string {
	text := r.value("CURRENCY")
	if text == "" {
		return ""
	}
	if r.value("CURRENCY_PATH") != "" {
		r.fault("CURRENCY", "and %s are both set; keep one", r.src.Variable("CURRENCY_PATH"))
	}
	code, err := money.Currency(text)
	if err != nil {
		r.fault("CURRENCY", "is not an ISO 4217 code like BRL")
	}
	return code
}

// segments reads an address below API_BASE.
func (r *reader) segments(setting, otherwise string, withID bool) []string {
	text := r.src.Value(setting, otherwise)
	segments := strings.Split(strings.TrimPrefix(text, "/"), "/")
	ids := 0
	for _, s := range segments {
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "?#%") {
			r.fault(setting, "is not a plain path like %s", otherwise)
			return nil
		}
		if s == idSegment {
			ids++
		}
	}
	if withID && ids != 1 {
		r.fault(setting, "does not have %s once, as a part of its own, as in %s", idSegment, otherwise)
	}
	return segments
}

// auth reads the header that carries the key.
func (r *reader) auth() http.Header {
	text := r.value("API_AUTH")
	if text == "" {
		return nil
	}
	header, err := provider.KeyHeader(text, r.src.APIKey)
	if err != nil {
		r.fault("API_AUTH", "%v", err)
	}
	return header
}

var statuses = []payment.Status{
	payment.StatusPending, payment.StatusAuthorized, payment.StatusPaid, payment.StatusPartiallyRefunded, payment.StatusRefunded,
	payment.StatusFailed, payment.StatusCanceled, payment.StatusExpired, payment.StatusDisputed, payment.StatusChargedBack,
}

var refundStates = []payment.RefundState{payment.RefundPending, payment.RefundSucceeded, payment.RefundFailed}

// readMap reads "WORD=status,WORD=status".
func readMap[S ~string](r *reader, setting string, allowed []S) map[string]S {
	text := r.value(setting)
	if text == "" {
		return nil
	}
	m := map[string]S{}
	for i, pair := range strings.Split(text, ",") {
		word, status, ok := strings.Cut(pair, "=")
		word, status = strings.TrimSpace(word), strings.TrimSpace(status)
		_, twice := m[word]
		switch {
		case !ok || word == "" || status == "":
			r.fault(setting, "has an entry, number %d, that is not WORD=status", i+1)
		case twice:
			r.fault(setting, "has an entry, number %d, whose word was mapped before", i+1)
		case !slices.Contains(allowed, S(status)):
			r.fault(setting, "has an entry, number %d, whose status is none of %s", i+1, join(allowed))
		default:
			m[word] = S(status)
		}
	}
	return m
}

func join[S ~string](words []S) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
