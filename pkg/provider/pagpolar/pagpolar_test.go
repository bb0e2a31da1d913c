package pagpolar_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagpolar"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	token    = "pp_test_token_5f0c1d9a7b"
	oldToken = "previous-token-of-the-tests"
	apiKey   = "key-of-the-tests-only"
)

var now = time.Date(2026, 1, 1, 12, 0, 31, 0, time.UTC)

func settings() map[string]string {
	return map[string]string{
		"API_AUTH": "X-Api-Key: key {key}", "SALE_ID_PATH": "data.id", "STATUS_PATH": "data.status",
		"STATUS_MAP":  "NEW=pending, HELD=authorized,PAID=paid,PART=partially_refunded,BACK=refunded,NO=failed,OFF=canceled,LATE=expired,FIGHT=disputed,LOST=charged_back",
		"AMOUNT_PATH": "data.values.0.total", "AMOUNT_UNIT": "minor", "CURRENCY": "brl", "REFERENCE_PATH": "data.order",
	}
}

func refundSettings() map[string]string {
	return map[string]string{
		"REFUNDS_LIST_PATH": ".", "REFUND_ID_PATH": "id", "REFUND_AMOUNT_PATH": "amount", "REFUND_STATUS_PATH": "status",
		"REFUND_STATUS_MAP": "OPEN=pending,DONE=succeeded,DENIED=failed",
	}
}

func source(changes ...map[string]string) provider.Source {
	all := settings()
	for _, c := range changes {
		for k, v := range c {
			all[k] = v
		}
	}
	return provider.Source{
		Provider: "pagpolar", Account: provider.DefaultAccount, Production: true, WebhookSecrets: []provider.Secret{token, oldToken},
		APIKey: apiKey, APIBase: "https://api.example.test/v1", Lookup: provider.LookupAlways,
		Setting: func(name string) string { return all[name] },
	}
}

func build(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := pagpolar.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sign(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{"Authorization": {"Bearer " + secret}}, Body: body, Now: now}
}

func raw(value string) provider.Request {
	return provider.Request{Header: http.Header{"Authorization": {value}}, Body: []byte(paidBody), Now: now}
}

const paidBody = `{"event":"TRANSACTION_PAID","id":"att-0002","creation_date":"2026-01-01T12:00:30Z","data":{"transaction":{"id":"sale-1001","status":"PAID_PLACEHOLDER"}}}`

// sale answers with a sale of that status, and with that list of refunds.
func sale(status, more, refunds string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refunds") {
			if r.URL.RawQuery != "sale_identifier=sale-1001" {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprint(w, refunds)
			return
		}
		fmt.Fprintf(w, `{"data":{"id":"sale-1001","status":%q,"order":"PED-7","values":[{"total":14990,"kept":497,"left":"14493"}]%s}}`, status, more)
	}
}

func fact(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }

func refund(id string, amount int64, state payment.RefundState) payment.Fact {
	return payment.Fact{Kind: payment.FactRefund, ID: id, Amount: payment.Of(amount), Refund: state}
}

