package stripe

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v84/webhook"

	"github.com/umavez/umavez/pkg/provider"
)

func TestBodiesSignedByTheOfficialLibraryAreAccepted(t *testing.T) {
	t.Parallel()
	p := gatewayOf(t, source())
	for name, body := range map[string][]byte{
		"the vector":           testdata(t, "vector"),
		"a live payment":       testdata(t, "succeeded"),
		"odd spacing":          []byte(`{"amount": 100.10,  "id":"pay_T1"}`),
		"line separators":      []byte("{\"name\":\"a\u2028b\u2029c\"}"),
		"escapes":              []byte(`{"url":"https:\/\/loja.example\/a\u0026b"}`),
		"accents and cards":    []byte(`{"d":"São João – R$ 10 – ₹ 99 – 💳"}`),
		"bytes of no encoding": {0, 1, 2, 0xff, 0xfe, '\r', '\n'},
		"a byte-order mark":    []byte("\xef\xbb\xbf{}"),
		"nothing":              {},
		"a megabyte":           bytes.Repeat([]byte("x"), 1<<20),
	} {
		for i, secret := range []string{secretNow, secretOld} {
			by := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: clock})
			r := withHeader(by.Header, body, stamp)
			if label, reason := p.Verify(r); reason != "" || label != []string{"1", "2"}[i] {
				t.Errorf("%s: label %q, reason %q", name, label, reason)
			}
			if ours := Sign(secret, clock, body); ours != by.Header {
				t.Errorf("%s: we sign %q, the library %q", name, ours, by.Header)
			}
		}
	}
}

func TestTheVectorOfTheContractIsWhatTheOfficialLibrarySigns(t *testing.T) {
	t.Parallel()
	by := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: testdata(t, "vector"), Secret: secretNow, Timestamp: clock})
	if by.Header != "t=1767225600,v1="+digestNow {
		t.Error(by.Header)
	}
}

// The official library reads the machine's own clock, so these headers are
// made now. Where it differs from us, it is on purpose, and the row says why.
func TestWeAgreeWithTheOfficialLibraryOnWhatToRefuse(t *testing.T) {
	t.Parallel()
	body := testdata(t, "succeeded")
	now := time.Now()
	good := Sign(secretNow, now, body)
	stampText, digestText, _ := strings.Cut(good, ",v1=")
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		name, header, secret string
		body                 []byte
		ours, theirs         bool
		why                  string // of a difference
	}{
		{name: "as signed", header: good, ours: true, theirs: true},
		{name: "another secret", header: good, secret: secretOld},
		{name: "another body", header: good, body: append(bytes.Clone(body), ' ')},
		{name: "an empty header"},
		{name: "only v0", header: stampText + ",v0=" + digestText},
		{name: "v1 beside a wrong one", header: stampText + ",v1=" + zeros + ",v1=" + digestText, ours: true, theirs: true},
		{name: "v1 beside another scheme", header: good + ",v0=" + zeros, ours: true, theirs: true},
		{name: "v1 not hexadecimal", header: stampText + ",v1=" + strings.Repeat("x", 64)},
		{name: "v1 cut short", header: good[:len(good)-2]},
		{name: "upper-case hexadecimal", header: stampText + ",v1=" + strings.ToUpper(digestText), ours: true, theirs: true},
		{name: "t not a number", header: "t=abc,v1=" + digestText},
		{name: "t absent", header: "v1=" + digestText},
		{name: "too old", header: Sign(secretNow, now.Add(-301*time.Second), body)},
		{
			name: "48 hours ahead", header: Sign(secretNow, now.Add(48*time.Hour), body), theirs: true,
			why: "the library looks at old time-stamps only; a header made for later would be a replay kept in stock",
		},
		{
			name: "an item without an equals sign", header: good + ",new", ours: true,
			why: "the library refuses the header; we skip what we do not understand, so that Stripe may add items",
		},
		{
			name: "two time-stamps", header: "t=1," + good, theirs: true,
			why: "the library takes the last; only one of the two was signed, so we take none",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.secret == "" {
				c.secret = secretNow
			}
			if c.body == nil {
				c.body = body
			}
			_, reason := gatewayOf(t, source(provider.Secret(c.secret))).Verify(withHeader(c.header, c.body, now.Unix()))
			err := webhook.ValidatePayload(c.body, c.header, c.secret)
			if ours, theirs := reason == "", err == nil; ours != c.ours || theirs != c.theirs {
				t.Errorf("we accept: %v (%s), the library accepts: %v (%v); want %v and %v", ours, reason, theirs, err, c.ours, c.theirs)
			}
			if (c.ours != c.theirs) != (c.why != "") {
				t.Error("a difference needs a reason, and only a difference")
			}
		})
	}
	t.Run("an empty secret", func(t *testing.T) {
		// The library verifies against it, so that anybody can sign.
		if err := webhook.ValidatePayload(body, Sign("", now, body), ""); err != nil {
			t.Errorf("the library has changed its mind: %v", err)
		}
		if _, err := New(source("")); err == nil {
			t.Error("we accept an empty secret")
		}
	})
}
