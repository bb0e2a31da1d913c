package standardwebhooks

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// api is what must be known of a sender's API before anything can be looked
// up. All of it comes from settings:
//
//	API_BASE, API_KEY      the address, and the key
//	API_AUTH               the header that carries the key; "Authorization:
//	                       Bearer {key}" in the profile generic
//	LOOKUP_URL             address of a payment below API_BASE, with {id} as a
//	                       part of its own: "/charges/{id}", "/search?code={id}"
//	LOOKUP_ID_PATH         where the answer repeats the payment's id
//	LOOKUP_STATUS_PATH     where it keeps the status, and
//	LOOKUP_STATUS_MAP      what the words mean: "PAID=paid,EXPIRED=expired"
//	LOOKUP_AMOUNT_PATH     where it keeps the gross amount, in
//	LOOKUP_AMOUNT_UNIT     minor or decimal units; AMOUNT_UNIT unless set, of
//	LOOKUP_CURRENCY_PATH   the currency there, or the one of CURRENCY
//	LOOKUP_FEE_PATH, LOOKUP_NET_PATH, LOOKUP_REFERENCE_PATH,
//	LOOKUP_BENEFICIARY_PATH, LOOKUP_REFUND_TOTAL_PATH   optional
//
// Refunds are told apart when all of these are set; the list is in the
// payment's answer, or in that of LOOKUP_REFUNDS_URL:
//
//	LOOKUP_REFUNDS_PATH, LOOKUP_REFUND_ID_PATH, LOOKUP_REFUND_AMOUNT_PATH,
//	LOOKUP_REFUND_STATUS_PATH
//	LOOKUP_REFUND_STATUS_MAP   "DONE=succeeded,OPEN=pending,DENIED=failed"
//
// And disputes likewise, always in the payment's answer:
//
//	LOOKUP_DISPUTES_PATH, LOOKUP_DISPUTE_ID_PATH, LOOKUP_DISPUTE_AMOUNT_PATH,
//	LOOKUP_DISPUTE_STATUS_PATH
//	LOOKUP_DISPUTE_STATUS_MAP  "OPEN=open,WON=won,LOST=lost,ASKED=inquiry"
type api struct {
	base     string
	header   http.Header
	payment  address
	id       jsonpath.Path
	status   jsonpath.Path
	statuses map[string]payment.Status
	sums     sums
	// reference and owner as in shape; total is all that was refunded.
	reference, owner, total jsonpath.Path
	refunds                 *listed[payment.RefundState]
	refundsAt               address // nil: in the payment's answer
	disputes                *listed[payment.DisputeState]
}

// listed says where a list is, and where in its elements things are.
type listed[S ~string] struct {
	list, id, amount, status jsonpath.Path
	states                   map[string]S
	setting                  string // of the table of states
}

// placeholder stands for the payment's id in addresses.
const placeholder = "{id}"

// address is a template below the API's base. nil is none.
type address func(id string) (segments []string, query url.Values)

// api returns nil when the source has no access to an API. Half an access is a
// fault: someone wanted it.
func (r *reader) api(s shape) *api {
	wanted := r.src.APIKey != "" || r.src.APIBase != ""
	for setting := range r.held {
		wanted = wanted || strings.HasPrefix(setting, "LOOKUP_") || setting == "API_AUTH"
	}
	if !wanted {
		return nil
	}
	a := &api{
		base: r.src.APIBase, header: r.auth(), payment: r.address("LOOKUP_URL"),
		id: r.path("LOOKUP_ID_PATH"), status: r.path("LOOKUP_STATUS_PATH"), statuses: words(r, "LOOKUP_STATUS_MAP", statuses),
		sums: sums{
			amount: r.path("LOOKUP_AMOUNT_PATH"), fee: r.path("LOOKUP_FEE_PATH"), net: r.path("LOOKUP_NET_PATH"),
			decimal: s.sums.decimal, currency: s.sums.currency, currencyAt: r.path("LOOKUP_CURRENCY_PATH"),
		},
		reference: r.path("LOOKUP_REFERENCE_PATH"), owner: r.path("LOOKUP_BENEFICIARY_PATH"), total: r.path("LOOKUP_REFUND_TOTAL_PATH"),
		refunds: lookupList(r, "REFUND", refundStates), disputes: lookupList(r, "DISPUTE", disputeStates),
	}
	if r.get("LOOKUP_AMOUNT_UNIT").set() {
		a.sums.decimal = r.decimal("LOOKUP_AMOUNT_UNIT")
	}
	if a.sums.currencyAt != nil {
		a.sums.currency = "" // the answer's own word
	}
	if r.get("LOOKUP_REFUNDS_URL").set() {
		a.refundsAt = r.address("LOOKUP_REFUNDS_URL")
		if a.refunds == nil {
			r.fault("LOOKUP_REFUNDS_URL", "is set, and %s is not", r.src.Variable("LOOKUP_REFUNDS_PATH"))
		}
	}
	r.completeAPI()
	return a
}

