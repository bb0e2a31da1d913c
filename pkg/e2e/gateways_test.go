package e2e

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gateway is one gateway as it behaves towards us, written by hand from its
// contract: bodies, credentials, and the answers of its API. The zero values
// of its traits are those of most gateways; a file gateway_<name>_test.go
// holds each.
type gateway struct {
	name     string    // in addresses and settings
	label    string    // of subtests, where one gateway is here twice
	accounts []string  // the first one is the one that the cases use
	prefix   string    // of its payment ids
	refused  int       // the answer to wrong credentials
	words    [2]string // the bodies of the answers to success and to wrong credentials

	// Credentials.
	header    string // that carries them; "" when the address does
	signs     bool   // they cover the body
	published bool   // what secretsOf gives is public: names of keys
	minSecret string // a secret that could be one
	secret    func(account, age string) string
	sign      func(account, secret string, body []byte) credentials
	odd       func(value string) credentials // a value where the credentials are

	// Bodies.
	body    func(e hook) []byte
	lacks   string                    // kinds of hook that it does not have, with spaces between
	form    bool                      // forms, not JSON
	kept    func(body []byte) []byte  // what is stored of a request; all of it
	mute    bool                      // bodies say nothing of status or amounts
	vague   bool                      // bodies about a refund claim nothing that could be held against the API
	amount  string                    // of 100.10 in the body of a paid hook, JSON, `"name":value`
	huge    string                    // an amount of the same kind beyond 64 bits; a number
	odds    []string                  // other exact spellings of that amount
	fixed   bool                      // its payment ids have a shape
	idField string                    // the field of a payment's id in bodies; id
	id      func(text string) string  // a payment id made of a text of letters and digits
	hasIDs  bool                      // its events have ids that last
	idless  bool                      // they have none at all
	noDots  bool                      // in them
	note    string                    // the field of a person's text; description
	names   func(event string) string // the event id that stands in the body
	alike   bool                      // two hooks of one state are one event
	reopen  bool                      // a repeat is processed again
	forget  bool                      // a late claim is left to the lookup, and not held against it
	probes  bool                      // sends empty bodies
	batch   bool                      // one request tells of several payments
	marks   bool                      // bodies can be marked as a test

	// Money.
	noFee     bool                   // it tells of none
	reference func(id string) string // of its sales

	// Its API, and what umavez is told of it.
	bare     bool // a refund does not say what had been captured, and nobody can be asked
	noAPI    bool
	base     string // after the address of the test's API
	key      func(r *http.Request) string
	asks     func(path string, q url.Values) (id string)
	answer   func(r *http.Request, s sale) string
	serve    func(w http.ResponseWriter, r *http.Request, path string) bool
	settings func(api, account string) map[string]string
	open     []change // that would let anybody in: the start is refused
}

// credentials are what a gateway adds to a request for a body.
type credentials struct {
	header http.Header
	query  string // raw
	suffix string // of the path, with its slash
}

// change is a change of the settings, and what the refusal to start names.
type change struct {
	what string
	env  map[string]string
	says string
}

// sale is a payment at a gateway. Amounts are centavos.
type sale struct {
	id            string
	ref           string
	status        string // created, failed, paid, part (refunded), refunded, lost (charged back)
	amount, fee   int64
	refunded      int64  // so far
	earlier       int64  // of which this was refunded before the last refund
	withoutFields bool   // in bodies: no reference, no amounts but those needed
	word          string // what the API gives as the status instead
	rawAmount     string // what the API gives as the amount instead
}

// hook is one webhook about a sale.
type hook struct {
	sale
	kind string // created, failed, paid, part, refunded, lost, again (paid, told a second way), look (says nothing of itself)
	id   string // the gateway's event id, or the attempt's
	at   time.Time
	note string // JSON of a text that a person wrote
	test bool
}

const owner = "loja-e2e"

func (s sale) reference() string { return s.ref }

// refunds are those of a sale, in their order.
func (s sale) refunds() []int64 {
	if s.earlier > 0 {
		return []int64{s.earlier, s.refunded - s.earlier}
	}
	return []int64{s.refunded}
}

// each writes something for every refund of a sale, by its number, with commas
// between.
func (s sale) each(write func(number string, amount int64) string) string {
	var all []string
	if s.refunded > 0 {
		for i, amount := range s.refunds() {
			all = append(all, write(strconv.Itoa(i+1), amount))
		}
	}
	return strings.Join(all, ",")
}

func newHook(kind, id string, s sale) hook {
	return hook{sale: s, kind: kind, id: id, at: time.Now().Add(-time.Hour), note: `"Pedido"`}
}

// gateways are those that the cases go through.
var gateways = []*gateway{
	&stripeGateway, &asaasGateway, &pagpolarGateway, &pagarmeGateway, &pagarmeV4Gateway, &mercadopagoGateway, &mercadopagoOrders, &zoopGateway,
	&standardWebhooksGateway, &standardWebhooksAlone, &pagbankGateway, &efiGateway, &iuguGateway,
}

func (g *gateway) String() string { return cmp.Or(g.label, g.name) }

// home is the account that the cases use.
func (g *gateway) home() string { return g.accounts[0] }

// has says whether the gateway has hooks of all these kinds.
func (g *gateway) has(kinds ...string) bool {
	return !slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(strings.Fields(g.lacks), k) })
}

// kinds are those of the given that the gateway has.
func (g *gateway) kinds(kinds ...string) []string {
	return slices.DeleteFunc(kinds, func(k string) bool { return !g.has(k) })
}

// eventID is what becomes of a hook's id.
func (g *gateway) eventID(id string) string {
	switch {
	case g.idless:
		return ""
	case g.names != nil:
		return g.names(id)
	}
	return id
}
