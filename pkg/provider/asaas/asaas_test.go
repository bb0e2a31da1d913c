package asaas_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	token    = "asaas-test-token-000000000000000000"
	oldToken = "previous-test-token-1111111111111111"
	apiKey   = "key-of-the-tests-only"
)

func source() provider.Source {
	return provider.Source{
		Provider: "asaas", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: []provider.Secret{token, oldToken}, APIKey: apiKey, Lookup: provider.LookupAlways,
	}
}

func sign(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{asaas.TokenHeader: {secret}}, Body: body, Now: now}
}

const confirmed = `{"id":"evt_0a1b2c3d4e5f60718293a4b5c6d7e8f9&900000001","event":"PAYMENT_CONFIRMED","dateCreated":"2026-01-15 09:30:02",` +
	`"payment":{"object":"payment","id":"pay_example0001","value":149.90,"netValue":144.93,"status":"CONFIRMED","externalReference":"PED-1001","deleted":false,"refunds":null,"chargeback":null}}`

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

// sale is an answer of the payments address; list is that of its refunds.
func sale(status, more, list string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refunds") {
			fmt.Fprint(w, list)
			return
		}
		fmt.Fprintf(w, `{"object":"payment","id":"pay_example0001","status":%q,"value":149.90,"netValue":144.93,"externalReference":"PED-1001"%s}`, status, more)
	}
}

var fee = payment.Fact{Kind: payment.FactFee, ID: "pay_example0001", Amount: payment.Of(497)}

func paid() payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid} }

func lookups() []providertest.Lookup {
	row := func(status, more, list string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{
			Name: strings.TrimSpace(status + " " + more + " " + list), Ref: "pay_example0001",
			Answer: sale(status, more, list), Status: leads, Facts: facts,
		}
	}
	refund := func(cents int64, state payment.RefundState, ordinal int) payment.Fact {
		return payment.Fact{Kind: payment.FactRefund, Amount: payment.Of(cents), Refund: state,
			ID: fmt.Sprintf("pay_example0001:2026-01-25 10:00:00:%d:%d", cents, ordinal)}
	}
	disputed := func(s payment.DisputeState) payment.Fact {
		return payment.Fact{Kind: payment.FactDispute, ID: "pay_example0001", Dispute: s}
	}
	attempt := func(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }
	rest := attempt(payment.StatusRefunded)
	item := func(status, value string) string {
		return `{"dateCreated":"2026-01-25 10:00:00","status":"` + status + `","value":` + value + `}`
	}
	rows := []providertest.Lookup{
		row("CONFIRMED", "", "", payment.StatusPaid, paid(), fee),
		row("RECEIVED", "", "", payment.StatusPaid, paid(), fee),
		row("RECEIVED_IN_CASH", "", "", payment.StatusPaid, paid(), fee),
		row("DUNNING_RECEIVED", "", "", payment.StatusPaid, paid(), fee),
		row("PENDING", "", "", payment.StatusPending, attempt(payment.StatusPending)),
		row("PENDING", `,"deleted":true`, "", payment.StatusCanceled, attempt(payment.StatusCanceled)),
		row("OVERDUE", `,"deleted":true`, "", payment.StatusCanceled, attempt(payment.StatusCanceled)),
		row("RECEIVED", `,"deleted":true`, "", payment.StatusPaid, paid(), fee),
		row("AWAITING_RISK_ANALYSIS", "", "", payment.StatusPending, attempt(payment.StatusPending)),
		row("AUTHORIZED", "", "", payment.StatusAuthorized, attempt(payment.StatusAuthorized)),
		row("OVERDUE", "", "", payment.StatusExpired, attempt(payment.StatusExpired)),
		row("DUNNING_REQUESTED", "", "", payment.StatusExpired, attempt(payment.StatusExpired)),
		row("RECEIVED", `,"refunds":[`+item("DONE", "49.9")+`]`, "", payment.StatusPartiallyRefunded,
			refund(4990, payment.RefundSucceeded, 0), paid(), fee),
		row("REFUND_IN_PROGRESS", "", `{"data":[`+item("PENDING", "149.90")+`]}`, payment.StatusPaid,
			refund(14990, payment.RefundPending, 0), paid(), fee),
		row("REFUND_REQUESTED", "", `{"data":[]}`, payment.StatusPaid, paid(), fee),
		row("REFUNDED", "", `{"data":[`+item("DONE", "149.9")+`],"hasMore":false}`, payment.StatusRefunded,
			paid(), refund(14990, payment.RefundSucceeded, 0), fee),
		row("REFUNDED", "", `{"data":[]}`, payment.StatusRefunded, paid(), rest, fee),
		row("REFUNDED", `,"refunds":[`+item("DONE", "49.9")+`]`, "", payment.StatusRefunded,
			paid(), refund(4990, payment.RefundSucceeded, 0), rest, fee),
		row("REFUNDED", `,"chargeback":{"status":"DONE"}`, `{"data":[]}`, payment.StatusChargedBack,
			paid(), disputed(payment.DisputeLost), fee),
		row("CHARGEBACK_REQUESTED", `,"chargeback":{"status":"REQUESTED"}`, "", payment.StatusDisputed,
			paid(), disputed(payment.DisputeOpen), fee),
		row("CHARGEBACK_DISPUTE", "", "", payment.StatusDisputed, paid(), disputed(payment.DisputeOpen), fee),
		row("AWAITING_CHARGEBACK_REVERSAL", "", "", payment.StatusPaid, paid(), disputed(payment.DisputeWon), fee),
		row("RECEIVED", `,"chargeback":{"status":"REVERSED"}`, "", payment.StatusPaid, paid(), fee, disputed(payment.DisputeWon)),
		row("RECEIVED", `,"chargeback":{"status":"SOMETHING"}`, "", payment.StatusPaid, paid(), fee),
	}
	for name, r := range map[string]providertest.Lookup{
		"a status of tomorrow":    {Answer: sale("A_WORD_OF_TOMORROW", "", ""), Err: provider.ErrUnreadable},
		"an amount that is a sum": {Answer: sale("RECEIVED", `,"refunds":[{"status":"DONE","value":"x"}]`, ""), Err: provider.ErrUnreadable},
		"refunds on two pages":    {Answer: sale("REFUNDED", "", `{"data":[],"hasMore":true}`), Err: provider.ErrUnreadable},
		"refunds without data":    {Answer: sale("REFUNDED", "", `{}`), Err: provider.ErrUnreadable},
	} {
		r.Name, r.Ref = name, "pay_example0001"
		rows = append(rows, r)
	}
	return rows
}

func TestAsaasKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 12, 30, 5, 0, time.UTC)
	body := []byte(confirmed)
	spelt := func(format string, numbers ...string) (bodies [][]byte) {
		for _, n := range numbers {
			bodies = append(bodies, []byte(strings.Replace(format, "149.90", n, 1)))
		}
		return bodies
	}
	spellings := func(cents int64) []string {
		s := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		return []string{s, strings.TrimSuffix(strings.TrimSuffix(s, "0"), ".0"), `"` + s + `"`, s + "0"}
	}
	plain := strings.Replace(confirmed, `"netValue":144.93,`, "", 1)
	providertest.Run(t, providertest.Spec{
		Factory: asaas.New, Source: source(), Now: now, Sign: sign,
		CredentialHeader: asaas.TokenHeader, CaseMatters: true,
		Accepted: []providertest.Credential{
			{Name: "the token of the contract", Request: sign(token, body, now), Label: "1"},
			{Name: "the previous token", Request: sign(oldToken, body, now), Label: "2"},
		},
		Refused: []providertest.Credential{
			{Name: "an empty token", Request: sign("", body, now), Reason: provider.ReasonMissing},
			{Name: "one byte changed", Request: sign(token[:len(token)-1]+"1", body, now), Reason: provider.ReasonToken},
			{Name: "a trailing space", Request: sign(token+" ", body, now), Reason: provider.ReasonToken},
			{Name: "the right token twice", Reason: provider.ReasonMalformed,
				Request: provider.Request{Header: http.Header{asaas.TokenHeader: {token, token}}, Body: body, Now: now}},
			{Name: "the token as a bearer", Reason: provider.ReasonMissing,
				Request: provider.Request{Header: http.Header{"Authorization": {"Bearer " + token}}, Body: body, Now: now}},
		},
		Body: body,
		EmptyData: [][]byte{
			[]byte(`{"id":"evt_1","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-15 09:30:02"}`),
			[]byte(`{"id":"evt_1","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-15 09:30:02","payment":null}`),
			[]byte(`{"id":"evt_1","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-15 09:30:02","payment":{ }}`),
			[]byte(`{"id":"evt_1","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-15 09:30:02","payment":[]}`),
		},
		Keys:    keys(),
		Amounts: func(cents int64) [][]byte { return spelt(plain, spellings(cents)...) },
		OutOfRange: append(
			spelt(confirmed, "12345678901234567890", "-149.90", "149.901", "1e400", "1e-3", "0"),
			[]byte(strings.Replace(confirmed, `"refunds":null`, `"refunds":[{"status":"DONE","value":-1}]`, 1)),
			[]byte(strings.Replace(confirmed, `"refunds":null`, `"refunds":[{"status":"DONE","value":0}]`, 1)),
			[]byte(strings.Replace(confirmed, "144.93", "-92233720368547758.08", 1)),
		),
		Lookups:      lookups(),
		LookupRef:    "pay_example0001",
		LookupAnswer: sale("REFUNDED", "", `{"data":[{"dateCreated":"2026-01-25 10:00:00","status":"DONE","value":149.90}]}`),
		LookupAmounts: func(cents int64) (answers []http.HandlerFunc) {
			for _, s := range spellings(cents) {
				answers = append(answers, answer(`{"id":"pay_example0001","status":"RECEIVED","value":`+s+`}`))
			}
			return answers
		},
		CheckLookup: checkLookup,
	})
}

