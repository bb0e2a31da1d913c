package zoop_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
	"github.com/umavez/umavez/pkg/provider/zoop"
)

const (
	secret      = "zoop-path-secret-000000000000000000000001"
	oldSecret   = "previous-path-secret-11111111111111111112"
	apiKey      = "zpk_live_of_the_tests_only"
	marketplace = "3249465a7753536b62545a6a684b0000"
	id          = "a0000000000000000000000000000001"
)

var now = time.Date(2026, 1, 20, 15, 0, 30, 0, time.UTC)

func source(settings ...map[string]string) provider.Source {
	all := map[string]string{"MARKETPLACE_ID": marketplace}
	for _, more := range settings {
		for k, v := range more {
			all[k] = v
		}
	}
	return provider.Source{
		Provider: "zoop", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: []provider.Secret{secret, oldSecret}, APIKey: apiKey, Lookup: provider.LookupAlways, LookupLag: time.Minute,
		Setting: func(name string) string { return all[name] },
	}
}

func build(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := zoop.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sign(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{}, Path: secret, Body: body, Now: now}
}

// object is a transaction; more are further members, each with a comma before.
func object(status, amount, original, more string) string {
	return fmt.Sprintf(`{"id":%q,"resource":"transaction","status":%q,"amount":%s,"original_amount":%s,"currency":"BRL","reference_id":"PED-1001","on_behalf_of":"5001"%s}`,
		id, status, amount, original, more)
}

func event(typ, object string) string {
	return `{"id":"e0000000000000000000000000000001","resource":"event","type":"` + typ + `","created_at":"2026-01-20T15:00:10+00:00","payload":{"object":` + object + `}}`
}

// succeeded is the body of a paid sale.
var succeeded = event("transaction.succeeded", object("succeeded", `"149.90"`, `"149.90"`, `,"fees":"4.97","captured":true,"history":[{"operation_type":"created","status":"succeeded","amount":"149.90"}]`))

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func history(ops ...string) string {
	var items []string
	for i := 0; i < len(ops); i += 3 {
		items = append(items, fmt.Sprintf(`{"operation_type":%q,"status":%q,"amount":%q}`, ops[i], ops[i+1], ops[i+2]))
	}
	return `,"history":[` + strings.Join(items, ",") + `]`
}

func is(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }

func lookups() []providertest.Lookup {
	fee := payment.Fact{Kind: payment.FactFee, ID: id, Amount: payment.Of(497)}
	total := func(cents int64) payment.Fact {
		return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents)}
	}
	const whole, part, none = `"149.90"`, `"100.00"`, `"0.00"`
	const fees, captured, boleto = `,"fees":"4.97"`, `,"captured":true`, `,"payment_type":"boleto"`
	created := history("created", "succeeded", "149.90")
	either := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded, Otherwise: payment.StatusCanceled}
	row := func(status, amount, more string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: status + " " + amount + " " + more, Ref: id, Answer: answer(object(status, amount, whole, more)), Status: leads, Facts: facts}
	}
	var rows []providertest.Lookup
	for _, word := range []string{"new", "pending", "created"} {
		rows = append(rows, row(word, whole, "", payment.StatusPending, is(payment.StatusPending)))
	}
	rows = append(rows,
		row("pre_authorized", whole, "", payment.StatusAuthorized, is(payment.StatusAuthorized)),
		row("failed", whole, "", payment.StatusFailed, is(payment.StatusFailed)),
		row("succeeded", whole, fees+captured+created, payment.StatusPaid, is(payment.StatusPaid), fee),
		row("succeeded", whole, `,"fees":"0.00"`, payment.StatusPaid, is(payment.StatusPaid)),
		row("succeeded", part, fees, payment.StatusPartiallyRefunded, is(payment.StatusPaid), total(4990), fee),
		row("succeeded", part, history("created", "succeeded", "149.90", "void_partial", "succeeded", "20.00", "void_partial", "succeeded", "29.90"),
			payment.StatusPartiallyRefunded, is(payment.StatusPaid), total(4990)),
		row("succeeded", none, "", payment.StatusRefunded, is(payment.StatusPaid), total(14990)),
		row("partial_refunded", part, "", payment.StatusPartiallyRefunded, is(payment.StatusPaid), total(4990)),
		row("refunded", none, fees, payment.StatusRefunded, is(payment.StatusRefunded), fee),
		row("refunded", whole, "", payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", none, captured+created, payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", none, captured+`,"payment_type":"credit"`+created, payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", whole, captured+boleto+created, payment.StatusCanceled, either),
		row("canceled", whole, captured+`,"payment_type":"pix"`+created, payment.StatusCanceled, either),
		row("canceled", whole, boleto+history("created", "succeeded", "149.90", "paid", "succeeded", "149.90"), payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", none, history("pre_authorization", "succeeded", "149.90", "capture", "succeeded", "149.90"), payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", none, history("pre_authorization", "succeeded", "149.90", "capture", "failed", "149.90"), payment.StatusCanceled, either),
		row("canceled", whole, `,"captured":false`+created, payment.StatusCanceled, either),
		row("canceled", whole, captured+history("created", "failed", "149.90"), payment.StatusCanceled, either),
		row("canceled", none, "", payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", none, boleto, payment.StatusCanceled, either),
		row("canceled", none, `,"captured":false`, payment.StatusCanceled, either),
		row("canceled", whole, captured, payment.StatusRefunded, is(payment.StatusRefunded)),
		row("canceled", whole, `,"history":null`, payment.StatusCanceled, either),
		row("reversed", whole, captured+created, payment.StatusCanceled),
		row("reversed", whole, "", payment.StatusCanceled),
		row("reversed", whole, history("created", "failed", "149.90"), payment.StatusCanceled, is(payment.StatusCanceled)),
		row("dispute", whole, fees, payment.StatusDisputed, is(payment.StatusDisputed), fee),
		row("disputed", part, "", payment.StatusDisputed, is(payment.StatusDisputed), total(4990)),
		row("charged_back", whole, "", payment.StatusChargedBack, is(payment.StatusChargedBack)),
	)
	for name, r := range map[string]providertest.Lookup{
		"a status of tomorrow":              {Answer: answer(object("a_word_of_tomorrow", whole, whole, "")), Err: provider.ErrUnreadable},
		"the event's other spelling":        {Answer: answer(object("charge_back", whole, whole, "")), Err: provider.ErrUnreadable},
		"cents or reais, who knows":         {Answer: answer(object("succeeded", "14990", "14990", "")), Err: provider.ErrUnreadable},
		"the same as texts":                 {Answer: answer(object("succeeded", `"14990"`, `"14990"`, "")), Err: provider.ErrUnreadable},
		"cents of what is still pending":    {Answer: answer(object("pending", whole, "14990", "")), Err: provider.ErrUnreadable},
		"more than the sale":                {Answer: answer(object("succeeded", `"152.00"`, whole, "")), Err: provider.ErrUnreadable},
		"a sale of nothing":                 {Answer: answer(object("succeeded", none, none, "")), Err: provider.ErrUnreadable},
		"a sale without what is left":       {Answer: answer(object("succeeded", "null", whole, "")), Err: provider.ErrUnreadable},
		"a sale without its amount":         {Answer: answer(object("succeeded", whole, "null", "")), Err: provider.ErrUnreadable},
		"a part refunded that is none":      {Answer: answer(object("partial_refunded", whole, whole, "")), Err: provider.ErrUnreadable},
		"a capture in part":                 {Answer: answer(object("succeeded", part, whole, history("capture", "succeeded", "100.00"))), Err: provider.ErrUnreadable},
		"voids that do not add up":          {Answer: answer(object("succeeded", part, whole, history("void_partial", "succeeded", "10.00"))), Err: provider.ErrUnreadable},
		"voids beyond 64 bits":              {Answer: answer(object("succeeded", part, whole, history("void_partial", "succeeded", "92233720368547758.07", "void_partial", "succeeded", "1.00"))), Err: provider.ErrUnreadable},
		"a fee in a strange unit":           {Answer: answer(object("succeeded", whole, whole, `,"fees":497`)), Err: provider.ErrUnreadable},
		"dollars":                           {Answer: answer(strings.Replace(object("succeeded", whole, whole, ""), "BRL", "USD", 1)), Err: provider.ErrUnreadable},
		"no currency":                       {Answer: answer(strings.Replace(object("succeeded", whole, whole, ""), `"BRL"`, "null", 1)), Err: provider.ErrUnreadable},
		"an object that is no transaction":  {Answer: answer(strings.Replace(object("succeeded", whole, whole, ""), `"resource":"transaction"`, `"resource":"invoice"`, 1)), Err: provider.ErrMismatch},
		"a list instead of the transaction": {Answer: answer(`{"resource":"list","items":[` + object("succeeded", whole, whole, "") + `]}`), Err: provider.ErrMismatch},
	} {
		r.Name, r.Ref = name, id
		rows = append(rows, r)
	}
	claim := payment.Claim{GatewayID: id, Currency: "BRL", Expected: payment.Of(14990), Captured: payment.Of(14990),
		Reference: "PED-1001", Beneficiary: "5001", Reason: "lookup", Facts: []payment.Fact{is(payment.StatusPaid)}}
	seller := providertest.Lookup{Name: "the seller is the owner", Ref: id, Answer: answer(object("succeeded", whole, whole, "")),
		Claim: &claim, Setting: map[string]string{"OWNER_FIELD": "seller"}}
	other := claim
	other.Beneficiary, other.Reference = "", "M-7"
	named := providertest.Lookup{Name: "the order id is in the metadata", Ref: id, Answer: answer(object("succeeded", whole, whole, `,"metadata":{"order":"M-7"}`)),
		Claim: &other, Setting: map[string]string{"REFERENCE_FIELD": "metadata.order"}}
	return append(rows, seller, named)
}

func TestZoopKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	body := []byte(succeeded)
	in := func(format string, amounts ...string) (bodies [][]byte) {
		for _, a := range amounts {
			bodies = append(bodies, []byte(strings.ReplaceAll(format, `"149.90"`, a)))
		}
		return bodies
	}
	spellings := func(cents int64) []string {
		s := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		all := []string{`"` + s + `"`, `"` + s + `0"`, `"0` + s + `"`}
		if cents%10 == 0 {
			all = append(all, `"`+s[:len(s)-1]+`"`)
		}
		return all
	}
	plain := event("transaction.succeeded", object("succeeded", `"149.90"`, `"149.90"`, ""))
	at := func(path string) provider.Request { return sign(path, body, now) }
	withHeader := at("")
	withHeader.Header.Set("Authorization", secret)
	inQuery := at("")
	inQuery.Query = "secret=" + secret
	providertest.Run(t, providertest.Spec{
		Factory: zoop.New, Source: source(), Now: now, Sign: sign, CredentialPath: true, CaseMatters: true,
		Accepted: []providertest.Credential{
			{Name: "the secret", Request: at(secret), Label: "1"},
			{Name: "the previous secret", Request: at(oldSecret), Label: "2"},
		},
		Refused: []providertest.Credential{
			{Name: "the plain address", Request: at(""), Reason: provider.ReasonMissing},
			{Name: "one letter changed", Request: at(secret[:len(secret)-1] + "2"), Reason: provider.ReasonToken},
			{Name: "a segment after it", Request: at(secret + "/x"), Reason: provider.ReasonToken},
			{Name: "a segment before it", Request: at("x/" + secret), Reason: provider.ReasonToken},
			{Name: "a slash after it", Request: at(secret + "/"), Reason: provider.ReasonToken},
			{Name: "the secret in a header", Request: withHeader, Reason: provider.ReasonMissing},
			{Name: "the secret in the query", Request: inQuery, Reason: provider.ReasonMissing},
		},
		Body: body, Keys: keys(),
		Amounts: func(cents int64) [][]byte { return in(plain, spellings(cents)...) },
		OutOfRange: in(succeeded, `"123456789012345678.90"`, `"-149.90"`, `"149.901"`, `"1e2"`, `"1.4990e2"`, `"149,90"`, `"149."`, `".90"`, `" 149.90"`, `"R$ 149.90"`,
			"14990", "149.90", `"14990"`, "-1", "true", "{}", "[]"),
		Lookups: lookups(), LookupRef: id,
		LookupAnswer: answer(object("succeeded", `"100.00"`, `"149.90"`, `,"fees":"3.31","captured":true`+history("created", "succeeded", "149.90", "void_partial", "succeeded", "49.90"))),
		LookupAmounts: func(cents int64) (answers []http.HandlerFunc) {
			for _, s := range spellings(cents) {
				answers = append(answers, answer(object("succeeded", s, s, "")))
			}
			return answers
		},
		CheckLookup: checkLookup,
	})
}

