package iugu_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/iugu"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	token    = "Iugu-authorization-0000000000001"
	oldToken = "previous-authorization-111111112"
	apiKey   = "token-of-the-tests-only"
	inv      = "EXAMPLEINV00000000000000000000001"
	account  = "EXAMPLEACC00000000000000000000001"
)

var now = time.Date(2026, 1, 15, 12, 30, 5, 0, time.UTC)

func source(place string) provider.Source {
	return provider.Source{
		Provider: "iugu", Account: provider.DefaultAccount, Production: true, WebhookSecrets: []provider.Secret{token, oldToken},
		APIKey: apiKey, Lookup: provider.LookupAlways, Setting: setting(place),
	}
}

func setting(place string) func(string) string {
	return func(name string) string {
		if name == "AUTH" {
			return place
		}
		return ""
	}
}

func build(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := iugu.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func inHeader(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{
		"Authorization": {secret}, "Content-Type": {"application/x-www-form-urlencoded"},
	}, Body: body, Now: now}
}

func inPath(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Path: secret, Body: body, Now: now}
}

// form is a trigger as it is on the wire.
func form(event, status string) string {
	return "event=" + event + "&data%5Bid%5D=" + inv + "&data%5Baccount_id%5D=" + account + "&data%5Bstatus%5D=" + status
}

// paid is the first example of the contract, byte for byte.
const paid = "event=invoice.status_changed&data%5Bid%5D=EXAMPLEINV00000000000000000000001&data%5Baccount_id%5D=EXAMPLEACC00000000000000000000001&data%5Bstatus%5D=paid&data%5Bsubscription_id%5D="

// answer is one of the API: an invoice of that status, with the texts for
// people beside the figures.
func answer(status, figures string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":%q,"status":%q,"currency":"BRL","total":"R$ 1,00","total_paid":"R$ 2,00","taxes_paid":"R$ 3,00","total_cents":14990,"order_id":"PED-1001"%s}`, inv, status, figures)
	}
}

const received = `,"total_paid_cents":14990,"taxes_paid_cents":497,"refunded_cents":null`

func status(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }

func refunded(cents int64) payment.Fact {
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents)}
}

var fee = payment.Fact{Kind: payment.FactFee, ID: inv, Amount: payment.Of(497)}

