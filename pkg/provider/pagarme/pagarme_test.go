package pagarme_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	login    = "hookuser:hookpass-0001"
	oldLogin = "umavez:earlier:pass-22"
	apiKey   = "sk_live_OfTheTestsOnly"
	account  = "acc_EXAMPLE0000000001"
)

var now = time.Date(2026, 1, 15, 12, 0, 6, 0, time.UTC)

// settings makes a reader of settings from pairs of name and value.
func settings(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

// source is one that accepts HTTP Basic.
func source() provider.Source {
	return provider.Source{
		Provider: "pagarme", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: []provider.Secret{login, oldLogin}, APIKey: apiKey, Lookup: provider.LookupAlways,
		Setting: settings("AUTH", "basic", "ACCOUNT_ID", account),
	}
}

func build(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := pagarme.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sign(secret string, body []byte, now time.Time) provider.Request {
	user, password, _ := strings.Cut(secret, ":")
	return provider.Request{Header: http.Header{"Authorization": {provider.Basic(user, password)}}, Body: body, Now: now}
}

const paidBody = `{"id":"hook_EXAMPLE0000000001","account":{"id":"acc_EXAMPLE0000000001","name":"Loja Exemplo"},"type":"charge.paid","created_at":"2026-01-15T12:00:05.1200000Z",` +
	`"data":{"id":"ch_EXAMPLE000000001","code":"PED-1001","amount":14990,"paid_amount":14990,"status":"paid","currency":"BRL","payment_method":"pix","paid_at":"2026-01-15T12:00:04Z",` +
	`"updated_at":"2026-01-15T12:00:04Z","metadata":{"order_id":"PED-1001"},"order":{"id":"or_EXAMPLE000000001","code":"PED-1001","status":"paid"},"last_transaction":{"id":"tran_EXAMPLE0000001","status":"captured","success":true,"amount":14990}}}`

// change is the body with one text replaced, which must be there.
func change(body string, pairs ...string) []byte {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(body, pairs[i]) {
			panic("the body does not have " + pairs[i])
		}
		body = strings.Replace(body, pairs[i], pairs[i+1], 1)
	}
	return []byte(body)
}

func TestPagarmeKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	body := []byte(paidBody)
	providertest.Run(t, providertest.Spec{
		Factory: pagarme.New, Source: source(), Now: now, Sign: sign,
		CredentialHeader: "Authorization", CaseMatters: true,
		Accepted: []providertest.Credential{
			{Name: "the contract's vector", Label: "1",
				Request: provider.Request{Header: http.Header{"Authorization": {"Basic aG9va3VzZXI6aG9va3Bhc3MtMDAwMQ=="}}, Body: body, Now: now}},
			{Name: "a password with a colon", Request: sign(oldLogin, body, now), Label: "2"},
		},
		Refused: []providertest.Credential{
			{Name: "a password cut at its colon", Request: sign("umavez:earlier", body, now), Reason: provider.ReasonToken},
			{Name: "user and password as a bearer", Reason: provider.ReasonToken,
				Request: provider.Request{Header: http.Header{"Authorization": {"Bearer aG9va3VzZXI6aG9va3Bhc3MtMDAwMQ=="}}, Body: body, Now: now}},
			{Name: "the header of another API", Reason: provider.ReasonMissing,
				Request: provider.Request{Header: http.Header{"X-Hub-Signature": {"sha1=8d0db6145236735d849126551e216a45a80d6e07"}}, Body: body, Now: now}},
		},
		Body: body,
		EmptyData: [][]byte{
			[]byte(`{"id":"hook_1","account":{"id":"` + account + `"},"type":"charge.paid"}`),
			[]byte(`{"id":"hook_1","account":{"id":"` + account + `"},"type":"charge.paid","data":null}`),
			[]byte(`{"id":"hook_1","account":{"id":"` + account + `"},"type":"order.paid","data":{ }}`),
			[]byte(`{"id":"hook_1","account":{"id":"` + account + `"},"type":"chargeback.received","data":[]}`),
		},
		Keys: keys(),
		Amounts: func(cents int64) [][]byte {
			n := strconv.FormatInt(cents, 10)
			return [][]byte{change(paidBody, `"paid_amount":14990`, `"paid_amount":`+n), change(paidBody, `"paid_amount":14990`, `"paid_amount":"`+n+`"`)}
		},
		OutOfRange: [][]byte{
			change(paidBody, `"paid_amount":14990`, `"paid_amount":12345678901234567890`),
			change(paidBody, `"paid_amount":14990`, `"paid_amount":-14990`),
			change(paidBody, `"paid_amount":14990`, `"paid_amount":149.90`),
			change(paidBody, `"paid_amount":14990`, `"paid_amount":0`),
			change(paidBody, `"paid_amount":14990`, `"paid_amount":1e400`),
			change(paidBody, `"amount":14990`, `"amount":-1`),
			change(paidBody, `"status":"paid"`, `"canceled_amount":0.5,"status":"paid"`),
		},
		Lookups: lookups(), LookupRef: ref, LookupAnswer: sale("paid", `,"paid_amount":14990`),
		LookupAmounts: func(cents int64) []http.HandlerFunc {
			n := strconv.FormatInt(cents, 10)
			return []http.HandlerFunc{sale("paid", `,"paid_amount":`+n), sale("overpaid", `,"paid_amount":"`+n+`"`)}
		},
		CheckLookup: checkLookup, BadRequestIsMissing: true,
	})
}

