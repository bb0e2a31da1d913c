package stripe

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// The vector of the contract.
const (
	secretNow = "whsec_test_stripe_0123456789abcdef"
	secretOld = "whsec_test_stripe_rotated_fedcba98"
	stamp     = 1767225600
	digestNow = "7350c4b94feb98d3e72be3008259c4d4ccd682d707d392c397e6d6bd864820a2"
	digestOld = "27d6d66fc87f9a1309ae361f981a102f73942c720f697f431aa2e9f43b5206eb"
)

var clock = time.Unix(stamp, 0)

func source(secrets ...provider.Secret) provider.Source {
	if len(secrets) == 0 {
		secrets = []provider.Secret{secretNow, secretOld}
	}
	return provider.Source{
		Provider: "stripe", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: secrets, APIKey: "sk_live_0123456789", Lookup: provider.LookupAlways,
	}
}

func gatewayOf(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func settings(kv ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == name {
				return kv[i+1]
			}
		}
		return ""
	}
}

func signed(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{
		Header: http.Header{SignatureHeader: {Sign(secret, now, body)}}, Body: body, Now: now,
	}
}

func withHeader(header string, body []byte, now int64) provider.Request {
	return provider.Request{Header: http.Header{SignatureHeader: {header}}, Body: body, Now: time.Unix(now, 0)}
}

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func succeeded(id, intent, amount string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","created":1767225601,"livemode":true,"type":"payment_intent.succeeded",`+
		`"data":{"object":{"id":%q,"object":"payment_intent","amount":%s,"amount_received":%s,"currency":"brl","status":"succeeded"}}}`,
		id, intent, amount, amount)
}