func lookups() []providertest.Lookup {
	row := func(word, figures string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: strings.TrimSpace(word + " " + figures), Ref: inv, Answer: answer(word, figures), Status: leads, Facts: facts}
	}
	bad := func(word, figures string) providertest.Lookup {
		return providertest.Lookup{Name: "unreadable: " + word + " " + figures, Ref: inv, Answer: answer(word, figures), Err: provider.ErrUnreadable}
	}
	claim := func(word, figures, reason string, captured payment.Minor, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: "the whole claim: " + word + figures, Ref: inv, Answer: answer(word, figures), Claim: &payment.Claim{
			GatewayID: inv, Currency: "BRL", Expected: payment.Of(14990), Captured: captured, Reference: "PED-1001", Reason: reason, Facts: facts,
		}}
	}
	back := func(cents string) string { return strings.Replace(received, "null", cents, 1) }
	elsewhere := strings.Replace(received, "497", "0", 1)
	return []providertest.Lookup{
		row("paid", received, payment.StatusPaid, status(payment.StatusPaid), fee),
		row("draft", "", payment.StatusPending, status(payment.StatusPending)),
		row("pending", `,"total_paid_cents":0,"taxes_paid_cents":null`, payment.StatusPending, status(payment.StatusPending)),
		row("in_analysis", "", payment.StatusAuthorized, status(payment.StatusAuthorized)),
		row("canceled", "", payment.StatusCanceled, status(payment.StatusCanceled)),
		row("expired", "", payment.StatusExpired, status(payment.StatusExpired)),
		row("externally_paid", elsewhere, payment.StatusCanceled, status(payment.StatusCanceled)),
		row("paid", elsewhere, payment.StatusPaid, status(payment.StatusPaid)),
		row("paid", back("0"), payment.StatusPaid, status(payment.StatusPaid), fee),
		row("paid", back("4990"), payment.StatusPartiallyRefunded, status(payment.StatusPaid), refunded(4990), fee),
		row("paid", back("14990"), payment.StatusRefunded, status(payment.StatusPaid), refunded(14990), fee),
		row("partially_paid", `,"total_paid_cents":5000,"taxes_paid_cents":"497"`, payment.StatusPaid, status(payment.StatusPaid), fee),
		row("refunded", received, payment.StatusRefunded, status(payment.StatusRefunded), fee),
		row("refunded", back("14990"), payment.StatusRefunded, status(payment.StatusRefunded), fee),
		row("chargeback", back("14990"), payment.StatusChargedBack, status(payment.StatusChargedBack), fee),
		row("in_protest", back("14990"), payment.StatusDisputed, status(payment.StatusDisputed), fee),
		row("refunded", back("4990"), payment.StatusPartiallyRefunded, refunded(4990), fee),
		row("refunded", `,"total_paid_cents":14990,"taxes_paid_cents":null,"refunded_cents":14990`, payment.StatusRefunded, status(payment.StatusRefunded)),
		row("in_protest", received, payment.StatusDisputed, status(payment.StatusDisputed), fee),
		row("in_protest", back("4990"), payment.StatusDisputed, status(payment.StatusDisputed), refunded(4990), fee),
		row("chargeback", received, payment.StatusChargedBack, status(payment.StatusChargedBack), fee),
		row("chargeback", `,"total_paid_cents":14990`, payment.StatusChargedBack, status(payment.StatusChargedBack)),

		claim("paid", received, "lookup", payment.Of(14990), status(payment.StatusPaid), fee),
		claim("partially_paid", `,"total_paid_cents":5000,"taxes_paid_cents":497`, "lookup:partially_paid", payment.Of(5000), status(payment.StatusPaid), fee),
		claim("externally_paid", elsewhere, "lookup:externally_paid", payment.Minor{}, status(payment.StatusCanceled)),
		claim("pending", received, "lookup", payment.Minor{}, status(payment.StatusPending)),
		claim("refunded", `,"total_paid_cents":0,"refunded_cents":10`, "lookup", payment.Minor{}, refunded(10)),

		bad("a_word_of_tomorrow", received), bad("", received), bad("PAID", received),
		bad("paid", ""), bad("paid", `,"total_paid_cents":14990`), bad("paid", `,"taxes_paid_cents":497`),
		bad("paid", `,"total_paid_cents":null,"taxes_paid_cents":497`), bad("paid", `,"total_paid_cents":0,"taxes_paid_cents":0`),
		bad("paid", `,"total_paid_cents":14990,"taxes_paid_cents":null`),
		bad("paid", `,"total_paid_cents":"R$ 149,90","taxes_paid_cents":497`), bad("paid", `,"total_paid_cents":149.90,"taxes_paid_cents":497`),
		bad("paid", `,"total_paid_cents":-14990,"taxes_paid_cents":497`), bad("paid", `,"total_paid_cents":14990,"taxes_paid_cents":-1`),
		bad("paid", `,"total_paid_cents":12345678901234567890,"taxes_paid_cents":497`), bad("paid", received+`,"external_reference":[]`),
		bad("paid", `,"total_paid_cents":14990,"taxes_paid_cents":497,"refunded_cents":"R$ 0,00"`),
		bad("partially_paid", ""), bad("refunded", `,"refunded_cents":-1`), bad("paid", received+`,"id":"twice"`),
		{Name: "another currency", Ref: inv, Err: provider.ErrUnreadable, Answer: body(`{"id":"` + inv + `","status":"pending","currency":"USD"}`)},
		{Name: "paid in part, of what is not said", Ref: inv, Err: provider.ErrUnreadable, Answer: body(`{"id":"` + inv + `","status":"partially_paid","total_paid_cents":5,"taxes_paid_cents":1}`)},
		{Name: "only texts for people", Ref: inv, Err: provider.ErrUnreadable, Answer: body(`{"id":"` + inv + `","status":"paid","total":"R$ 149,90","total_paid":"R$ 149,90","taxes_paid":"R$ 4,97"}`)},
	}
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func keys() []providertest.KeyPair {
	change := func(old, new string) []byte {
		if !strings.Contains(paid, old) {
			panic("the body does not have " + old)
		}
		return []byte(strings.Replace(paid, old, new, 1))
	}
	return []providertest.KeyPair{
		{Name: "a redelivery", A: []byte(paid), B: []byte(paid), Same: true},
		{Name: "one status with further fields (CASES B13)", A: []byte(paid), B: []byte(paid + "&data%5Bpaid_cents%5D=14990"), Same: true},
		{Name: "one status in another spelling", A: []byte(paid), B: []byte("data[status]=paid&data[id]=" + inv + "&event=invoice%2Estatus_changed"), Same: true},
		{Name: "two statuses", A: []byte(paid), B: change("=paid", "=pending")},
		{Name: "two invoices", A: []byte(paid), B: change(inv, inv+"1")},
		{Name: "two events", A: []byte(paid), B: change("status_changed", "created")},
		{Name: "two partial refunds with the same bytes", A: []byte(form("invoice.refund", "paid")), B: []byte(form("invoice.refund", "paid")), Same: true},
		{Name: "parts that meet (CASES B21)", A: []byte("event=invoice.x&data[id]=ab&data[status]=c"), B: []byte("event=invoice.x&data[id]=a&data[status]=bc")},
		{Name: "an id with signs of addresses (CASES D12)", A: change(inv, "a%26b%3Dc"), B: change(inv, "a%26b")},
		{Name: "an id of digits beyond a float (CASES D3)", A: change(inv, "9007199254740993"), B: change(inv, "9007199254740992")},
		{Name: "two triggers about something else", A: []byte("event=transfer.x&data[id]=1"), B: []byte("event=transfer.x&data[id]=2")},
	}
}

