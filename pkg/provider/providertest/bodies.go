package providertest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// note inserts a member that no gateway knows at the front of an object.
func note(object []byte, member string) []byte {
	at := bytes.IndexByte(object, '{') + 1
	sep := ","
	if bytes.Equal(bytes.TrimSpace(object[at:]), []byte("}")) {
		sep = ""
	}
	return bytes.Join([][]byte{object[:at], []byte(member + sep), object[at:]}, nil)
}

// foreignBytes puts texts of real customers, and of tired senders, beside the
// money: they must change neither the key nor the facts.
func (s Spec) foreignBytes(t *testing.T) {
	p := s.build(t)
	plain := s.sign(s.Body)
	want := s.parse(t, p, plain)[0]
	if want.Disposition != provider.Process {
		t.Fatalf("Spec.Body is not processed: %s, %s", want.Disposition, want.Reason)
	}
	wantClaims, err := s.facts(t, p, plain, want)
	if err != nil || len(wantClaims) == 0 {
		t.Fatalf("Spec.Body has no facts: %v", err)
	}
	same := func(name string, body []byte) {
		t.Run(name+" changes nothing", func(t *testing.T) {
			r := s.sign(body)
			mustAccept(t, p, r, "1")
			messages := s.parse(t, p, r)
			if len(messages) != 1 {
				t.Fatalf("%d messages", len(messages))
			}
			m := messages[0]
			if !s.Batch && !s.Parts && !bytes.Equal(m.Body, body) {
				t.Error("the bytes were changed")
			}
			kept := m.Body
			m.Body, want.Body = nil, nil
			if d := cmp.Diff(want, m); d != "" {
				t.Errorf("the message changed:\n%s", d)
			}
			m.Body = kept
			claims, err := s.facts(t, p, r, m)
			if err != nil {
				t.Fatal(err)
			}
			if d := DiffClaims(wantClaims, claims); d != "" {
				t.Errorf("the claims changed:\n%s", d)
			}
		})
	}
	same("a byte-order mark (CASES A26)", append([]byte("\xef\xbb\xbf"), s.Body...))
	same("two byte-order marks (CASES A26)", append([]byte("\xef\xbb\xbf\xef\xbb\xbf"), s.Body...))
	if s.Form {
		s.foreignForms(same)
		return
	}
	same("white space around the body", []byte(" \r\n\t"+string(s.Body)+"\n\n"))
	for name, member := range map[string]string{
		"an unknown member":                      `"umavez_x":{"a":[1,2,{"b":null}]}`,
		"accents, rupees and cards (CASES A7)":   `"umavez_x":"São João – ação – R$ 10 – ₹ 99 – 💳"`,
		"line separators (CASES A3)":             "\"umavez_x\":\"a\u2028b\u2029c\"",
		"escaped slashes (CASES A5)":             `"umavez_x":"https:\/\/loja.example\/a\u0026b"`,
		"odd spacing and zeros (CASES A1)":       `"umavez_x" :  [100.10,  2 ]  , "umavez_y": 0.10 `,
		"an escaped NUL (CASES D7)":              `"umavez_x":"A\u0000B"`,
		"half a surrogate pair (CASES D7)":       `"umavez_x":"\ud83d"`,
		"the other half of a pair (CASES D7)":    `"umavez_x":"\ude00 x"`,
		"broken UTF-8":                           "\"umavez_x\":\"\xc3\x28\xff\"",
		"a number of 40 digits (CASES D3)":       `"umavez_x":` + digits40,
		"a number with a monstrous exponent":     `"umavez_x":1e999999999`,
		"a deep structure":                       `"umavez_x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500),
		"a text of 100 KB":                       `"umavez_x":"` + strings.Repeat("a", 100<<10) + `"`,
		"a name that differs in letter case":     `"ID":"x","Id":"y","DATA":null,"Event":"z","TYPE":"q"`,
		"a name with a NUL and a surrogate half": `"umavez\u0000\ud83dx":1`,
	} {
		same(name, note(s.Body, member))
	}
}

// shapes sends what is not one object.
func (s Spec) shapes(t *testing.T) {
	p := s.build(t)
	mustNotProcess := func(name, body string, onlyQuarantine bool) {
		t.Run(name+" is kept and set aside", func(t *testing.T) {
			r := s.sign([]byte(body))
			first := s.parse(t, p, r)
			for _, m := range first {
				if m.Disposition == provider.Process || onlyQuarantine && m.Disposition != provider.Quarantine {
					t.Errorf("%s (%s)", m.Disposition, m.Reason)
				}
				if _, err := s.facts(t, p, r, m); err == nil && m.Disposition == provider.Quarantine && onlyQuarantine {
					t.Error("Facts finds no fault with what Parse could not read")
				}
			}
			if d := cmp.Diff(first, s.parse(t, p, r)); d != "" {
				t.Errorf("parsing again gives something else:\n%s", d)
			}
			other := s.parse(t, p, s.sign([]byte(body+" \n")))
			if onlyQuarantine && other[0].DedupeKey == first[0].DedupeKey {
				t.Error("two different unreadable bodies share a key: the second would be lost")
			}
		})
	}
	mustNotProcess("an empty body", "", false)
	mustNotProcess("white space", " \n", false)
	if s.Form {
		s.formShapes(t, p, mustNotProcess)
		return
	}
	for _, c := range []string{"null", "true", "1", `"x"`, "{}", digits40, "1e400"} {
		mustNotProcess("the body "+c[:min(len(c), 6)], c, false)
	}
	for _, c := range []string{"{", "}", "nul", "{]", "'a'", "\xff\xfe\x00", "<xml/>", "a=b&c=d", `{"a":1}{"b":2}`, `{"a":1,}`, "{\"a\":\x01}", "NaN"} {
		mustNotProcess("the text "+c, c, true)
	}
	mustNotProcess("a name given twice", string(note(s.Body, `"umavez_x":1,"umavez_x":2`)), true)
	mustNotProcess("a first name given twice, deeply", string(note(s.Body, `"umavez_x":[{"a":1,"a":1}]`)), true)
	mustNotProcess("a body followed by another", string(s.Body)+string(s.Body), true)
	t.Run("a body cut short anywhere is quarantined", func(t *testing.T) {
		trimmed := bytes.TrimSpace(s.Body)
		for i := 1; i < len(trimmed); i += max(1, len(trimmed)/300) {
			for _, m := range s.parse(t, p, s.sign(trimmed[:i])) {
				if m.Disposition != provider.Quarantine {
					t.Fatalf("cut after %d bytes: %s", i, m.Disposition)
				}
			}
		}
	})
	s.arrays(t, p)
}

// arrays is CASES A13.
func (s Spec) arrays(t *testing.T, p provider.Provider) {
	two := []byte("[" + string(s.Body) + "," + string(s.Body) + "]")
	if !s.Batch {
		for name, body := range map[string][]byte{
			"an empty array": []byte("[]"), "an array of one event": []byte("[" + string(s.Body) + "]"),
			"an array of two": two, "an array of nulls": []byte("[null,null]"),
		} {
			t.Run(name+" is quarantined whole", func(t *testing.T) {
				m := s.parse(t, p, s.sign(body))
				if len(m) != 1 || m[0].Disposition != provider.Quarantine {
					t.Errorf("%d messages, the first %s (%s)", len(m), m[0].Disposition, m[0].Reason)
				}
			})
		}
		return
	}
	t.Run("an empty array is ignored", func(t *testing.T) {
		if m := s.parse(t, p, s.sign([]byte("[]"))); len(m) != 1 || m[0].Disposition != provider.Ignore {
			t.Errorf("%d messages, the first %s", len(m), m[0].Disposition)
		}
	})
	t.Run("an array gives one message for each element", func(t *testing.T) {
		if m := s.parse(t, p, s.sign(two)); len(m) != 2 || m[0].Disposition != provider.Process {
			t.Errorf("%d messages, the first %s", len(m), m[0].Disposition)
		}
	})
	t.Run("a bad element does not take the good one with it", func(t *testing.T) {
		m := s.parse(t, p, s.sign([]byte("[17,"+string(s.Body)+"]")))
		if len(m) != 2 || m[0].Disposition == provider.Process || m[1].Disposition != provider.Process {
			t.Errorf("%d messages, the first %s", len(m), m[0].Disposition)
		}
	})
}

// setAside checks empty data (CASES D1) and test events (CASES D9).
func (s Spec) setAside(t *testing.T) {
	p := s.build(t)
	for _, body := range s.EmptyData {
		t.Run("empty data is ignored", func(t *testing.T) {
			m := s.parse(t, p, s.sign(body))
			if len(m) != 1 || m[0].Disposition != provider.Ignore || m[0].Reason != provider.ReasonEmptyData {
				t.Errorf("%s, %s\nbody: %s", m[0].Disposition, m[0].Reason, body)
			}
		})
	}
	for _, body := range s.TestBodies {
		t.Run("a test event is stored and ignored in production", func(t *testing.T) {
			m := s.parse(t, p, s.sign(body))
			if len(m) != 1 || !m[0].Test || m[0].Disposition != provider.Ignore || m[0].Reason != provider.ReasonTestEvent {
				t.Errorf("test %v, %s, %s\nbody: %s", m[0].Test, m[0].Disposition, m[0].Reason, body)
			}
		})
	}
}

// keys compares dedupe keys in pairs.
func (s Spec) keys(t *testing.T) {
	p := s.build(t)
	for _, k := range s.Keys {
		t.Run(k.Name, func(t *testing.T) {
			a, b := s.parse(t, p, s.sign(k.A))[0], s.parse(t, p, s.sign(k.B))[0]
			if a.Disposition == provider.Quarantine || b.Disposition == provider.Quarantine {
				t.Fatalf("quarantined: %q, %q", a.Reason, b.Reason)
			}
			if same := a.DedupeKey == b.DedupeKey; same != k.Same {
				t.Errorf("keys %q and %q: same is %v, want %v", a.DedupeKey, b.DedupeKey, same, k.Same)
			}
		})
	}
	t.Run("the same event parsed again, and signed with another secret, has the same key", func(t *testing.T) {
		secrets := s.Source.WebhookSecrets
		first := s.parse(t, p, s.sign(s.Body))[0].DedupeKey
		again := s.parse(t, p, s.Sign(secrets[1].Reveal(), s.Body, s.Now.Add(3600e9)))[0].DedupeKey
		if first != again {
			t.Errorf("%q, then %q", first, again)
		}
	})
}

// amounts is CASES D5: ten thousand exact results.
func (s Spec) amounts(t *testing.T) {
	p := s.build(t)
	if s.Amounts != nil {
		t.Run("every cent from 0.01 to 100.00 is exact (CASES D5)", func(t *testing.T) {
			for cents := int64(1); cents <= 10000; cents++ {
				for _, body := range s.Amounts(cents) {
					r := s.sign(body)
					claims, err := s.facts(t, p, r, s.parse(t, p, r)[0])
					if err != nil || len(claims) == 0 {
						t.Fatalf("%d cents: %d claims, %v\nbody: %s", cents, len(claims), err, body)
					}
					if got := s.amountOf(claims[0]); !got.Known || got.Value != cents {
						t.Fatalf("%d cents became %+v\nbody: %s", cents, got, body)
					}
				}
			}
		})
	}
	for _, body := range s.OutOfRange {
		t.Run("an impossible amount is refused, not rounded (CASES D3)", func(t *testing.T) {
			r := s.sign(body)
			m := s.parse(t, p, r)[0]
			if m.Disposition == provider.Quarantine {
				return
			}
			claims, err := s.facts(t, p, r, m)
			if err == nil {
				t.Fatalf("accepted as %+v\nbody: %s", claims, body)
			}
			if errors.Is(err, provider.ErrJSON) {
				t.Errorf("the reason does not speak of the amount: %v", err)
			}
		})
	}
}

func (s Spec) amountOf(c payment.Claim) payment.Minor {
	if s.AmountOf != nil {
		return s.AmountOf(c)
	}
	return c.Captured
}