func TestStripeConformsToTheContractOfAllGateways(t *testing.T) {
	t.Parallel()
	body := testdata(t, "succeeded")
	vector := testdata(t, "vector")
	var empty [][]byte
	for _, data := range []string{`"data":null,`, `"data":{},`, `"data":[],`, ``, `"data":{"object":null},`, `"data":{"object":{}},`, `"data":{"transaction":null},`} {
		empty = append(empty, []byte(`{"id":"evt_empty","object":"event",`+data+`"created":1767225601,"livemode":true,"type":"payment_intent.succeeded"}`))
	}
	accept := func(name, header, label string, now int64) providertest.Credential {
		return providertest.Credential{Name: name, Request: withHeader(header, vector, now), Label: label}
	}
	refuse := func(name, header string, now int64, why provider.Reason) providertest.Credential {
		return providertest.Credential{Name: name, Request: withHeader(header, vector, now), Reason: why}
	}
	single := "t=1767225600,v1=" + digestNow
	providertest.Run(t, providertest.Spec{
		Factory: New, Source: source(), Now: clock, Sign: signed,
		CredentialHeader: SignatureHeader, BodySigned: true, CaseMatters: true,
		Accepted: []providertest.Credential{
			accept("the vector", single, "1", stamp),
			accept("the vector of the old secret", "t=1767225600,v1="+digestOld, "2", stamp),
			accept("the rotation of the vector", "t=1767225600,v1="+digestOld+",v1="+digestNow+",v0="+strings.Repeat("0", 64), "1", stamp),
			accept("the last second of the tolerance", single, "1", stamp+300),
			accept("the last second of the tolerance ahead", single, "1", stamp-300),
			accept("items without an equals sign beside the right one", "x,"+single+",,y=z=w", "1", stamp),
			accept("the right digest as the sixteenth", "t=1767225600"+strings.Repeat(",v1="+strings.Repeat("0", 64), 15)+",v1="+digestNow, "1", stamp),
		},
		Refused: []providertest.Credential{
			refuse("301 seconds old", single, stamp+301, provider.ReasonTooOld),
			refuse("301 seconds ahead", single, stamp-301, provider.ReasonTooNew),
			refuse("old and wrong is wrong", "t=1767225600,v1="+strings.Repeat("0", 64), stamp+301, provider.ReasonMismatch),
			refuse("the right digest under v0", "t=1767225600,v0="+digestNow, stamp, provider.ReasonMalformed),
			refuse("the right digest under v0, a wrong one under v1", "t=1767225600,v0="+digestNow+",v1="+strings.Repeat("0", 64), stamp, provider.ReasonMismatch),
			refuse("the right digest as the seventeenth", "t=1767225600"+strings.Repeat(",v1="+strings.Repeat("0", 64), 16)+",v1="+digestNow, stamp, provider.ReasonMismatch),
			refuse("no t", "v1="+digestNow, stamp, provider.ReasonMalformed),
			refuse("two t", "t=1767225600,"+single, stamp, provider.ReasonMalformed),
			refuse("t=abc", "t=abc,v1="+digestNow, stamp, provider.ReasonMalformed),
			refuse("t=-1", "t=-1,v1="+digestNow, stamp, provider.ReasonMalformed),
			refuse("t with a plus sign", "t=+1767225600,v1="+digestNow, stamp, provider.ReasonMalformed),
			refuse("t of 13 digits", "t=0001767225600,v1="+digestNow, stamp, provider.ReasonMalformed),
			refuse("t with a leading zero: other text, other digest", "t=01767225600,v1="+digestNow, stamp, provider.ReasonMismatch),
			refuse("v1 not hexadecimal", "t=1767225600,v1="+strings.Repeat("zz", 32), stamp, provider.ReasonMalformed),
			refuse("v1 empty", "t=1767225600,v1=", stamp, provider.ReasonMalformed),
		},
		Body:      body,
		EmptyData: empty,
		TestBodies: [][]byte{
			vector,
			[]byte(strings.Replace(string(testdata(t, "invoice_paid")), `"livemode":true,"pending`, `"livemode":false,"pending`, 1)),
			[]byte(strings.Replace(string(testdata(t, "invoice_upcoming")), `"livemode":true`, `"livemode":false`, 1)),
		},
		Keys: []providertest.KeyPair{
			{Name: "a resend with other volatile fields is the same event", A: succeeded("evt_1", "pi_1", "1"), B: append([]byte("\n"), succeeded("evt_1", "pi_1", "1")...), Same: true},
			{Name: "one event id is one event, whatever else it says", A: succeeded("evt_1", "pi_1", "1"), B: succeeded("evt_1", "pi_2", "2"), Same: true},
			{Name: "twins of one change are two events", A: succeeded("evt_1", "pi_1", "1"), B: succeeded("evt_2", "pi_1", "1")},
			{Name: "event ids are case sensitive", A: succeeded("evt_a", "pi_1", "1"), B: succeeded("evt_A", "pi_1", "1")},
			{Name: "CASES D12: ids with & and = stay apart", A: succeeded("evt_a&b=c", "pi_1", "1"), B: succeeded("evt_a", "pi_1", "1")},
			{Name: "reminders without an id differ by their bytes", A: testdata(t, "invoice_upcoming"), B: append(testdata(t, "invoice_upcoming"), '\n')},
			{Name: "the same reminder again is the same", A: testdata(t, "invoice_upcoming"), B: testdata(t, "invoice_upcoming"), Same: true},
		},
		Amounts: func(cents int64) [][]byte {
			return [][]byte{
				succeeded("evt_1", "pi_1", fmt.Sprint(cents)),
				succeeded("evt_1", "pi_1", fmt.Sprintf("%q", fmt.Sprint(cents))),
			}
		},
		OutOfRange: [][]byte{
			succeeded("evt_1", "pi_1", "12345678901234567890"), succeeded("evt_1", "pi_1", "9223372036854775808"),
			succeeded("evt_1", "pi_1", "1e40"), succeeded("evt_1", "pi_1", "-1"), succeeded("evt_1", "pi_1", "0.5"), succeeded("evt_1", "pi_1", "25.00"),
		},
		Lookups:   lookupRows(),
		LookupRef: "pi_1Look", LookupAnswer: answerAbout("pi_1Look"),
		LookupAmounts: func(cents int64) []http.HandlerFunc {
			return []http.HandlerFunc{intentAnswer(fmt.Sprintf(`"amount":%d,"amount_received":%d,"status":"succeeded"`, cents, cents))}
		},
		CheckLookup: checkLookup,
	})
}

func TestAKeyOfTheOtherModeIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key        string
		production bool
		base       string
		good       bool
	}{
		{"rk_live_0123", true, "", true}, {"sk_live_0123", true, "", true}, {"rk_test_0123", false, "", true}, {"", true, "", true},
		{"rk_0123", true, "", true}, {"rk_test_0123", true, "https://mock.example", true},
		{"rk_test_0123", true, "", false}, {"sk_test_0123", true, "", false}, {"sk_live_0123", false, "", false},
		{"pk_live_0123", true, "", false},
	} {
		src := source()
		src.APIKey, src.Production, src.APIBase = provider.Secret(c.key), c.production, c.base
		_, err := New(src)
		if (err == nil) != c.good || err != nil && (!strings.Contains(err.Error(), "STRIPE_") || strings.Contains(err.Error(), "0123")) {
			t.Errorf("%s, production %v, %q: %v", c.key, c.production, c.base, err)
		}
	}
}

func TestNewRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"TOLERANCE", "0", "STRIPE_LOJA2_TOLERANCE"},
		{"TOLERANCE", "-300", "STRIPE_LOJA2_TOLERANCE"},
		{"TOLERANCE", "5m", "STRIPE_LOJA2_TOLERANCE"},
		{"TOLERANCE", "99999999999", "STRIPE_LOJA2_TOLERANCE"},
		{"API_VERSION", "2026\r\nX: y", "STRIPE_LOJA2_API_VERSION"},
		{"ACCOUNT_ID", "acct 1", "STRIPE_LOJA2_ACCOUNT_ID"},
	} {
		src := source()
		src.Account, src.Setting = "loja2", settings(c.name, c.value)
		if _, err := New(src); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q: %v", c.name, c.value, err)
		}
	}
}

func TestToleranceIsASetting(t *testing.T) {
	t.Parallel()
	src := source()
	src.Setting = settings("TOLERANCE", "10")
	p := gatewayOf(t, src)
	header, body := "t=1767225600,v1="+digestNow, testdata(t, "vector")
	if _, reason := p.Verify(withHeader(header, body, stamp+10)); reason != "" {
		t.Errorf("after 10 s: %q", reason)
	}
	if _, reason := p.Verify(withHeader(header, body, stamp+11)); reason != provider.ReasonTooOld {
		t.Errorf("after 11 s: %q", reason)
	}
}