func checkLookup(r *http.Request) error {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(apiKey+":"))
	switch {
	case r.Method != http.MethodGet:
		return errors.New("method " + r.Method)
	case r.URL.Path != "/marketplaces/"+marketplace+"/transactions/"+id || r.URL.RawQuery != "":
		return errors.New("address " + r.URL.String())
	case r.Header.Get("Authorization") != want:
		return errors.New("the key is not the user of HTTP Basic with an empty password")
	}
	return nil
}

func keys() []providertest.KeyPair {
	change := func(old, new string) []byte {
		if !strings.Contains(succeeded, old) {
			panic("the body does not have " + old)
		}
		return []byte(strings.Replace(succeeded, old, new, 1))
	}
	const eventID = `"id":"e0000000000000000000000000000001",`
	part := strings.Replace(event("transaction.canceled", object("succeeded", `"100.00"`, `"149.90"`, "")), eventID, "", 1)
	return []providertest.KeyPair{
		{Name: "a redelivery", A: []byte(succeeded), B: []byte(succeeded), Same: true},
		{Name: "one id with another body (CASES B13)", A: []byte(succeeded), B: change("4.97", "4.98"), Same: true},
		{Name: "two ids of one fact", A: []byte(succeeded), B: change("e0000000000000000000000000000001", "e0000000000000000000000000000002")},
		{Name: "ids that differ in letter case", A: change("e00000000000000000000000000000", "eA"), B: change("e00000000000000000000000000000", "ea")},
		{Name: "an id as a number and as a text", A: change(`"e0000000000000000000000000000001"`, "17"), B: change("e0000000000000000000000000000001", "17"), Same: true},
		{Name: "ids beyond 2^53 (CASES D3)", A: change(`"e0000000000000000000000000000001"`, "9007199254740993"), B: change(`"e0000000000000000000000000000001"`, "9007199254740992")},
		{Name: "without id, the same bytes", A: change(eventID, ""), B: change(eventID, ""), Same: true},
		{Name: "without id, two partial refunds", A: []byte(part), B: []byte(strings.Replace(part, "100.00", "50.00", 1))},
		{Name: "without id, and an id that is the other's hash", A: change(eventID, ""), B: change("e0000000000000000000000000000001", "body")},
		{Name: "an event about something else", A: []byte(succeeded), B: change("transaction.succeeded", "invoice.paid"), Same: true},
	}
}
