package pagbank_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/charmap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	transactionCode = "9E884542-81B3-4419-9A75-BCC6FB495EF1"
	lastEvent       = "2026-02-20T10:00:00.000-03:00"
)

// transactionXML is an answer of the old API, in UTF-8 without a declaration.
func transactionXML(status string, edits ...string) string {
	text := `<transaction><date>2026-01-15T09:00:00.000-03:00</date><code>` + transactionCode + `</code><reference>PED-1001</reference>` +
		`<type>1</type><status>` + status + `</status><lastEventDate>` + lastEvent + `</lastEventDate><paymentMethod><type>1</type><code>101</code></paymentMethod>` +
		`<grossAmount>149.90</grossAmount><discountAmount>0.00</discountAmount><feeAmount>6.38</feeAmount><netAmount>143.52</netAmount><extraAmount>0.00</extraAmount>` +
		`<sender><name>João</name></sender></transaction>`
	for i := 0; i+1 < len(edits); i += 2 {
		text = string(change(text, edits[i], edits[i+1]))
	}
	return text
}

// latin1 is a document as PagBank sends it.
func latin1(t testing.TB, document string) []byte {
	t.Helper()
	b, err := charmap.ISO8859_1.NewEncoder().Bytes([]byte(`<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>` + document))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func formEvent() *event.Event {
	return &event.Event{Provider: "pagbank", Account: provider.DefaultAccount, Type: "transaction", Body: []byte(form), ReceivedAt: clock}
}

func over(h http.HandlerFunc) *http.Client {
	return &http.Client{Transport: providertest.HandlerTransport{Handler: h}}
}

func resolve(t testing.TB, p *pagbank.Provider, body []byte) ([]payment.Claim, error) {
	t.Helper()
	return p.Resolve(context.Background(), over(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }), formEvent())
}

func TestACodeIsAskedForWithOurCredentials(t *testing.T) {
	t.Parallel()
	for production, host := range map[bool]string{true: "ws.pagseguro.uol.com.br", false: "ws.sandbox.pagseguro.uol.com.br"} {
		src := source()
		src.Production = production
		var asked *http.Request
		claims, err := build(t, src).Resolve(context.Background(), over(func(w http.ResponseWriter, r *http.Request) {
			asked = r
			_, _ = w.Write(latin1(t, transactionXML("5")))
		}), formEvent())
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		want := url.Values{"email": {email}, "token": {token}}
		if asked.URL.Scheme != "https" || asked.URL.Host != host || asked.URL.Path != "/v3/transactions/notifications/00000000000000000000000000000000000001" ||
			asked.URL.RawQuery != want.Encode() || asked.Method != http.MethodGet || asked.Header.Get("Authorization") != "" {
			t.Errorf("%s %s", asked.Method, asked.URL)
		}
	}
}

// The table of the contract, row by row: what the old API's numbers say.
func TestEachStatusOfATransactionIsWhatTheContractSays(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	fee := payment.Fact{Kind: payment.FactFee, ID: transactionCode, Amount: payment.Of(638)}
	for number, want := range map[string]struct {
		facts  []payment.Fact
		unpaid payment.Status // of a payment that we hold as pending
		held   payment.Status // of one that we hold as paid
	}{
		"1": {nil, payment.StatusPending, payment.StatusPaid},
		"2": {nil, payment.StatusPending, payment.StatusPaid},
		"3": {[]payment.Fact{status(payment.StatusPaid), fee}, payment.StatusPaid, payment.StatusPaid},
		"4": {[]payment.Fact{status(payment.StatusPaid), fee}, payment.StatusPaid, payment.StatusPaid},
		"5": {[]payment.Fact{status(payment.StatusDisputed)}, payment.StatusDisputed, payment.StatusDisputed},
		"6": {[]payment.Fact{status(payment.StatusRefunded)}, payment.StatusRefunded, payment.StatusRefunded},
		"7": {nil, payment.StatusPending, payment.StatusPaid}, // the charge says which it is
		"8": {[]payment.Fact{status(payment.StatusChargedBack)}, payment.StatusChargedBack, payment.StatusChargedBack},
		"9": {[]payment.Fact{status(payment.StatusDisputed)}, payment.StatusDisputed, payment.StatusDisputed},
	} {
		t.Run(number, func(t *testing.T) {
			claims, err := resolve(t, p, latin1(t, transactionXML(number)))
			if err != nil {
				t.Fatal(err)
			}
			expected := payment.Claim{Reference: "PED-1001", Reason: "transaction." + number}
			if want.facts != nil {
				expected.Currency, expected.Captured, expected.At, expected.Facts = "BRL", payment.Of(14990), at(lastEvent), want.facts
			}
			if d := providertest.DiffClaims([]payment.Claim{expected}, claims); d != "" {
				t.Error(d)
			}
			for held, leads := range map[string]payment.Status{chargeBody("WAITING", 0, 0): want.unpaid, paidCharge: want.held} {
				before := payment.Apply(payment.Payment{GatewayID: chargeID}, claimOf(t, p, held)).Payment
				r := payment.Apply(before, joined(claims[0]))
				if r.Need != "" || r.Payment.Status != leads {
					t.Errorf("over %s: %s (need %q), want %s", before.Status, r.Payment.Status, r.Need, leads)
				}
			}
		})
	}
}

