package standardwebhooks

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// mapping describes a sender whose shape has nothing of the profile: other
// words, decimal amounts, times in seconds, a list in place of an object, an
// address with a query.
func mapping(change ...map[string]string) map[string]string {
	m := map[string]string{
		"TYPE_PATH": "event.name", "TIMESTAMP_PATH": "event.at", "TIME_FORMAT": "unix", "TEST_PATH": "event.rehearsal",
		"EVENTS": "charge.created=pending, charge.reserved=authorized, charge.settled=paid, charge.given-back=refund," +
			"charge.give-back-asked=refund_pending, charge.give-back-bounced=refund_failed, charge.changed=by_status, charge.look=lookup," +
			"complaint.opened=disputed, complaint.rejected=dispute_won, complaint.granted=charged_back, charge.*=none, invoice.*=none",
		"PAYMENT_ID_PATH": "complaint.*=complaint.charge, *=charge.code",
		"STATUS_PATH":     "charge.state",
		"STATUS_MAP":      "OPEN=pending,SETTLED=paid,PART=partially_refunded,BACK=refunded,REFUSED=failed,REVOKED=canceled,OVERDUE=expired,COMPLAINT=disputed,GRANTED=charged_back",
		"AMOUNT_PATH":     "charge.gross", "NET_PATH": "charge.left", "AMOUNT_UNIT": "decimal", "CURRENCY_PATH": "money",
		"REFERENCE_PATH": "charge.order", "BENEFICIARY_PATH": "charge.owner",
		"REFUND_ID_PATH": "give_back.code", "REFUND_AMOUNT_PATH": "give_back.value", "REFUND_TOTAL_PATH": "give_back.sum",
		"DISPUTE_ID_PATH": "complaint.code", "DISPUTE_AMOUNT_PATH": "complaint.value",
		"DEDUPE": "fields", "DEDUPE_FIELDS": "event.name, charge.code, event.at",

		"API_AUTH": "X-Api-Key: {key}", "LOOKUP_URL": "/search/charges?kind=all&code={id}", "LOOKUP_ID_PATH": "charges.0.code",
		"LOOKUP_STATUS_PATH": "charges.0.state", "LOOKUP_STATUS_MAP": "OPEN=pending,SETTLED=paid,PART=partially_refunded,BACK=refunded,OVERDUE=expired,COMPLAINT=disputed",
		"LOOKUP_AMOUNT_PATH": "charges.0.gross", "LOOKUP_FEE_PATH": "charges.0.kept", "LOOKUP_CURRENCY_PATH": "charges.0.money",
		"LOOKUP_REFERENCE_PATH": "charges.0.order", "LOOKUP_BENEFICIARY_PATH": "charges.0.owner", "LOOKUP_REFUND_TOTAL_PATH": "charges.0.sum",
		"LOOKUP_REFUNDS_URL": "/charges/{id}/give-backs", "LOOKUP_REFUNDS_PATH": ".", "LOOKUP_REFUND_ID_PATH": "code",
		"LOOKUP_REFUND_AMOUNT_PATH": "value", "LOOKUP_REFUND_STATUS_PATH": "state", "LOOKUP_REFUND_STATUS_MAP": "DONE=succeeded,ASKED=pending,BOUNCED=failed",
	}
	for _, c := range change {
		for name, v := range c {
			m[name] = v
			if v == "" {
				delete(m, name)
			}
		}
	}
	return m
}

func mapped(change ...map[string]string) provider.Source { return with(source(), mapping(change...)) }

// charge is the sender's API: the search, and the list of refunds.
func charge(state, more, giveBacks string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/search/charges") {
			fmt.Fprint(w, giveBacks)
			return
		}
		fmt.Fprint(w, `{"charges":[{"code":"CH/12.a","state":"`+state+`","gross":"250.00","kept":10,"money":"BRL","order":"PED-1","owner":"loja-9"`+more+`}]}`)
	}
}