func checkLookup(r *http.Request) error {
	user, password, ok := r.BasicAuth()
	switch {
	case r.URL.Path != "/charges/"+ref || r.URL.RawQuery != "":
		return errors.New("address " + r.URL.String())
	case !ok || user != apiKey || password != "":
		return errors.New("not HTTP Basic with the secret key as user and an empty password")
	}
	return nil
}

func keys() []providertest.KeyPair {
	a := []byte(paidBody)
	noID := change(paidBody, `"id":"hook_EXAMPLE0000000001",`, "")
	return []providertest.KeyPair{
		{Name: "a retry or a resend", A: a, B: a, Same: true},
		{Name: "one id with another body (CASES B13)", A: a, B: change(paidBody, "PED-1001", "PED-9"), Same: true},
		{Name: "two ids", A: a, B: change(paidBody, "hook_EXAMPLE0000000001", "hook_EXAMPLE0000000002")},
		{Name: "charge.paid and order.paid", A: a, B: change(paidBody, "hook_EXAMPLE0000000001", "hook_EXAMPLE0000000002", "charge.paid", "order.paid", `"data":{"id":"ch_EXAMPLE000000001"`, `"data":{"id":"or_1","charges":[{"id":"ch_EXAMPLE000000001"}]`)},
		{Name: "an id with an equals sign (CASES D12)", A: change(paidBody, "hook_EXAMPLE0000000001", "evt_a&b=c"), B: change(paidBody, "hook_EXAMPLE0000000001", "evt_a&b")},
		{Name: "bodies without id", A: noID, B: change(string(noID), "PED-1001", "PED-9"), Same: true},
		{Name: "bodies without id of two changes", A: noID, B: change(string(noID), `"updated_at":"2026-01-15T12:00:04Z"`, `"updated_at":"2026-01-15T12:00:05Z"`)},
		{Name: "bodies without id of two types", A: noID, B: change(string(noID), "charge.paid", "charge.overpaid")},
		{Name: "bodies without id of two charges", A: noID, B: change(string(noID), "ch_EXAMPLE000000001", "ch_EXAMPLE000000002")},
	}
}

// One webhook address can belong to one account only, but where ACCOUNT_ID is
// not compared the account is part of the key (CASES B21).
func TestCase_B21_PagarmeEventsOfTwoAccountsDoNotMeet(t *testing.T) {
	t.Parallel()
	src := source()
	src.Setting = settings("AUTH", "basic")
	p := build(t, src)
	a := p.Parse(sign(login, []byte(paidBody), now))[0]
	b := p.Parse(sign(login, change(paidBody, account, "acc_EXAMPLE0000000002"), now))[0]
	if a.DedupeKey == b.DedupeKey || a.Disposition != provider.Process || b.Disposition != provider.Process {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestAnEventOfAnotherAccountIsQuarantined(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for name, body := range map[string][]byte{
		"another account": change(paidBody, account, "acc_canary000000001"),
		"no account":      change(paidBody, `"account":{"id":"acc_EXAMPLE0000000001","name":"Loja Exemplo"},`, ""),
		"a null account":  change(paidBody, `{"id":"acc_EXAMPLE0000000001","name":"Loja Exemplo"}`, "null"),
	} {
		r := sign(login, body, now)
		m := p.Parse(r)[0]
		if m.Disposition != provider.Quarantine || !strings.Contains(m.Reason, "PAGARME_ACCOUNT_ID") || strings.Contains(m.Reason, "canary") {
			t.Errorf("%s: %s %s", name, m.Disposition, m.Reason)
		}
		// Brought back by hand it still moves nothing.
		if claims, err := p.Facts(providertest.EventOf(p, source(), r, m)); err == nil || len(claims) > 0 {
			t.Errorf("%s: %v, %v", name, claims, err)
		}
	}
}

const ref = "ch_EXAMPLE000000001"

// sale is an answer about the charge ref; more is JSON of further members.
func sale(status, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":%q,"code":"PED-1001","amount":14990,"currency":"BRL","status":%q%s}`, ref, status, more)
	}
}

func status(s payment.Status) payment.Fact {
	return payment.Fact{Kind: payment.FactStatus, Status: s}
}

func total(cents int64) payment.Fact {
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents)}
}

// eventOf is the stored event of a request.
func eventOf(p provider.Provider, src provider.Source, r provider.Request) *event.Event {
	return providertest.EventOf(p, src, r, p.Parse(r)[0])
}