func lookups() []providertest.Lookup {
	fee := payment.Fact{Kind: payment.FactFee, ID: "sale-1001", Amount: payment.Of(497)}
	row := func(name, status, refunds string, setting map[string]string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: name, Ref: "sale-1001", Answer: sale(status, "", refunds), Setting: setting, Status: leads, Facts: facts}
	}
	with := func(changes ...map[string]string) map[string]string {
		all := refundSettings()
		for _, c := range changes {
			for k, v := range c {
				all[k] = v
			}
		}
		return all
	}
	rows := []providertest.Lookup{
		row("paid", "PAID", "", nil, payment.StatusPaid, fact(payment.StatusPaid)),
		row("paid with a fee", "PAID", "", map[string]string{"FEE_PATH": "data.values.0.kept"}, payment.StatusPaid, fact(payment.StatusPaid), fee),
		row("paid with a net amount", "PAID", "", map[string]string{"NET_PATH": "data.values.0.left"}, payment.StatusPaid, fact(payment.StatusPaid), fee),
		row("paid, the fee is not known yet", "PAID", "", map[string]string{"FEE_PATH": "data.values.1.kept"}, payment.StatusPaid, fact(payment.StatusPaid)),
		row("pending", "NEW", "", nil, payment.StatusPending, fact(payment.StatusPending)),
		row("authorized", "HELD", "", nil, payment.StatusAuthorized, fact(payment.StatusAuthorized)),
		row("failed", "NO", "", nil, payment.StatusFailed, fact(payment.StatusFailed)),
		row("canceled", "OFF", "", nil, payment.StatusCanceled, fact(payment.StatusCanceled)),
		row("expired", "LATE", "", nil, payment.StatusExpired, fact(payment.StatusExpired)),
		row("refunded, without the refunds' ids", "BACK", "", nil, payment.StatusRefunded, fact(payment.StatusRefunded)),
		row("disputed", "FIGHT", "", nil, payment.StatusDisputed, fact(payment.StatusDisputed)),
		row("charged back", "LOST", "", nil, payment.StatusChargedBack, fact(payment.StatusChargedBack)),
		row("partly refunded", "PART", `[{"id":7,"amount":4990,"status":"DONE"},{"id":"8","amount":1,"status":"OPEN"},{"id":"9","amount":2,"status":"DENIED"}]`, with(), payment.StatusPartiallyRefunded,
			fact(payment.StatusPaid), refund("7", 4990, payment.RefundSucceeded), refund("8", 1, payment.RefundPending), refund("9", 2, payment.RefundFailed)),
		row("still called paid, and wholly refunded (CASES B23)", "PAID", `[{"id":"7","amount":14990,"status":"DONE"}]`, with(), payment.StatusRefunded,
			fact(payment.StatusPaid), refund("7", 14990, payment.RefundSucceeded)),
		row("refunded, as the list says", "BACK", `[{"id":"7","amount":14990,"status":"DONE"}]`, with(), payment.StatusRefunded,
			refund("7", 14990, payment.RefundSucceeded)),
		row("refunded, the list says less", "BACK", `[{"id":"7","amount":4990,"status":"DONE"}]`, with(), payment.StatusRefunded,
			fact(payment.StatusRefunded), refund("7", 4990, payment.RefundSucceeded)),
		row("disputed after a partial refund", "FIGHT", `[{"id":"7","amount":4990,"status":"DONE"}]`, with(), payment.StatusDisputed,
			fact(payment.StatusDisputed), refund("7", 4990, payment.RefundSucceeded)),
		row("a list below a name", "PAID", `{"items":{"all":[]}}`, with(map[string]string{"REFUNDS_LIST_PATH": "items.all"}), payment.StatusPaid, fact(payment.StatusPaid)),
	}
	claim := payment.Claim{
		GatewayID: "sale-1001", Currency: "USD", Expected: payment.Of(1499000), Captured: payment.Of(1499000), Reference: "PED-7", Beneficiary: "ana",
		Reason: "lookup", Facts: []payment.Fact{fact(payment.StatusPaid)},
	}
	rows = append(rows, providertest.Lookup{
		Name: "major units, a currency and an owner from the answer", Ref: "sale-1001", Claim: &claim,
		Answer:  sale("PAID", `,"money":"usd","owner":"ana"`, ""),
		Setting: map[string]string{"AMOUNT_UNIT": "major", "CURRENCY": "", "CURRENCY_PATH": "data.money", "BENEFICIARY_PATH": "data.owner"},
	})
	for name, c := range map[string]struct {
		status, more, refunds string
		setting               map[string]string
	}{
		"a status that is not in the map":     {"ODD_WORD", "", "", nil},
		"a status in another letter case":     {"paid", "", "", nil},
		"a partial refund without settings":   {"PART", "", "", nil},
		"no status":                           {"PAID", "", "", map[string]string{"STATUS_PATH": "data.state"}},
		"no amount":                           {"PAID", "", "", map[string]string{"AMOUNT_PATH": "data.values.1.total"}},
		"no currency":                         {"PAID", "", "", map[string]string{"CURRENCY": "", "CURRENCY_PATH": "data.money"}},
		"a currency that is none":             {"PAID", "", "", map[string]string{"CURRENCY": "", "CURRENCY_PATH": "data.order"}},
		"an amount with too many digits":      {"PAID", `,"t":14.999`, "", map[string]string{"AMOUNT_PATH": "data.t", "AMOUNT_UNIT": "major"}},
		"a fraction of a minor unit":          {"PAID", `,"t":149.9`, "", map[string]string{"AMOUNT_PATH": "data.t"}},
		"an amount below zero":                {"PAID", `,"t":-1`, "", map[string]string{"AMOUNT_PATH": "data.t"}},
		"an amount of zero":                   {"PAID", `,"t":0`, "", map[string]string{"AMOUNT_PATH": "data.t"}},
		"an amount beyond 64 bits":            {"PAID", `,"t":12345678901234567890`, "", map[string]string{"AMOUNT_PATH": "data.t"}},
		"an amount that is an object":         {"PAID", `,"t":{}`, "", map[string]string{"AMOUNT_PATH": "data.t"}},
		"a net amount above the gross":        {"PAID", `,"t":14991`, "", map[string]string{"NET_PATH": "data.t"}},
		"refunds that are no list":            {"PAID", "", `{}`, with()},
		"a refund without id":                 {"PAID", "", `[{"amount":1,"status":"DONE"}]`, with()},
		"a refund without amount":             {"PAID", "", `[{"id":"1","status":"DONE"}]`, with()},
		"a refund without status":             {"PAID", "", `[{"id":"1","amount":1}]`, with()},
		"a refund of a status not in the map": {"PAID", "", `[{"id":"1","amount":1,"status":"ODD"}]`, with()},
		"refunds that add up beyond 64 bits":  {"PAID", "", `[{"id":"1","amount":9223372036854775807,"status":"DONE"},{"id":"2","amount":1,"status":"DONE"}]`, with()},
		"a refund that is not an object":      {"PAID", "", `[7]`, with()},
	} {
		rows = append(rows, providertest.Lookup{Name: name, Ref: "sale-1001", Answer: sale(c.status, c.more, c.refunds), Setting: c.setting, Err: provider.ErrUnreadable})
	}
	return rows
}

