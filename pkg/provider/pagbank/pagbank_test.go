package pagbank_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	token    = "EXAMPLE-TOKEN-0001" // of the contract's vector
	oldToken = "previous-account-token-0000"
	email    = "loja@example.com"

	chargeID = "CHAR_00000000-0000-4000-8000-000000000002"
	orderID  = "ORDE_00000000-0000-4000-8000-000000000001"
)

// The worked vector of the contract.
const (
	vectorBody   = `{"id":"ORDE_00000000-0000-4000-8000-000000000001","reference_id":"PED-1001","charges":[{"id":"CHAR_00000000-0000-4000-8000-000000000002","status":"PAID","amount":{"value":14990,"currency":"BRL"}}]}`
	vectorDigest = "d7b879dd50591f96a7ab877e606f4107e7da6f1f56b3d7a6588041aac6f74e18"
)

// settings are those that only this gateway has.
type settings map[string]string

func (s settings) get(name string) string { return s[name] }

func source() provider.Source {
	return provider.Source{
		Provider: "pagbank", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: []provider.Secret{token, oldToken}, APIKey: token, Lookup: provider.LookupAlways,
		Setting: settings{"EMAIL": email}.get,
	}
}

// with is the source with further settings.
func with(src provider.Source, more settings) provider.Source {
	before := src.Setting
	src.Setting = func(name string) string {
		if v, ok := more[name]; ok {
			return v
		}
		return before(name)
	}
	return src
}

func build(t testing.TB, src provider.Source) *pagbank.Provider {
	t.Helper()
	p, err := pagbank.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*pagbank.Provider)
}

func digest(secret string, body []byte) string {
	sum := sha256.Sum256([]byte(secret + "-" + string(body)))
	return hex.EncodeToString(sum[:])
}

func sign(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{pagbank.TokenHeader: {digest(secret, body)}}, Body: body, Now: now}
}

var clock = time.Date(2026, 1, 15, 12, 0, 5, 0, time.UTC)

const (
	paidAt      = `2026-01-15T09:00:03.000-03:00`
	form        = `notificationCode=00000000000000000000000000000000000001&notificationType=transaction`
	paidOrder   = `{"id":"` + orderID + `","reference_id":"PED-1001","created_at":"2026-01-15T09:00:00.000-03:00","charges":[` + paidCharge + `]}`
	paidCharge  = `{"id":"` + chargeID + `","reference_id":"PED-1001","status":"PAID","created_at":"2026-01-15T09:00:01.000-03:00","paid_at":"` + paidAt + `","amount":{"value":14990,"currency":"BRL","summary":{"total":14990,"paid":14990,"refunded":0}},"payment_response":{"code":"20000","message":"SUCESSO"},"payment_method":{"type":"PIX"}}`
	emptyOrder  = `{"id":"` + orderID + `","reference_id":"PED-1001","created_at":"2026-01-15T09:00:00.000-03:00","qr_codes":[{"id":"QRCO_1","amount":{"value":14990}}]}`
	unpaidShape = `{"id":"` + chargeID + `","reference_id":"PED-1001","status":%q,"created_at":"2026-01-15T09:00:01.000-03:00","amount":{"value":14990,"currency":"BRL","summary":{"total":14990,"paid":0,"refunded":0}}}`
)

// chargeBody is a charge by its status and its sums.
func chargeBody(status string, paid, refunded int) string {
	if paid == 0 {
		return fmt.Sprintf(unpaidShape, status)
	}
	body := strings.Replace(paidCharge, `"PAID"`, `"`+status+`"`, 1)
	body = strings.Replace(body, `"paid":14990`, fmt.Sprintf(`"paid":%d`, paid), 1)
	return strings.Replace(body, `"refunded":0`, fmt.Sprintf(`"refunded":%d`, refunded), 1)
}

func change(body, old, with string) []byte {
	if !strings.Contains(body, old) {
		panic("the body does not have " + old)
	}
	return []byte(strings.Replace(body, old, with, 1))
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func status(s payment.Status) payment.Fact {
	return payment.Fact{Kind: payment.FactStatus, Status: s}
}

func paid() payment.Fact {
	return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid, At: at(paidAt)}
}

func refundedSum(cents int64) payment.Fact {
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents)}
}

