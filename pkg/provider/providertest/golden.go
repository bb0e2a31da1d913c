package providertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// updateVariable makes the golden files be written instead of compared.
const updateVariable = "UMAVEZ_UPDATE_GOLDEN"

func (s Spec) goldenDir() string {
	if s.GoldenDir == "" {
		return "testdata"
	}
	return s.GoldenDir
}

// goldenBodies reads the bodies of the golden directory, by file name.
func (s Spec) goldenBodies(t *testing.T) map[string][]byte {
	t.Helper()
	bodies := map[string][]byte{}
	for _, ext := range []string{"*.json", "*.form"} {
		files, err := filepath.Glob(filepath.Join(s.goldenDir(), ext))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bodies[filepath.Base(file)] = body
		}
	}
	return bodies
}

// goldens compares every body of the golden directory with its golden file.
func (s Spec) goldens(t *testing.T) {
	bodies := s.goldenBodies(t)
	if len(bodies) == 0 {
		t.Fatalf("%s has no bodies", s.goldenDir())
	}
	p := s.build(t)
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			r := s.sign(body)
			for header, values := range s.GoldenHeader {
				r.Header[header] = values
			}
			mustAccept(t, p, r, "1")
			var got strings.Builder
			for _, m := range s.parse(t, p, r) {
				var claims []payment.Claim
				var err error
				if m.Disposition == provider.Process {
					claims, err = s.facts(t, p, r, m)
				}
				got.WriteString(Describe(m, claims, err))
			}
			file := filepath.Join(s.goldenDir(), strings.TrimSuffix(name, filepath.Ext(name))+".golden")
			if os.Getenv(updateVariable) == "1" {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("no golden file (%s=1 writes it): %v", updateVariable, err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("differs from %s (-want +got):\n%s", file, d)
			}
		})
	}
}

// Describe writes a message and its claims as lines that people can review:
// one for the message, one for each claim, one for each fact. Absent fields
// are left out. The fields of a text are quoted where they have spaces.
func Describe(m provider.Message, claims []payment.Claim, err error) string {
	var l line
	l.word("message", string(m.Disposition))
	l.text("reason", m.Reason)
	l.text("key", m.DedupeKey)
	l.text("id", m.ProviderEventID)
	l.text("type", m.Type)
	l.text("ref", m.PaymentRef)
	l.at(m.OccurredAt)
	l.flag("test", m.Test)
	l.flag("reopen", m.Reopen)
	l.end()
	if err != nil {
		l.word("  error", err.Error())
		l.end()
	}
	for _, c := range claims {
		l.claim(c)
	}
	return l.b.String()
}

type line struct{ b strings.Builder }

func (l *line) word(words ...string) { l.b.WriteString(strings.Join(words, " ")) }
func (l *line) end()                 { l.b.WriteByte('\n') }

func (l *line) text(name, value string) {
	if value == "" {
		return
	}
	if strings.ContainsAny(value, " \"\n\t") {
		value = fmt.Sprintf("%q", value)
	}
	l.b.WriteString(" " + name + "=" + value)
}

func (l *line) minor(name string, m payment.Minor) {
	if m.Known {
		fmt.Fprintf(&l.b, " %s=%d", name, m.Value)
	}
}

func (l *line) at(t time.Time) {
	if !t.IsZero() {
		l.b.WriteString(" at=" + t.UTC().Format(time.RFC3339Nano))
	}
}

func (l *line) flag(name string, on bool) {
	if on {
		l.b.WriteString(" " + name)
	}
}

func (l *line) claim(c payment.Claim) {
	l.word("  claim", c.GatewayID)
	l.text("currency", c.Currency)
	l.minor("expected", c.Expected)
	l.minor("captured", c.Captured)
	l.text("reference", c.Reference)
	l.text("beneficiary", c.Beneficiary)
	l.at(c.At)
	l.text("reason", c.Reason)
	l.end()
	for _, f := range c.Facts {
		l.word("    fact", string(f.Kind))
		l.text("status", string(f.Status))
		l.text("id", f.ID)
		l.minor("amount", f.Amount)
		l.text("refund", string(f.Refund))
		l.text("dispute", string(f.Dispute))
		l.flag("by_id", f.ByID)
		l.text("otherwise", string(f.Otherwise))
		l.at(f.At)
		l.end()
	}
}