// claimOf reads the only claim of a body.
func claimOf(t testing.TB, p provider.Provider, body string) payment.Claim {
	t.Helper()
	m := p.Parse(sign(token, []byte(body), clock))[0]
	claims, err := p.Facts(&event.Event{Provider: "pagbank", Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Body: m.Body})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v\n%s", len(claims), err, body)
	}
	if claims[0].At.IsZero() {
		claims[0].At = m.OccurredAt
	}
	return claims[0]
}

// joined is a claim after the processor has found its payment.
func joined(c payment.Claim) payment.Claim {
	c.GatewayID = chargeID
	return c
}

func TestAnAnswerIsReadInItsCharacterSet(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	accents := transactionXML("3", "PED-1001", "PEDIDO-ação-é")
	for name, body := range map[string][]byte{
		"ISO-8859-1":         latin1(t, accents),
		"UTF-8":              []byte(`<?xml version="1.0" encoding="UTF-8"?>` + accents),
		"without a word":     []byte(accents),
		"a byte-order mark":  []byte("\xef\xbb\xbf" + accents),
		"space round values": latin1(t, strings.Replace(accents, "<reference>PEDIDO-ação-é<", "<reference>\n PEDIDO-ação-é\t<", 1)),
	} {
		claims, err := resolve(t, p, body)
		if err != nil || claims[0].Reference != "PEDIDO-ação-é" {
			t.Errorf("%s: %+v, %v", name, claims, err)
		}
	}
	if _, err := resolve(t, p, []byte(`<?xml version="1.0" encoding="UTF-16"?>`+accents)); !errors.Is(err, provider.ErrUnreadable) {
		t.Errorf("UTF-16: %v", err)
	}
}

func TestAnAnswerThatIsNotUnderstoodMovesNothing(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	const canary = "CANARY7f3a"
	for name, document := range map[string]string{
		"an unknown status":       transactionXML("10"),
		"a status word":           transactionXML(canary),
		"no status":               transactionXML("3", "<status>3</status>", ""),
		"two statuses":            transactionXML("3", "<status>3</status>", "<status>3</status><status>5</status>"),
		"two amounts":             transactionXML("3", "<grossAmount>149.90</grossAmount>", "<grossAmount>149.90</grossAmount><grossAmount>1.00</grossAmount>"),
		"no reference":            transactionXML("5", "<reference>PED-1001</reference>", ""),
		"an empty reference":      transactionXML("5", "PED-1001", ""),
		"a reference of controls": transactionXML("5", "PED-1001", "a&#9;"+canary),
		"an amount in words":      transactionXML("3", "149.90", canary),
		"a fraction of a centavo": transactionXML("3", "149.90", "149.901"),
		"an amount below zero":    transactionXML("3", "149.90", "-149.90"),
		"an amount out of range":  transactionXML("3", "149.90", "123456789012345678901"),
		"a fee below zero":        transactionXML("3", "6.38", "-6.38"),
		"an entity":               transactionXML("3", "PED-1001", "&"+canary+";"),
		"a list of errors":        "<errors><error><code>1</code><message>" + canary + "</message></error></errors>",
		"two transactions":        transactionXML("3") + transactionXML("5"),
		"text behind":             transactionXML("3") + canary,
		"half of it":              transactionXML("3")[:200],
		"JSON":                    `{"status":"` + canary + `"}`,
		"nothing":                 "",
		"a web page":              "<html>" + canary,
	} {
		claims, err := resolve(t, p, []byte(document))
		if !errors.Is(err, provider.ErrUnreadable) {
			t.Errorf("%s: %+v, %v", name, claims, err)
		} else if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "149") {
			t.Errorf("%s: the error quotes the answer: %v", name, err)
		}
	}
}