func checkLookup(r *http.Request) error {
	switch {
	case r.URL.Path != "/payments/pay_example0001":
		return errors.New("path " + r.URL.Path)
	case r.Header.Get("Authorization") != "":
		return errors.New("sends Authorization, which Asaas does not read")
	case r.Header.Get("User-Agent") != "umavez":
		return errors.New("User-Agent " + r.Header.Get("User-Agent"))
	case r.Header.Get("Access_token") != apiKey:
		return errors.New("no access_token")
	}
	return nil
}

func keys() []providertest.KeyPair {
	change := func(old, new string) []byte {
		if !strings.Contains(confirmed, old) {
			panic("the body does not have " + old)
		}
		return []byte(strings.Replace(confirmed, old, new, 1))
	}
	noID := strings.Replace(confirmed, `"id":"evt_0a1b2c3d4e5f60718293a4b5c6d7e8f9&900000001",`, "", 1)
	return []providertest.KeyPair{
		{Name: "a redelivery", A: []byte(confirmed), B: []byte(confirmed), Same: true},
		{Name: "one id with another body (CASES B13)", A: []byte(confirmed), B: change("PED-1001", "PED-9"), Same: true},
		{Name: "two ids", A: []byte(confirmed), B: change("&900000001", "&900000002")},
		{Name: "an id with an equals sign (CASES D12)", A: change("evt_0a1b2c3d4e5f60718293a4b5c6d7e8f9&900000001", "evt_a&b=c"), B: change("evt_0a1b2c3d4e5f60718293a4b5c6d7e8f9&900000001", "evt_a&b")},
		{Name: "old bodies without id", A: []byte(noID), B: []byte(strings.Replace(noID, "144.93", "144.94", 1)), Same: true},
		{Name: "old bodies of two times", A: []byte(noID), B: []byte(strings.Replace(noID, "09:30:02", "09:30:03", 1))},
		{Name: "old bodies of two types", A: []byte(noID), B: []byte(strings.Replace(noID, "PAYMENT_CONFIRMED", "PAYMENT_RECEIVED", 1))},
		{Name: "old bodies of two payments", A: []byte(noID), B: []byte(strings.Replace(noID, "pay_example0001", "pay_example0002", 1))},
		{Name: "an old body whose type is an id", A: []byte(noID), B: change("evt_0a1b2c3d4e5f60718293a4b5c6d7e8f9&900000001", event.Key("fallback", "PAYMENT_CONFIRMED", "pay_example0001", "2026-01-15 09:30:02"))},
	}
}
