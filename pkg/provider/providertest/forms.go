package providertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
)

// formDamages are put in the place of each value of a form, encoded already.
var formDamages = []string{
	"", "=", "%20", "null", "true", "0", "-1", "0.5", "1e400", "NaN", "[]", "%7B%7D", digits40, "-" + digits40,
	canary, canary + "%00", "%ff" + canary, "%ED%A0%BD" + canary, "%", "%z", "%zz" + canary, "+", "a;b", canary + ";" + canary,
	"%F0%9F%92%B3", "%C3%A9%C2%A9+" + canary, "..%2F..%2F" + canary, "a.b.*.%3E", "%0d%0a" + canary, strings.Repeat("x", 400),
}

// DamageForm returns forms made from one by putting, in the place of each of
// its values, what does not belong there, by leaving each field out, and by
// giving each a second value or a deeper name. Fuzz targets use them as seeds.
func DamageForm(body []byte) []string {
	pairs := strings.Split(string(provider.SkipBOM(body)), "&")
	var out []string
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		replaced := func(by ...string) {
			out = append(out, strings.Join(slices.Concat(pairs[:i:i], by, pairs[i+1:]), "&"))
		}
		replaced()
		replaced(name)
		for _, v := range formDamages {
			replaced(name + "=" + v)
		}
		replaced(pair, name+"="+canary)
		replaced(pair, pair)
		for _, suffix := range []string{"%5B%5D", "[]", "%5B0%5D", "%5Bid%5D", "%5B", "%5D", "x", "%00", "%zz", "%20"} {
			replaced(name + suffix + "=" + value)
			replaced(pair, name+suffix+"="+canary)
		}
	}
	return out
}

// damagedForms is damaged for forms: Spec.Body and every golden body.
func (s Spec) damagedForms(t *testing.T) {
	p := s.build(t)
	bodies := s.goldenBodies(t)
	bodies["Spec.Body"] = s.Body
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		t.Run(name+" with each value replaced by each bad one", func(t *testing.T) {
			for _, body := range DamageForm(bodies[name]) {
				s.tryDamaged(t, p, []byte(body))
			}
		})
	}
}

// foreignForms puts beside the fields of a form what other senders put there,
// and writes the same form in its other spellings.
func (s Spec) foreignForms(same func(name string, body []byte)) {
	body := string(s.Body)
	for name, field := range map[string]string{
		"an unknown field":                      "umavez_x=1",
		"accents and cards (CASES A7)":          "umavez_x=S%C3%A3o+Jo%C3%A3o+%E2%80%93+a%C3%A7%C3%A3o+%F0%9F%92%B3",
		"accents that are not encoded":          "umavez_x=São João – ₹ 99",
		"plus signs and %20 mixed (CASES A14)":  "umavez_x=a+b%20c&umavez_y=",
		"a field without equals sign":           "umavez_x",
		"a field without name":                  "=umavez",
		"a value with equals signs (CASES D12)": "umavez_x=a=b==c",
		"an encoded NUL (CASES D7)":             "umavez_x=A%00B",
		"half a surrogate pair (CASES D7)":      "umavez_x=%ED%A0%BD",
		"broken UTF-8":                          "umavez_x=%C3%28%FF",
		"a number of 40 digits (CASES D3)":      "umavez_x=" + digits40,
		"a value of 100 KB":                     "umavez_x=" + strings.Repeat("a", 100<<10),
		"deep brackets":                         "umavez_x" + strings.Repeat("%5Ba%5D", 300) + "=1",
		"a semicolon":                           "umavez_x=a;b=c",
		"names that differ in letter case":      "ID=x&Id=y&DATA=&Event=z&STATUS=paid&Data%5Bid%5D=q",
		"a list":                                "umavez_x[]=1&umavez_x[0]=2",
	} {
		same(name, []byte(body+"&"+field))
		same(name+" in front", []byte(field+"&"+body))
	}
	pairs := strings.Split(body, "&")
	slices.Reverse(pairs)
	same("fields in reverse order", []byte(strings.Join(pairs, "&")))
	same("empty fields between and at the ends", []byte("&&"+strings.ReplaceAll(body, "&", "&&&")+"&"))
	same("brackets that are not encoded", []byte(bytesUnescapeBrackets(body)))
	same("encodings in lower case", []byte(lowerEscapes(body)))
	same("every byte of the names encoded", []byte(encodeNames(body)))
}

func bytesUnescapeBrackets(form string) string {
	return strings.NewReplacer("%5B", "[", "%5D", "]", "%5b", "[", "%5d", "]").Replace(form)
}

// lowerEscapes writes the hexadecimal digits of escapes in lower case.
func lowerEscapes(form string) string {
	b := []byte(form)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// encodeNames writes each byte of the names as an escape.
func encodeNames(form string) string {
	pairs := strings.Split(bytesUnescapeBrackets(form), "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "%") {
			continue // has escapes of other bytes
		}
		var all strings.Builder
		for j := range len(name) {
			fmt.Fprintf(&all, "%%%02X", name[j])
		}
		pairs[i] = all.String() + "=" + value
	}
	return strings.Join(pairs, "&")
}

// formShapes sends what is no form, or not the one form that was meant.
func (s Spec) formShapes(t *testing.T, p provider.Provider, mustNotProcess func(name, body string, onlyQuarantine bool)) {
	for _, c := range []string{
		"{}", "null", "[]", `{"event":"x","data":{"id":"y"}}`, "<xml/>", "a=b&c=d", "umavez", "\xff\xfe\x00", "&", "=", "&&=&&",
	} {
		mustNotProcess("the text "+c, c, false)
	}
	for _, c := range []string{"%", "a=%zz", "%zz=a", "a=%4", "a=1&a=1"} {
		mustNotProcess("the text "+c, c, true)
		mustNotProcess("a form that ends in "+c, string(s.Body)+"&"+c, true)
	}
	mustNotProcess("a form followed by itself", string(s.Body)+"&"+string(s.Body), true)
	mustNotProcess("a form with 10,000 fields", string(s.Body)+manyFields(10000), true)
	for pair := range strings.SplitSeq(string(s.Body), "&") {
		name, _, _ := strings.Cut(pair, "=")
		mustNotProcess("a second value of "+name, string(s.Body)+"&"+name+"="+canary, true)
		mustNotProcess("a second value of "+name+", spelt in another way", string(s.Body)+"&"+encodeNames(name+"="), true)
	}
	t.Run("a form cut short anywhere is never taken for the whole", func(t *testing.T) {
		whole := s.parse(t, p, s.sign(s.Body))[0]
		required := requiredLength(t, s, p, whole)
		for i := 1; i < required; i++ {
			for _, m := range s.parse(t, p, s.sign(s.Body[:i])) {
				if m.Disposition == provider.Process && m.DedupeKey == whole.DedupeKey {
					t.Fatalf("cut after %d bytes it has the key of the whole", i)
				}
				_, _ = s.facts(t, p, s.sign(s.Body[:i]), m)
			}
		}
	})
}

// requiredLength is how much of the body must have arrived for it to be the
// same event: all up to the last field that its key is made of.
func requiredLength(t *testing.T, s Spec, p provider.Provider, whole provider.Message) int {
	t.Helper()
	end := len(s.Body)
	for {
		at := bytes.LastIndexByte(s.Body[:end], '&')
		if at < 0 {
			return end
		}
		if m := s.parse(t, p, s.sign(s.Body[:at]))[0]; m.Disposition != provider.Process || m.DedupeKey != whole.DedupeKey {
			return end
		}
		end = at
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "&umavez_%d=", i)
	}
	return b.String()
}
