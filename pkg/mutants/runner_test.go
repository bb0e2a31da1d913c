package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	tinyCode = `package tiny

func Sum(a, b int) int { return a + b }
`
	tinyTests = `package tiny

import "testing"

func TestSum(t *testing.T) {
	if got := Sum(1, 2); got != 3 {
		t.Errorf("the sum is %d", got)
	}
}

func TestParts(t *testing.T) {
	t.Run("one and two", func(t *testing.T) {
		t.Parallel()
		if Sum(1, 2) != 3 {
			t.Error("of one and two")
		}
	})
}

func TestNothing(*testing.T) {}

func TestSkipped(t *testing.T) { t.Skip("not today") }

func TestRed(t *testing.T) { t.Error("red") }

func TestWithoutWorld(t *testing.T) {
	if Sum(1, 2) != 3 {
		t.Fatal("no test database: nobody there")
	}
}
`
)

// tiny is a runner over a module of one function.
func tiny(t *testing.T) *Runner {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module tiny\n\ngo 1.26\n", "in/tiny.go": tinyCode, "in/tiny_test.go": tinyTests} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := NewRunner(dir, "go", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestWhatBecomesOfAMutant(t *testing.T) {
	t.Parallel()
	r := tiny(t)
	for _, c := range []struct {
		name, old, new string
		tests          []Tests
		want           Outcome
		by, detail     string
	}{
		{"a test notices", "a + b", "a - b", []Tests{in("in", "TestSum")}, Killed, "TestSum", "the sum is -1"},
		{"a subtest notices", "a + b", "a - b", []Tests{in("in", "TestParts")}, Killed, "TestParts", "of one and two"},
		{"the second package's tests notice", "a + b", "a - b", []Tests{in("in", "TestNothing"), in("in", "TestSum")}, Killed, "TestSum", "the sum"},
		{"the product panics", "return a + b", "panic(a + b)", []Tests{in("in", "TestSum")}, Killed, "TestSum", ""},
		{"the process dies", "return a + b", "go panic(a); select {}", []Tests{in("in", "TestSum")}, Killed, "TestSum", "panic: 1"},
		{"nobody notices", "a + b", "a - b", []Tests{in("in", "TestNothing")}, Survived, "", ""},
		{"the tests hang", "return a + b", "for {\n\t}", []Tests{in("in", "TestSum")}, TooSlow, "", "still running: TestSum"},
		{"it does not compile", "a + b", "a +", []Tests{in("in", "TestSum")}, Broken, "", "compile"},
		{"it does not apply", "a * b", "a - b", []Tests{in("in", "TestSum")}, Broken, "", "occurs 0 times"},
		{"it applies twice", "a", "c", []Tests{in("in", "TestSum")}, Broken, "", "times"},
		{"a named test is not there", "a + b", "a - b", []Tests{in("in", "TestNoSuch")}, Broken, "", "0 of 1 tests"},
		{"a named test is skipped", "a + b", "a - b", []Tests{in("in", "TestSkipped")}, Broken, "", "0 of 1 tests"},
		{"the test had no world", "a + b", "a - b", []Tests{in("in", "TestWithoutWorld")}, Broken, "", "no test database"},
	} {
		r.Limit = 10 * time.Second
		if c.want == TooSlow {
			r.Limit = time.Second
		}
		v := r.Try(t.Context(), &Mutant{Name: "m", Changes: []Change{{"in/tiny.go", c.old, c.new}}, Tests: c.tests})
		if v.Outcome != c.want || v.Test != c.by || !strings.Contains(v.Detail, c.detail) {
			t.Errorf("%s: %s by %q (%s); want %s by %q (%s)", c.name, v.Outcome, v.Test, v.Detail, c.want, c.by, c.detail)
		}
	}
	if text, err := os.ReadFile(filepath.Join(r.Root, "in/tiny.go")); err != nil || string(text) != tinyCode {
		t.Errorf("the tree was changed: %s %v", text, err)
	}
}

func TestRedTestsMakeNoVerdict(t *testing.T) {
	t.Parallel()
	r := tiny(t)
	for test, want := range map[string]string{"TestSum": "", "TestRed": "without any mutant TestRed of in is red", "TestSkipped": "0 of 1 tests"} {
		err := r.Baseline(t.Context(), []Mutant{{Name: "m", Tests: []Tests{in("in", test)}}}, func(string) {})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", test, err)
		}
	}
}

func TestTheReportCountsOnlyWhatWasKilled(t *testing.T) {
	t.Parallel()
	r := NewReport(time.Now(), time.Minute, []Verdict{{Outcome: Killed}, {Outcome: Survived}, {Outcome: TooSlow}, {Outcome: Broken}})
	if r.Mutants != 4 || r.Killed != 1 || r.Score != 25 {
		t.Errorf("%+v", r)
	}
	file := filepath.Join(t.TempDir(), "new", "report.json")
	if err := r.Save(file); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.Print(&table); err != nil || !strings.Contains(table.String(), "1 of 4 mutants killed, score 25.0 %") {
		t.Errorf("%s %v", table.String(), err)
	}
}