func TestTraitsFollowTheContract(t *testing.T) {
	t.Parallel()
	tr := gatewayOf(t, source()).Traits()
	if tr.Success != (provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 400 ||
		!tr.BodyAuthenticated || !tr.CanLookup || tr.LookupRate > 25 {
		t.Errorf("%+v", tr)
	}
	src := source()
	src.APIKey = ""
	if gatewayOf(t, src).Traits().CanLookup {
		t.Error("lookups without a key")
	}
}

func TestCase_A17_AWrongClockIsToldFromAWrongDigest(t *testing.T) {
	t.Parallel()
	p := gatewayOf(t, source())
	body := testdata(t, "succeeded")
	r := signed(secretNow, body, clock)
	for drift, want := range map[time.Duration]provider.Reason{
		6 * time.Minute: provider.ReasonTooOld, -6 * time.Minute: provider.ReasonTooNew, 0: provider.ReasonNone,
	} {
		r.Now = clock.Add(drift)
		if _, got := p.Verify(r); got != want {
			t.Errorf("our clock is off by %v: %q, want %q", drift, got, want)
		}
	}
	r.Now, r.Body = clock.Add(6*time.Minute), append(r.Body, ' ')
	if _, got := p.Verify(r); got != provider.ReasonMismatch {
		t.Errorf("wrong clock and wrong digest: %q", got)
	}
}

func TestCase_A19_AnyOfSeveralSignaturesWillDo(t *testing.T) {
	t.Parallel()
	body := testdata(t, "vector")
	header := "t=1767225600,v1=" + digestOld + ",v1=" + digestNow + ",v0=" + strings.Repeat("0", 64)
	for _, secret := range []provider.Secret{secretNow, secretOld} {
		if label, reason := gatewayOf(t, source(secret)).Verify(withHeader(header, body, stamp)); label != "1" || reason != "" {
			t.Errorf("label %q, reason %q", label, reason)
		}
	}
	p := gatewayOf(t, source("whsec_something_else_altogether"))
	if _, reason := p.Verify(withHeader(header, body, stamp)); reason != provider.ReasonMismatch {
		t.Errorf("neither secret: %q", reason)
	}
}

func TestModesDoNotMix(t *testing.T) {
	t.Parallel()
	sandbox := source()
	sandbox.Production, sandbox.APIKey = false, ""
	live, test := testdata(t, "succeeded"), testdata(t, "vector")
	p := gatewayOf(t, sandbox)
	m := p.Parse(signed(secretNow, live, clock))[0]
	if m.Disposition != provider.Ignore || m.Reason != "livemode_mismatch" || m.Test {
		t.Errorf("a live event in a sandbox: %+v", m)
	}
	if claims, err := p.Facts(providertest.EventOf(p, sandbox, signed(secretNow, live, clock), m)); err == nil {
		t.Errorf("facts of a live event in a sandbox: %+v", claims)
	}
	r := signed(secretNow, test, clock)
	m = p.Parse(r)[0]
	if m.Disposition != provider.Process || !m.Test {
		t.Errorf("a test event in a sandbox: %+v", m)
	}
	if claims, err := p.Facts(providertest.EventOf(p, sandbox, r, m)); err != nil || len(claims) != 1 || claims[0].Captured != payment.Of(25000) {
		t.Errorf("facts of a test event in a sandbox: %+v, %v", claims, err)
	}
	p = gatewayOf(t, source())
	unmarked := []byte(strings.Replace(string(live), `"livemode":true,"pending`, `"pending`, 1))
	if m := p.Parse(signed(secretNow, unmarked, clock))[0]; m.Disposition != provider.Quarantine {
		t.Errorf("an event of no mode: %+v", m)
	}
}

func TestReferenceAndOwnerComeFromTheSettings(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Replace(string(testdata(t, "succeeded")), `"order_id":"PED-1001"`,
		`"order_id":"PED-1001","pedido":"P-7","loja":"conta-9","strange":{"a":1},"nul":"a\u0000b"`, 1))
	for name, c := range map[string]struct {
		settings         []string
		fixed            string
		reference, owner string
	}{
		"by default":                      {nil, "", "PED-1001", ""},
		"another key":                     {[]string{"REFERENCE_FIELD", "pedido"}, "", "P-7", ""},
		"a key that is not there":         {[]string{"REFERENCE_FIELD", "nope"}, "", "", ""},
		"a value that is not text":        {[]string{"REFERENCE_FIELD", "strange"}, "", "", ""},
		"a value with a NUL":              {[]string{"REFERENCE_FIELD", "nul"}, "", "", ""},
		"the owner of the source":         {nil, "conta-1", "PED-1001", "conta-1"},
		"the owner of the metadata first": {[]string{"BENEFICIARY_METADATA", "loja"}, "conta-1", "PED-1001", "conta-9"},
		"else the owner of the source":    {[]string{"BENEFICIARY_METADATA", "nope"}, "conta-1", "PED-1001", "conta-1"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source()
			src.Setting, src.Beneficiary = settings(c.settings...), c.fixed
			p := gatewayOf(t, src)
			r := signed(secretNow, body, clock)
			claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
			if err != nil || len(claims) != 1 {
				t.Fatalf("%v, %v", claims, err)
			}
			if claims[0].Reference != c.reference || claims[0].Beneficiary != c.owner {
				t.Errorf("reference %q, owner %q; want %q, %q", claims[0].Reference, claims[0].Beneficiary, c.reference, c.owner)
			}
		})
	}
}

func TestCase_D3_AmountsBeyondTheRangeAreCalledSo(t *testing.T) {
	t.Parallel()
	p := gatewayOf(t, source())
	for amount, want := range map[string]string{
		"12345678901234567890": "range: payment_intent.amount does not fit into 64 bits",
		"9223372036854775808":  "range: payment_intent.amount does not fit into 64 bits",
		"-1":                   "range: payment_intent.amount is below zero",
		"100.5":                "amount: payment_intent.amount is not a whole number of minor units",
	} {
		r := signed(secretNow, succeeded("evt_1", "pi_1", amount), clock)
		if _, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0])); err == nil || err.Error() != want {
			t.Errorf("%s: %v", amount, err)
		}
	}
	// A number as an id is kept digit by digit.
	body := []byte(strings.Replace(string(succeeded("evt_1", "pi_1", "9007199254740993")), `"evt_1"`, "9007199254740993", 1))
	r := signed(secretNow, body, clock)
	m := p.Parse(r)[0]
	claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
	if m.ProviderEventID != "9007199254740993" || err != nil || claims[0].Captured != payment.Of(9007199254740993) {
		t.Errorf("%+v, %+v, %v", m, claims, err)
	}
}