func checkLookup(r *http.Request) error {
	switch {
	case r.URL.Path != "/sales/sale-1001":
		return errors.New("path " + r.URL.Path)
	case r.Header.Get("X-Api-Key") != "key "+apiKey || r.Header.Get("Authorization") != "":
		return errors.New("the key is not in the configured header")
	}
	return nil
}

func keys() []providertest.KeyPair {
	body := func(event, data string) []byte {
		return []byte(`{"event":"` + event + `","id":"att-1","creation_date":"x","data":` + data + `}`)
	}
	tx := func(more string) string { return `{"transaction":{"id":"sale-1001"` + more + `}}` }
	sub := func(next string) string { return `{"subscription":{"id":"sub-77","next_billing_at":"` + next + `"}}` }
	other := strings.Replace(strings.Replace(paidBody, "att-0002", "att-0003", 1), "12:00:30", "12:01:02", 1)
	return []providertest.KeyPair{
		{Name: "another attempt", A: []byte(paidBody), B: []byte(other), Same: true},
		{Name: "paid, told by another way (CASES B13)", A: []byte(paidBody), B: body("TRANSACTION_PAID", tx(`,"invoice_number":7`)), Same: true},
		{Name: "another sale", A: []byte(paidBody), B: body("TRANSACTION_PAID", `{"transaction":{"id":"sale-1002"}}`)},
		{Name: "created and paid", A: body("TRANSACTION_CREATED", tx("")), B: body("TRANSACTION_PAID", tx(""))},
		{Name: "a sale and a subscription of one number", A: body("TRANSACTION_PAID", `{"transaction":{"id":"7"}}`), B: body("SUBSCRIPTION_PAID", `{"subscription":{"id":"7"}}`)},
		{Name: "an id as text and as number", A: body("TRANSACTION_PAID", `{"transaction":{"id":"7"}}`), B: body("TRANSACTION_PAID", `{"transaction":{"id":7}}`), Same: true},
		{Name: "ids above 2^53 (CASES D3)", A: body("TRANSACTION_PAID", `{"transaction":{"id":9007199254740993}}`), B: body("TRANSACTION_PAID", `{"transaction":{"id":9007199254740992}}`)},
		{Name: "a refund asked for, repeated exactly", A: body("TRANSACTION_ASK_REFUNDING", tx(`,"a":1,"b":"ç"`)), B: body("TRANSACTION_ASK_REFUNDING", `{ "transaction" : {"b":"\u00e7","id":"sale-1001","a":1} }`), Same: true},
		{Name: "a refund asked for, another state", A: body("TRANSACTION_ASK_REFUNDING", tx(`,"a":1`)), B: body("TRANSACTION_ASK_REFUNDING", tx(`,"a":2`))},
		{Name: "numbers above 2^53 in the state", A: body("TRANSACTION_X", tx(`,"a":9007199254740993`)), B: body("TRANSACTION_X", tx(`,"a":9007199254740992`))},
		{Name: "a text and a number in the state", A: body("TRANSACTION_X", tx(`,"a":1`)), B: body("TRANSACTION_X", tx(`,"a":"1"`))},
		{Name: "two broken texts in the state", A: body("TRANSACTION_X", tx(`,"a":"\ud83d"`)), B: body("TRANSACTION_X", tx(`,"a":"\ud83e"`))},
		{Name: "the order of an array", A: body("TRANSACTION_X", tx(`,"a":[1,2]`)), B: body("TRANSACTION_X", tx(`,"a":[2,1]`))},
		{Name: "one cycle in two spellings", A: body("SUBSCRIPTION_RENEWED", sub("2026-03-01T00:00:00Z")), B: body("SUBSCRIPTION_RENEWED", sub("2026-02-28T21:00:00.5-03:00")), Same: true},
		{Name: "two cycles", A: body("SUBSCRIPTION_RENEWED", sub("2026-03-01T00:00:00Z")), B: body("SUBSCRIPTION_RENEWED", sub("2026-04-01T00:00:00Z"))},
		{Name: "a playground event and the real one", A: []byte(paidBody), B: []byte(strings.Replace(paidBody, `"id":"att-0002"`, `"test":true`, 1))},
	}
}

func TestPagPolarKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Spec{
		Factory: pagpolar.New, Source: source(), Now: now, Sign: sign,
		CredentialHeader: "Authorization", CaseMatters: true,
		Accepted: []providertest.Credential{
			{Name: "the vector of the contract", Request: raw("Bearer pp_test_token_5f0c1d9a7b"), Label: "1"},
			{Name: "the previous token", Request: raw("Bearer " + oldToken), Label: "2"},
		},
		Refused: []providertest.Credential{
			{Name: "one letter changed", Request: raw("Bearer pp_test_token_5f0c1d9a7c"), Reason: provider.ReasonToken},
			{Name: "a trailing space", Request: raw("Bearer pp_test_token_5f0c1d9a7b "), Reason: provider.ReasonToken},
			{Name: "another spelling of the scheme", Request: raw("bearer pp_test_token_5f0c1d9a7b"), Reason: provider.ReasonMalformed},
			{Name: "two spaces", Request: raw("Bearer  pp_test_token_5f0c1d9a7b"), Reason: provider.ReasonToken},
			{Name: "no scheme", Request: raw("pp_test_token_5f0c1d9a7b"), Reason: provider.ReasonMalformed},
			{Name: "the scheme alone", Request: raw("Bearer "), Reason: provider.ReasonMalformed},
			{Name: "an empty header", Request: raw(""), Reason: provider.ReasonMissing},
			{Name: "two headers", Reason: provider.ReasonMalformed,
				Request: provider.Request{Header: http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, Body: []byte(paidBody), Now: now}},
		},
		Body: []byte(paidBody),
		EmptyData: [][]byte{
			[]byte(`{"event":"TRANSACTION_PAID","id":"att-0041","data":{}}`), []byte(`{"event":"TRANSACTION_PAID","id":"att-0041","data":null}`),
			[]byte(`{"event":"TRANSACTION_PAID","id":"att-0041","data":[ ]}`), []byte(`{"event":"TRANSACTION_PAID","id":"att-0041"}`),
			[]byte(`{"event":"TRANSACTION_PAID","id":"att-0041","data":{"transaction":null}}`),
		},
		TestBodies: [][]byte{
			[]byte(strings.Replace(paidBody, `"id":"att-0002"`, `"test":true`, 1)),
			[]byte(strings.Replace(paidBody, `"id":"att-0002"`, `"test":"True"`, 1)),
		},
		Keys: keys(), Lookups: lookups(), LookupRef: "sale-1001", LookupAnswer: sale("PAID", "", "[]"), CheckLookup: checkLookup,
		LookupAmounts: func(cents int64) (answers []http.HandlerFunc) {
			for _, n := range []string{fmt.Sprint(cents), fmt.Sprintf(`"%d"`, cents)} {
				answers = append(answers, func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(w, `{"data":{"id":"sale-1001","status":"PAID","values":[{"total":%s}]}}`, n)
				})
			}
			return answers
		},
	})
}