func spec(place string) providertest.Spec {
	sign := inHeader
	if place == "path" {
		sign = inPath
	}
	signed := func(secret string) provider.Request { return sign(secret, []byte(paid), now) }
	s := providertest.Spec{
		Factory: iugu.New, Source: source(place), Now: now, Sign: sign, CaseMatters: true, Form: true,
		Accepted: []providertest.Credential{
			{Name: "the value as registered", Request: signed(token), Label: "1"},
			{Name: "the previous value", Request: signed(oldToken), Label: "2"},
		},
		Refused: []providertest.Credential{
			{Name: "an empty value", Request: signed(""), Reason: provider.ReasonMissing},
			{Name: "one byte changed", Request: signed(token[:len(token)-1] + "2"), Reason: provider.ReasonToken},
			{Name: "a scheme that was not registered", Request: signed("Bearer " + token), Reason: provider.ReasonToken},
			{Name: "the API token", Request: signed(apiKey), Reason: provider.ReasonToken},
		},
		Body:      []byte(paid),
		EmptyData: [][]byte{[]byte("event=invoice.status_changed"), []byte("event=invoice.refund&data="), []byte("event=invoice.created&data%5Bid%5D=&data%5Bstatus%5D="), []byte("event=transfer.x")},
		Keys:      keys(),
		Lookups:   lookups(), LookupRef: inv, LookupAnswer: answer("paid", strings.Replace(received, "null", "4990", 1)),
		LookupAmounts: func(cents int64) []http.HandlerFunc {
			return []http.HandlerFunc{
				answer("paid", fmt.Sprintf(`,"total_paid_cents":%d,"taxes_paid_cents":0`, cents)),
				answer("partially_paid", fmt.Sprintf(`,"total_paid_cents":"%d","taxes_paid_cents":"0"`, cents)),
			}
		},
		CheckLookup: checkLookup,
	}
	if place == "path" {
		s.CredentialPath = true
		s.Refused = append(s.Refused,
			providertest.Credential{Name: "the value in the header", Request: inHeader(token, []byte(paid), now), Reason: provider.ReasonMissing},
			providertest.Credential{Name: "something behind it", Request: signed(token + "/x"), Reason: provider.ReasonToken})
		return s
	}
	s.CredentialHeader = "Authorization"
	s.Refused = append(s.Refused,
		providertest.Credential{Name: "the value in the address", Request: inPath(token, []byte(paid), now), Reason: provider.ReasonMissing},
		providertest.Credential{Name: "the right value twice", Reason: provider.ReasonMalformed,
			Request: provider.Request{Header: http.Header{"Authorization": {token, token}}, Body: []byte(paid), Now: now}})
	return s
}

func TestIuguKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"header", "path"} {
		t.Run("the secret in the "+place, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, spec(place))
		})
	}
}

func checkLookup(r *http.Request) error {
	user, password, ok := r.BasicAuth()
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/invoices/"+inv || r.URL.RawQuery != "":
		return errors.New(r.Method + " " + r.URL.String())
	case !ok || user != apiKey || password != "":
		return errors.New("the token is not the user of HTTP Basic, with an empty password")
	}
	return nil
}
