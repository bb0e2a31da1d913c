package event_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/umavez/umavez/pkg/event"
)

func TestCase_B21_PartsOfAKeyDoNotRunIntoEachOther(t *testing.T) {
	t.Parallel()
	if a, b := event.Key("event", "ab", "c"), event.Key("event", "a", "bc"); a == b {
		t.Errorf("two different lists have one key %q", a)
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.String(), 0, 4)
		kinds := rapid.SampledFrom([]string{"event", "body", "sale"})
		k1, p1, k2, p2 := kinds.Draw(t, "kind"), parts.Draw(t, "parts"), kinds.Draw(t, "other kind"), parts.Draw(t, "other parts")
		same := k1 == k2 && len(p1) == len(p2)
		for i := range p1 {
			same = same && p1[i] == p2[i]
		}
		if (event.Key(k1, p1...) == event.Key(k2, p2...)) != same {
			t.Fatalf("%q %q and %q %q: same %t, keys %q and %q", k1, p1, k2, p2, same, event.Key(k1, p1...), event.Key(k2, p2...))
		}
	})
}

func TestAKeyIsShortAndPrintableWhateverItsParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := event.Key("event", rapid.SliceOfN(rapid.StringN(0, 500, 2000), 0, 5).Draw(t, "parts")...)
		if len(k) > 200 || !utf8.ValidString(k) || strings.ContainsFunc(k, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			t.Fatalf("key of %d bytes: %q", len(k), k)
		}
	})
}

func TestAPaymentTokenInjectsNothing(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"":                      "none",
		"pi_1ExA":               "pi_1ExA",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
	} {
		if got := event.PaymentToken(ref); got != want {
			t.Errorf("token of %q is %q, want %q", ref, got, want)
		}
	}
	for _, ref := range []string{"a.b", "*", ">", "a b", "a\x00b", "evt&1", "São", strings.Repeat("a", 65), "a\n"} {
		got := event.PaymentToken(ref)
		if len(got) != 34 || !strings.HasPrefix(got, "h_") || strings.ContainsAny(got, ".*> \x00") {
			t.Errorf("token of %q is %q", ref, got)
		}
	}
	if event.PaymentToken("a.b") == event.PaymentToken("a*b") {
		t.Error("two ids have one token")
	}
}