func TestTroubleAtTheOldAPIIsToldWithoutItsAddress(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for code, want := range map[int]error{404: provider.ErrNotFound, 401: provider.ErrRefused, 403: provider.ErrRefused, 400: provider.ErrUnreadable, 302: provider.ErrUnreadable} {
		_, err := p.Resolve(context.Background(), over(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }), formEvent())
		if !errors.Is(err, want) {
			t.Errorf("%d: %v", code, err)
		}
	}
	var retry *provider.RetryError
	_, err := p.Resolve(context.Background(), over(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), formEvent())
	if !errors.As(err, &retry) || retry.Status != 503 {
		t.Error(err)
	}
	// E-mail and token are in the query: a failed connection must not show it.
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	p = build(t, with(source(), settings{"NOTIFICATION_BASE": address}))
	_, err = p.Resolve(context.Background(), &http.Client{Timeout: time.Second}, formEvent())
	if !errors.As(err, &retry) {
		t.Error(err)
	}
	for _, secret := range []string{token, email, "@", "%40", "00000000000000000000000000000000000001"} {
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, secret) {
			t.Errorf("the error shows %q: %s", secret, text)
		}
	}
}

// The fee's fields are known from the old API alone: they count where they
// account for each other to the cent.
func TestAFeeIsTakenOnlyWhereTheAmountsAddUp(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for name, row := range map[string]struct {
		edits []string
		want  int64
	}{
		"as it is":           {nil, 638},
		"another net amount": {[]string{"143.52", "143.51"}, 0},
		"no net amount":      {[]string{"<netAmount>143.52</netAmount>", ""}, 0},
		"no fee":             {[]string{"<feeAmount>6.38</feeAmount>", ""}, 0},
		"a fee of zero":      {[]string{"6.38", "0.00", "143.52", "149.90"}, 0},
		"no gross amount":    {[]string{"<grossAmount>149.90</grossAmount>", ""}, 0},
		"no code":            {[]string{"<code>" + transactionCode + "</code>", ""}, 0},
	} {
		claims, err := resolve(t, p, latin1(t, transactionXML("4", row.edits...)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got int64
		for _, f := range claims[0].Facts {
			if f.Kind == payment.FactFee {
				got = f.Amount.Value
			}
		}
		if got != row.want {
			t.Errorf("%s: fee %d, want %d", name, got, row.want)
		}
	}
}

// Without the time of its last event a transaction has the time of asking.
func TestATransactionWithoutATimeHasThatOfTheQuestion(t *testing.T) {
	t.Parallel()
	before := time.Now()
	claims, err := resolve(t, build(t, source()), latin1(t, transactionXML("5", "<lastEventDate>"+lastEvent+"</lastEventDate>", "")))
	if err != nil || claims[0].At.Before(before) || claims[0].At.After(time.Now()) {
		t.Errorf("%+v, %v", claims, err)
	}
}

func TestEveryDecimalAmountOfATransactionIsExact(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for cents := int64(1); cents <= 10000; cents++ {
		text := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		claims, err := resolve(t, p, []byte(strings.Replace(transactionXML("5"), "149.90", text, 1)))
		if err != nil || claims[0].Captured != payment.Of(cents) {
			t.Fatalf("%s: %+v, %v", text, claims, err)
		}
	}
}

// formEventOf is an event with another body.
func formEventOf(body string) *event.Event {
	e := formEvent()
	e.Body = []byte(body)
	return e
}