func (r *reader) completeAPI() {
	var missing []string
	if r.src.APIBase == "" {
		missing = append(missing, "API_BASE")
	}
	if r.src.APIKey == "" {
		missing = append(missing, "API_KEY")
	}
	for _, setting := range []string{"API_AUTH", "LOOKUP_URL", "LOOKUP_ID_PATH", "LOOKUP_STATUS_PATH", "LOOKUP_STATUS_MAP", "LOOKUP_AMOUNT_PATH"} {
		if !r.get(setting).set() {
			missing = append(missing, setting)
		}
	}
	if !r.get("LOOKUP_CURRENCY_PATH").set() && !r.get("CURRENCY").set() {
		missing = append(missing, "LOOKUP_CURRENCY_PATH")
	}
	r.need("to look payments up", missing)
}

// lookupList reads the five settings of a list; nil when none of them is set.
func lookupList[S ~string](r *reader, noun string, allowed []S) *listed[S] {
	settings := []string{
		"LOOKUP_" + noun + "S_PATH", "LOOKUP_" + noun + "_ID_PATH", "LOOKUP_" + noun + "_AMOUNT_PATH",
		"LOOKUP_" + noun + "_STATUS_PATH", "LOOKUP_" + noun + "_STATUS_MAP",
	}
	var missing []string
	for _, setting := range settings {
		if !r.get(setting).set() {
			missing = append(missing, setting)
		}
	}
	if len(missing) == len(settings) {
		return nil
	}
	r.need("to read "+strings.ToLower(noun)+"s one by one", missing)
	return &listed[S]{
		list: r.path(settings[0]), id: r.path(settings[1]), amount: r.path(settings[2]), status: r.path(settings[3]),
		states: words(r, settings[4], allowed), setting: r.name(settings[4]),
	}
}

// address reads a template: segments, of which one may be the placeholder, and
// a query, of which one value may be it.
func (r *reader) address(setting string) address {
	text := r.text(setting)
	if text == "" {
		return nil
	}
	path, query, _ := strings.Cut(text, "?")
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	values, err := url.ParseQuery(query)
	plain := err == nil
	ids := 0
	for _, s := range segments {
		plain = plain && s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "#%:") && !strings.ContainsFunc(s, unicode.IsControl)
		ids += count(s, &plain)
	}
	for name, all := range values {
		plain = plain && name != "" && !strings.Contains(name, placeholder)
		for _, v := range all {
			ids += count(v, &plain)
		}
	}
	if !plain || ids != 1 {
		r.fault(setting, "is not an address below %s with %s once, as a part of its own, like /payments/%s or /search?code=%s",
			r.src.Variable("API_BASE"), placeholder, placeholder, placeholder)
		return nil
	}
	return func(id string) ([]string, url.Values) {
		filled := slices.Clone(segments)
		for i, s := range filled {
			if s == placeholder {
				filled[i] = id
			}
		}
		asked := url.Values{}
		for name, all := range values {
			for _, v := range all {
				if v == placeholder {
					v = id
				}
				asked.Add(name, v)
			}
		}
		return filled, asked
	}
}

// count says whether a part is the placeholder, and that it is no mere part of
// one.
func count(part string, plain *bool) int {
	if part == placeholder {
		return 1
	}
	if strings.Contains(part, placeholder) {
		*plain = false
	}
	return 0
}

// auth reads the header that carries the key.
func (r *reader) auth() http.Header {
	text := r.text("API_AUTH")
	if text == "" {
		return nil
	}
	header, err := provider.KeyHeader(text, r.src.APIKey)
	if err != nil {
		r.fault("API_AUTH", "%v", err)
	}
	return header
}

// checkTogether refuses what each setting allows by itself.
func (r *reader) checkTogether(p *Provider) {
	if has(&p.shape.events, meansLookup) && (p.api == nil || r.src.Lookup != provider.LookupAlways) {
		r.fault("EVENTS", "has a type that means %s; set the lookup settings and %s=always", meansLookup, r.src.Variable("LOOKUP"))
	}
	if p.shape.netMissing == netByLookup {
		if p.api == nil || r.src.Lookup == provider.LookupNever || r.src.Lookup == "" || p.api.sums.fee == nil && p.api.sums.net == nil {
			r.fault("NET_MISSING", "is %s; set the lookup settings, and %s or %s", netByLookup, r.src.Variable("LOOKUP_FEE_PATH"), r.src.Variable("LOOKUP_NET_PATH"))
		}
	}
}