func mappedLookups() []providertest.Lookup {
	status := func(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }
	fee := payment.Fact{Kind: payment.FactFee, ID: "CH/12.a", Amount: payment.Of(1000)}
	refund := func(cents int64, s payment.RefundState) payment.Fact {
		return payment.Fact{Kind: payment.FactRefund, ID: "gb_1", Amount: payment.Of(cents), Refund: s}
	}
	total := func(cents int64) payment.Fact {
		return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents), ByID: true}
	}
	const done = `[{"code":"gb_1","value":100.5,"state":"DONE"}]`
	rows := []providertest.Lookup{
		{Name: "settled", Answer: charge("SETTLED", "", "[]"), Claim: &payment.Claim{
			GatewayID: "CH/12.a", Currency: "BRL", Captured: payment.Of(25000), Reference: "PED-1", Beneficiary: "loja-9", Reason: "lookup",
			Facts: []payment.Fact{status(payment.StatusPaid), fee},
		}},
		{Name: "open", Answer: charge("OPEN", "", "not asked for"), Status: payment.StatusPending, Facts: []payment.Fact{status(payment.StatusPending)}},
		{Name: "a part given back", Answer: charge("PART", `,"sum":100.50`, done), Status: payment.StatusPartiallyRefunded,
			Facts: []payment.Fact{refund(10050, payment.RefundSucceeded), total(10050), status(payment.StatusPaid), fee}},
		{Name: "settled, and given back (CASES B23)", Answer: charge("SETTLED", `,"sum":"250"`, `[{"code":"gb_1","value":"250","state":"DONE"}]`), Status: payment.StatusRefunded},
		{Name: "given back, with a list that lags", Answer: charge("BACK", "", "[]"), // asked for by itself, so it is asked again
			Facts: []payment.Fact{{Kind: payment.FactRefundTotal, Amount: payment.Of(math.MaxInt64), ByID: true}, fee}},
		{Name: "complaint", Answer: charge("COMPLAINT", "", "[]"), Status: payment.StatusDisputed, Facts: []payment.Fact{status(payment.StatusDisputed), fee}},
		{Name: "totals alone", Answer: charge("PART", `,"sum":100.50`, ""), Status: payment.StatusPartiallyRefunded, Setting: noRefunds(),
			Facts: []payment.Fact{{Kind: payment.FactRefundTotal, Amount: payment.Of(10050)}, status(payment.StatusPaid), fee}},
		{Name: "a part given back, and nothing says how much", Answer: charge("PART", "", ""), Setting: noRefunds(), Err: provider.ErrUnreadable},
		{Name: "an empty search", Answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"charges":[]}`) }, Err: provider.ErrUnreadable},
		{Name: "a list that is not there", Answer: charge("SETTLED", "", `{"message":"no"}`), Err: provider.ErrUnreadable},
		{Name: "an inexact amount", Answer: charge("SETTLED", "", `[{"code":"gb_1","value":100.505,"state":"DONE"}]`), Err: provider.ErrUnreadable},
		{Name: "a fixed currency, and decimals that the settings call minor units", Answer: charge("SETTLED", "", "[]"), Err: provider.ErrUnreadable,
			Setting: map[string]string{"LOOKUP_CURRENCY_PATH": "", "CURRENCY_PATH": "", "CURRENCY": "brl", "LOOKUP_AMOUNT_UNIT": "minor"}},
	}
	for i := range rows {
		rows[i].Ref = "CH/12.a"
	}
	return rows
}

func noRefunds() map[string]string {
	return map[string]string{"LOOKUP_REFUNDS_URL": "", "LOOKUP_REFUNDS_PATH": "", "LOOKUP_REFUND_ID_PATH": "",
		"LOOKUP_REFUND_AMOUNT_PATH": "", "LOOKUP_REFUND_STATUS_PATH": "", "LOOKUP_REFUND_STATUS_MAP": ""}
}

func TestASenderKnownBySettingsAlone(t *testing.T) {
	t.Parallel()
	settled := func(gross string) []byte {
		return []byte(`{"event":{"name":"charge.settled","at":1767225605},"money":"BRL","charge":{"code":"CH/12.a","gross":` + gross + `}}`)
	}
	s := spec(t)
	s.Source, s.GoldenDir, s.Body = mapped(), "testdata/mapped", testdata(t, "mapped/settled")
	s.EmptyData = [][]byte{[]byte(`{"event":{"name":"charge.settled"},"charge":null}`), []byte(`{"event":{"name":"complaint.opened"},"charge":{"code":"x"}}`)}
	s.TestBodies = [][]byte{testdata(t, "mapped/rehearsal")}
	s.Refused, s.Accepted = nil, nil
	s.Keys = []providertest.KeyPair{
		{Name: "another type", A: settled("1"), B: []byte(`{"event":{"name":"charge.reserved","at":1767225605},"charge":{"code":"CH/12.a"}}`)},
		{Name: "another time", A: settled("1"), B: []byte(`{"event":{"name":"charge.settled","at":1767225606},"charge":{"code":"CH/12.a"}}`)},
		{Name: "another payment", A: settled("1"), B: []byte(`{"event":{"name":"charge.settled","at":1767225605},"charge":{"code":"CH/12.b"}}`)},
		{Name: "another amount (CASES B13)", A: settled("1"), B: settled("2"), Same: true},
		{Name: "a field missing: the bytes decide", A: []byte(`{"event":{"name":"charge.look"},"charge":{"code":"CH/12.a"}}`),
			B: []byte(`{"event":{"name":"charge.look"},"charge":{"code":"CH/12.a"} }`)},
	}
	s.Amounts = func(cents int64) (all [][]byte) {
		for _, spelling := range []string{"%d.%02d", `"%d.%02d"`} {
			all = append(all, settled(fmt.Sprintf(spelling, cents/100, cents%100)))
		}
		if cents%10 == 0 {
			all = append(all, settled(fmt.Sprintf("%d.%d", cents/100, cents/10%10)))
		}
		return all
	}
	s.OutOfRange = [][]byte{settled("12345678901234567890"), settled("-0.01"), settled("0.001"), settled("1e400"), settled(`"1,50"`), settled("92233720368547758.08")}
	s.Lookups, s.LookupRef, s.LookupAnswer = mappedLookups(), "CH/12.a", charge("SETTLED", "", "[]")
	s.LookupAmounts = func(cents int64) []http.HandlerFunc {
		return []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/search/charges" {
				fmt.Fprint(w, "[]")
				return
			}
			fmt.Fprintf(w, `{"charges":[{"code":"CH/12.a","state":"SETTLED","gross":%d.%02d,"money":"BRL"}]}`, cents/100, cents%100)
		}}
	}
	s.CheckLookup = func(r *http.Request) error {
		if got := r.URL.RequestURI(); got != "/search/charges?code=CH%2F12.a&kind=all" && got != "/charges/CH%2F12.a/give-backs" {
			return errors.New("asked " + got)
		}
		if r.Header.Get("X-Api-Key") != apiKey || r.Header.Get("Authorization") != "" {
			return errors.New("the key is not where it belongs")
		}
		return nil
	}
	providertest.Run(t, s)
}

// The three rules for a missing net amount, and the one for a time.
func TestRulesThatAreSettings(t *testing.T) {
	t.Parallel()
	fact := func(src provider.Source, body string) []payment.Fact {
		t.Helper()
		p := build(t, src)
		r := sign(secretNow, []byte(body), clock)
		claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		return claims[0].Facts[1:] // after "paid"
	}
	const bare = `{"type":"payment.paid","data":{"payment_id":"p","amount":1000,"currency":"BRL"`
	known := payment.Fact{Kind: payment.FactFee, ID: "p", Amount: payment.Of(30)}
	asked := payment.Fact{Kind: payment.FactFee, ID: "p"}
	for _, c := range []struct {
		rule, more string
		want       []payment.Fact
	}{
		{"", `}}`, nil}, {"", `,"fee":30}}`, []payment.Fact{known}}, {"", `,"net":970}}`, []payment.Fact{known}}, {"", `,"fee":30,"net":970}}`, []payment.Fact{known}},
		{"fee", `,"fee":30}}`, []payment.Fact{known}},
		{"gross", `}}`, nil}, {"gross", `,"fee":30}}`, nil}, {"gross", `,"net":970}}`, []payment.Fact{known}},
		{"lookup", `}}`, []payment.Fact{asked}}, {"lookup", `,"fee":30}}`, []payment.Fact{asked}}, {"lookup", `,"net":970}}`, []payment.Fact{known}},
	} {
		got := fact(with(source(), map[string]string{"NET_MISSING": c.rule}), bare+c.more)
		if d := providertest.DiffClaims([]payment.Claim{{Facts: c.want}}, []payment.Claim{{Facts: got}}); d != "" {
			t.Errorf("%q with %s:\n%s", c.rule, c.more, d)
		}
	}
	for format, texts := range map[string]map[string]string{
		"unix":    {"1767225605": "2026-01-01T00:00:05Z", `"1767225605"`: "2026-01-01T00:00:05Z", "1767225605.5": "", "0": "", "-1": "", "1767225605000": ""},
		"unix_ms": {"1767225605250": "2026-01-01T00:00:05.25Z", `"x"`: "", "99999999999999999": ""},
		"rfc3339": {`"2026-01-01T00:00:05.5-03:00"`: "2026-01-01T03:00:05.5Z", `"2026-01-01"`: "", `"0001-01-01T00:00:00Z"`: "", "1767225605": "", "{}": ""},
	} {
		p := build(t, mapped(map[string]string{"TIME_FORMAT": format}))
		for text, want := range texts {
			m := p.Parse(sign(secretNow, []byte(`{"event":{"name":"charge.created","at":`+text+`},"charge":{"code":"c"}}`), clock))[0]
			got := ""
			if !m.OccurredAt.IsZero() {
				got = m.OccurredAt.Format("2006-01-02T15:04:05.999999999Z07:00")
			}
			if got != want {
				t.Errorf("%s %s: %q, want %q", format, text, got, want)
			}
		}
	}
}