func lookups() []providertest.Lookup {
	row := func(name, body string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: name, Ref: chargeID, Answer: answer(body), Status: leads, Facts: facts}
	}
	created := paid()
	created.At = at("2026-01-15T09:00:01.000-03:00")
	rows := []providertest.Lookup{
		row("PAID", paidCharge, payment.StatusPaid, paid()),
		row("WAITING", chargeBody("WAITING", 0, 0), payment.StatusPending, status(payment.StatusPending)),
		row("IN_ANALYSIS", chargeBody("IN_ANALYSIS", 0, 0), payment.StatusPending, status(payment.StatusPending)),
		row("AUTHORIZED", chargeBody("AUTHORIZED", 0, 0), payment.StatusAuthorized, status(payment.StatusAuthorized)),
		row("DECLINED", chargeBody("DECLINED", 0, 0), payment.StatusFailed, status(payment.StatusFailed)),
		row("CANCELED, never paid", chargeBody("CANCELED", 0, 0), payment.StatusCanceled, status(payment.StatusCanceled)),
		row("CANCELED, paid", chargeBody("CANCELED", 14990, 14990), payment.StatusRefunded, paid(), status(payment.StatusRefunded)),
		row("CANCELED, paid, the refund not in the sums yet", chargeBody("CANCELED", 14990, 0), payment.StatusRefunded, paid(), status(payment.StatusRefunded)),
		row("PAID, a part refunded", chargeBody("PAID", 14990, 4990), payment.StatusPartiallyRefunded, paid(), refundedSum(4990)),
		row("PAID, all refunded (CASES B23)", chargeBody("PAID", 14990, 14990), payment.StatusRefunded, paid(), refundedSum(14990)),
		row("PAID, a part captured", chargeBody("PAID", 9990, 0), payment.StatusPaid, paid()),
		row("PAID without paid_at", string(change(paidCharge, `"paid_at":"`+paidAt+`",`, "")), payment.StatusPaid, created),
	}
	rows[0].Claim = &payment.Claim{
		GatewayID: chargeID, Currency: "BRL", Expected: payment.Of(14990), Captured: payment.Of(14990), Reference: "PED-1001",
		Reason: "lookup", Facts: []payment.Fact{paid()},
	}
	for name, body := range map[string]string{
		"a status of tomorrow":              chargeBody("SOMETHING_NEW", 0, 0),
		"a paid charge without any time":    `{"id":"` + chargeID + `","status":"PAID","amount":{"value":1,"summary":{"paid":1}}}`,
		"an amount that is no integer":      string(change(paidCharge, `"paid":14990`, `"paid":149.9`)),
		"another currency":                  string(change(paidCharge, "BRL", "USD")),
		"an order in the place of a charge": paidOrder,
	} {
		err := provider.ErrUnreadable
		if strings.HasPrefix(name, "an order") {
			err = provider.ErrMismatch
		}
		rows = append(rows, providertest.Lookup{Name: name, Ref: chargeID, Answer: answer(body), Err: err})
	}
	return rows
}

func TestPagBankKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	body := []byte(paidOrder)
	sums := func(n string) [][]byte {
		return [][]byte{change(paidOrder, `"paid":14990`, `"paid":`+n), change(paidCharge, `"paid":14990`, `"paid":`+n)}
	}
	upper := sign(token, body, clock)
	upper.Header = http.Header{pagbank.TokenHeader: {strings.ToUpper(digest(token, body))}}
	mac := sign(token, body, clock)
	mac.Header = http.Header{pagbank.TokenHeader: {digest(token, []byte("-"+string(body)))}}
	recurring := provider.Request{Header: http.Header{pagbank.RecurringHeader: {"MEUCIQDx"}}, Body: body, Now: clock}
	onPath := recurring
	onPath.Path = "any-secret-of-the-address"
	inPath := provider.Request{Header: http.Header{}, Path: token, Body: body, Now: clock}
	providertest.Run(t, providertest.Spec{
		Factory: pagbank.New, Source: source(), Now: clock, Sign: sign,
		CredentialHeader: pagbank.TokenHeader, BodySigned: true, CaseMatters: true,
		Accepted: []providertest.Credential{
			{Name: "the vector of the contract", Label: "1", Request: provider.Request{
				Header: http.Header{pagbank.TokenHeader: {vectorDigest}}, Body: []byte(vectorBody), Now: clock}},
			{Name: "the previous token", Request: sign(oldToken, body, clock), Label: "2"},
			{Name: "a notification code, which has no signature", Label: "unsigned",
				Request: provider.Request{Header: http.Header{}, Body: []byte(form), Now: clock}},
			{Name: "a notification code with a signature", Label: "2", Request: sign(oldToken, []byte(form), clock)},
		},
		Refused: []providertest.Credential{
			{Name: "an upper-case digest", Request: upper, Reason: provider.ReasonMalformed},
			{Name: "two hyphens", Request: mac, Reason: provider.ReasonMismatch},
			{Name: "the recurring product's signature", Request: recurring, Reason: provider.ReasonMissing},
			{Name: "the recurring product's signature at an address that is not secret", Request: onPath, Reason: provider.ReasonToken},
			{Name: "the token in the address", Request: inPath, Reason: provider.ReasonMissing},
			{Name: "JSON that goes on as a form", Reason: provider.ReasonMissing, Request: provider.Request{
				Header: http.Header{}, Body: []byte(`{"x":"&` + form + `&"}`), Now: clock}},
			{Name: "JSON in the place of a form's name", Reason: provider.ReasonMissing, Request: provider.Request{
				Header: http.Header{}, Body: []byte(" " + paidOrder + "&" + form), Now: clock}},
			{Name: "a form with two codes", Reason: provider.ReasonMissing, Request: provider.Request{
				Header: http.Header{}, Body: []byte(form + "&" + form), Now: clock}},
			{Name: "a form without a code", Reason: provider.ReasonMissing, Request: provider.Request{
				Header: http.Header{}, Body: []byte("notificationCode=&notificationType=transaction"), Now: clock}},
			{Name: "a code that is a path", Reason: provider.ReasonMissing, Request: provider.Request{
				Header: http.Header{}, Body: []byte("notificationCode=..%2Fx&notificationType=transaction"), Now: clock}},
			{Name: "a form of 2 KB", Reason: provider.ReasonMissing, Request: provider.Request{
				Header: http.Header{}, Body: []byte(form + "&x=" + strings.Repeat("x", 2048)), Now: clock}},
		},
		Body: body,
		Keys: keys(),
		Amounts: func(cents int64) [][]byte {
			return append(sums(fmt.Sprint(cents)), sums(fmt.Sprintf(`"%d"`, cents))...)
		},
		OutOfRange: append(append(append(sums("12345678901234567890"), sums("-14990")...), sums("149.90")...),
			append(sums("1e400"), change(paidOrder, `"refunded":0`, `"refunded":-1`), change(paidOrder, `"value":14990`, `"value":0.5`))...),
		Lookups:      lookups(),
		LookupRef:    chargeID,
		LookupAnswer: answer(chargeBody("PAID", 14990, 4990)),
		LookupAmounts: func(cents int64) []http.HandlerFunc {
			return []http.HandlerFunc{answer(chargeBody("PAID", int(cents), 0))}
		},
		CheckLookup: func(r *http.Request) error {
			switch {
			case r.URL.Path != "/charges/"+chargeID || r.URL.RawQuery != "":
				return errors.New("address " + r.URL.String())
			case r.Header.Get("Authorization") != "Bearer "+token:
				return errors.New("no bearer token")
			}
			return nil
		},
	})
}

func keys() []providertest.KeyPair {
	p := func(name string, a, b string, same bool) providertest.KeyPair {
		return providertest.KeyPair{Name: name, A: []byte(a), B: []byte(b), Same: same}
	}
	c := func(old, with string) string { return string(change(paidCharge, old, with)) }
	return []providertest.KeyPair{
		p("a repeat", paidOrder, paidOrder, true),
		p("one state in the order's body and in the charge's", paidOrder, paidCharge, true),
		p("one state in two bodies (CASES B13)", paidCharge, c(`"message":"SUCESSO"`, `"message":"OK","invoice_number":7`), true),
		p("the sum refunded so far", paidCharge, c(`"refunded":0`, `"refunded":1`), false),
		p("the sum paid", paidCharge, c(`"paid":14990`, `"paid":1499`), false),
		p("the status", paidCharge, c(`"PAID"`, `"CANCELED"`), false),
		p("the charge", paidCharge, c("000000000002", "000000000003"), false),
		p("paid again, after a cancellation (quirk 4)", paidCharge, c("09:00:03", "10:00:03"), false),
		p("another reference", paidCharge, c("PED-1001", "PED-1002"), false),
		p("a second attempt in one order", paidOrder, string(change(paidOrder, `"charges":[`, `"charges":[`+chargeBody("DECLINED", 0, 0)+",")), false),
		p("sums that could be read into each other (CASES B21)", c(`"paid":14990,"refunded":0`, `"paid":1,"refunded":23`), c(`"paid":14990,"refunded":0`, `"paid":12,"refunded":3`), false),
		p("two orders without charges", emptyOrder, string(change(emptyOrder, "000000000001", "000000000009")), false),
		p("an order without charges, repeated", emptyOrder, emptyOrder, true),
		p("one code", form, form, true),
		p("one code, the fields in the other order", form, "notificationType=transaction&notificationCode=00000000000000000000000000000000000001", true),
		p("two codes", form, string(change(form, "01&", "02&")), false),
		p("a code of another kind", form, string(change(form, "=transaction", "=preApproval")), false),
	}
}
