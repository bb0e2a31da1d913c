package e2e

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What the contract asks for: success for whatever is authentic, so that no
// gateway stops its queue; the bytes kept; a reason for whoever looks.
func TestAuthenticBodiesThatCannotBeReadAreTakenKeptAndExplained(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		wants := unreadableForms(g)
		if !g.form {
			wants = unreadableJSON(w.t, g)
		}
		seen := map[string]bool{}
		for i, c := range wants {
			if seen[c.body] {
				w.t.Fatalf("a body is there twice, so one was not changed: %.200s", c.body)
			}
			seen[c.body] = true
			wants[i].body = strings.ReplaceAll(c.body, "evt_bad", fmt.Sprint("evt_bad_", i)) // or one is a duplicate of another
		}
		panics := w.ingestMetric("umavez_ingest_panics_total")
		w.become(g, wants)
		for _, c := range wants {
			if e := w.settledBody(g, []byte(c.body)); e.Reason == "" || len(e.Reason) > 300 {
				w.t.Errorf("%.100s: reason %q", c.body, e.Reason)
			}
		}
		if n := w.ingestMetric("umavez_ingest_panics_total") - panics; n != 0 {
			w.t.Errorf("%v panics", n)
		}
		if n := w.ingestMetric("umavez_ingest_requests_total", "provider="+g.name, "class=5xx"); n != 0 {
			w.t.Errorf("%v answers 5xx", n)
		}
		if strings.Contains(w.log.String(), "panic") {
			w.t.Error("a panic was logged")
		}
	})
}

var firstName = regexp.MustCompile(`^\{("[a-zA-Z_]+":)`)

// unreadableJSON are bodies with one fault each, and what becomes of them.
func unreadableJSON(t testing.TB, g *gateway) (wants []want) {
	s := newSale(g).paid()
	good := string(g.body(newHook("paid", "evt_bad", s)))
	unreadable := func(bodies ...string) {
		for _, b := range bodies {
			wants = append(wants, want{b, "quarantined", "unreadable"})
		}
	}
	twice := firstName.FindStringSubmatch(good)
	if twice == nil {
		t.Fatalf("the body does not begin with a name: %.60s", good)
	}
	unreadable(good[:len(good)/2], good[:len(good)-1], good+"}", good+good, "\x00", "{", strings.Repeat("[", 100000),
		"{"+twice[1]+`"first",`+good[1:], "<xml/>", "id=1&status=paid", strings.ReplaceAll(good, `"`, `'`), strings.Replace(good, ":", ":NaN,\"x\":", 1))
	if !g.probes { // which say nothing on purpose
		unreadable(" \n ", "{}", "null")
	}
	if !g.mute || g.name == "pagpolar" { // elsewhere the address says which payment it is
		field := `"` + cmp.Or(g.idField, "id") + `":`
		id := field + `"` + s.id + `"`
		if !strings.Contains(good, id) {
			t.Fatalf("the body has no %s: %.300s", id, good)
		}
		for _, other := range []string{
			field + `"x",` + id, field + `"a\u0000b"`, field + "\"\xff\xfe\"", field + `{"a":1}`, field + `true`, field + `"` + strings.Repeat("9", 300) + `"`,
		} {
			unreadable(strings.Replace(good, id, other, 1))
		}
	}
	if g.amount == "" { // the API's
		return wants
	}
	if !strings.Contains(good, g.amount) {
		t.Fatalf("the body has no %s: %.300s", g.amount, good)
	}
	for _, n := range []string{
		"1234567890123456789012345678901234567890", "1e400", "-1", `"ten"`, `"0x10"`, `true`, `{"a":1}`, `[1]`, "100.001", "1e-5", `"1,00"`, `"NaN"`, "9223372036854775808",
	} {
		wants = append(wants, want{string(g.worth([]byte(good), n)), "quarantined", ""})
	}
	return wants
}

// unreadableForms are the same for forms, of which much more is a form.
func unreadableForms(g *gateway) (wants []want) {
	good := string(g.body(newHook("paid", "evt_bad", newSale(g).paid())))
	for _, b := range []string{
		" \n ", "\x00", "null", "{}", `{"event":"x"}`, "<xml/>", good + "&event=twice", good + "&e%76ent=twice", good + "&x=%", good + "&x=%zz", good + "&%f=1",
		strings.Replace(good, "event=", "event=%00", 1), strings.Replace(good, "event=", "event=a\xff", 1), "event=", "&&&", "=", strings.Repeat("[", 1000),
		strings.Repeat("a&", 5000), good + "&" + strings.Repeat("x=1&", 2),
	} {
		wants = append(wants, want{b, "quarantined", "unreadable"})
	}
	if g.amount == "" { // the API's
		return wants
	}
	for _, n := range []string{"1234567890123456789012345678901234567890", "9223372036854775808", "1e400", "-1", "ten", "0x10", "100.10", "1e-5", "1%2C00", "NaN", "+1", "10010+", "%00"} {
		another := g.body(newHook("paid", "evt_bad", newSale(g).paid())) // or it is a repeat of this one
		wants = append(wants, want{string(g.worth(another, n)), "quarantined", ""})
	}
	return wants
}
