package mercadopago_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/mercadopago"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	secret    = "mp_test_secret_7c9e6679f3b04a1d"
	oldSecret = "previous_secret_of_the_tests_0001"
	apiKey    = "APP_USR-key-of-the-tests-only"
	requestID = "7d2b1f60-5a3e-4c8f-9b1a-0c2d4e6f8a10"
	payID     = "98765432101"
	ordID     = "ORD01KDXQ8M5N7P9R2S4T6V8W0X1Y"
)

var clock = time.Unix(1767225600, 0).UTC()

func source(settings ...string) provider.Source {
	own := map[string]string{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		own[name] = value
	}
	return provider.Source{
		Provider: "mercadopago", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: []provider.Secret{secret, oldSecret}, APIKey: apiKey, Lookup: provider.LookupAlways,
		Setting: func(name string) string { return own[name] },
	}
}

func build(t testing.TB, settings ...string) provider.Provider {
	t.Helper()
	p, err := mercadopago.New(source(settings...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// query is the address's query for a body: data.id and type, as the body has
// them; those of a payment when the body has none.
func query(body []byte) string {
	var b struct {
		Type string `json:"type"`
		Data struct {
			ID json.RawMessage `json:"id"`
		} `json:"data"`
	}
	_ = json.Unmarshal([]byte(strings.TrimLeft(string(body), "\ufeff")), &b)
	id := strings.Trim(string(b.Data.ID), `"`)
	if id == "" || strings.ContainsAny(id, "\\{[;") || id == "null" || len(id) > 100 {
		id = payID
	}
	if b.Type == "" {
		b.Type = "payment"
	}
	return url.Values{"data.id": {id}, "type": {b.Type}}.Encode()
}

// signedQuery is a request signed over the data.id of a query, as sent.
func signedQuery(key, query string, body []byte, now time.Time) provider.Request {
	q, _ := url.ParseQuery(query)
	stamp := fmt.Sprint(now.UnixMilli())
	text := "id:" + q.Get("data.id") + ";request-id:" + requestID + ";ts:" + stamp + ";"
	return provider.Request{
		Header: http.Header{
			"X-Signature": {"ts=" + stamp + ",v1=" + digest(key, text)}, "X-Request-Id": {requestID},
			"User-Agent": {"MercadoPago WebHook v1.0 payment"},
		},
		Query: query, Body: body, Now: now,
	}
}

func sign(key string, body []byte, now time.Time) provider.Request {
	return signedQuery(key, query(body), body, now)
}

func body(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMercadoPagoKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	updated := body(t, "payment_updated")
	providertest.Run(t, providertest.Spec{
		Factory: mercadopago.New, Source: source(), Now: clock, Sign: sign,
		CredentialHeader: mercadopago.SignatureHeader,
		Accepted:         accepted(updated), Refused: refused(updated),
		Body:          updated,
		TestBodies:    [][]byte{body(t, "order_of_a_test")},
		Keys:          keys(t),
		Lookups:       paymentLookups(),
		LookupRef:     payID,
		LookupAnswer:  pay("refunded", "refunded", `"transaction_amount_refunded":250`, refundItem("11", "250", "approved")),
		LookupAmounts: paymentAmounts,
		CheckLookup: func(r *http.Request) error {
			switch {
			case r.Method != http.MethodGet || r.URL.Path != "/v1/payments/"+payID || r.URL.RawQuery != "":
				return errors.New(r.Method + " " + r.URL.String())
			case r.Header.Get("Authorization") != "Bearer "+apiKey:
				return errors.New("no bearer token")
			}
			return nil
		},
	})
}

func TestMercadoPagoKeepsTheContractOfProvidersForOrders(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Spec{
		Factory: mercadopago.New, Source: source("MONEY_SOURCE=order"), Now: clock, Sign: sign,
		CredentialHeader: mercadopago.SignatureHeader,
		Body:             body(t, "orders/order_processed"),
		TestBodies:       [][]byte{body(t, "order_of_a_test")},
		GoldenDir:        "testdata/orders",
		Keys:             orderKeys(t),
		Lookups:          orderLookups(),
		LookupRef:        ordID,
		LookupAnswer:     ord("processed", "partially_refunded", `"transactions":{"refunds":[{"id":"REF1","amount":"100.00","status":"processed"}]}`),
		LookupAmounts:    orderAmounts,
		CheckLookup: func(r *http.Request) error {
			if r.URL.Path != "/v1/orders/"+ordID || r.Header.Get("Authorization") != "Bearer "+apiKey {
				return errors.New(r.URL.String())
			}
			return nil
		},
	})
}

func keys(t *testing.T) []providertest.KeyPair {
	updated, created := body(t, "payment_updated"), body(t, "payment_created")
	change := changer(updated)
	noID := change(`"id":121212121377,`, ``)
	noVersion := []byte(`{"type":"payment","action":"payment.updated","data":{"id":"` + payID + `"}}`)
	return []providertest.KeyPair{
		{Name: "a redelivery", A: updated, B: updated, Same: true},
		{Name: "one id with another body (CASES B13)", A: updated, B: change(`"v1"`, `"v2"`), Same: true},
		{Name: "an id as a text", A: updated, B: change(`121212121377`, `"121212121377"`), Same: true},
		{Name: "a seller as a text", A: updated, B: change(`444555666`, `"444555666"`), Same: true},
		{Name: "created and updated", A: created, B: updated},
		{Name: "two sellers", A: updated, B: change(`444555666`, `444555667`)},
		{Name: "two topics", A: updated, B: change(`"type":"payment"`, `"type":"claim"`)},
		{Name: "two ids above 2^53", A: change(`121212121377`, `9007199254740993`), B: change(`121212121377`, `9007199254740992`)},
		{Name: "the id of another payment's notification (CASES A25)", A: updated, B: change(payID, "98765432102")},
		{Name: "no id, and the same bytes", A: noID, B: noID, Same: true},
		{Name: "no id, and other bytes", A: noID, B: append([]byte(" "), noID...)},
		{Name: "no id, the same bytes but for the payment", A: noVersion, B: []byte(strings.Replace(string(noVersion), payID, "98765432102", 1))},
		{Name: "two chargeback notifications of one case", A: body(t, "chargeback"), B: changer(body(t, "chargeback"))(`121212129999`, `121212129998`)},
		{Name: "an id of zero is none", A: change(`121212121377`, `0`), B: append([]byte(" "), change(`121212121377`, `0`)...)},
	}
}

func orderKeys(t *testing.T) []providertest.KeyPair {
	processed := body(t, "orders/order_processed")
	change := changer(processed)
	return []providertest.KeyPair{
		{Name: "a redelivery", A: processed, B: processed, Same: true},
		{Name: "another letter case of the id", A: processed, B: []byte(strings.ReplaceAll(string(processed), ordID, strings.ToLower(ordID))), Same: true},
		{Name: "two versions", A: processed, B: change(`"version":3`, `"version":4`)},
		{Name: "two actions", A: processed, B: change(`order.processed`, `order.refunded`)},
		{Name: "two sellers", A: processed, B: change(`"444555666"`, `"444555667"`)},
		{Name: "an id of its own", A: change(`"live_mode"`, `"id":1,"live_mode"`), B: change(`"live_mode"`, `"id":2,"live_mode"`)},
		{Name: "an id of its own, with another version", A: change(`"live_mode"`, `"id":1,"live_mode"`),
			B: changer(change(`"live_mode"`, `"id":1,"live_mode"`))(`"version":3`, `"version":4`), Same: true},
		{Name: "neither id nor version", A: change(`,"version":3`, ``), B: append([]byte(" "), change(`,"version":3`, ``)...)},
	}
}

// changer changes a body where it must have the old text.
func changer(body []byte) func(old, new string) []byte {
	return func(old, new string) []byte {
		if !strings.Contains(string(body), old) {
			panic("the body does not have " + old)
		}
		return []byte(strings.Replace(string(body), old, new, 1))
	}
}

func paid() payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid} }
