package mutants

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

func TestEveryMutantStillAppliesAndItsTestsExist(t *testing.T) {
	t.Parallel()
	all := All()
	if len(all) < 45 {
		t.Errorf("only %d mutants", len(all))
	}
	known := map[string][]string{}
	seen := map[string]bool{}
	for i := range all {
		m := &all[i]
		if seen[m.Name] {
			t.Errorf("two mutants are called %s", m.Name)
		}
		seen[m.Name] = true
		if m.Name == "" || m.Breaks == "" || m.Harm == "" || len(m.Tests) == 0 || len(m.Changes) == 0 {
			t.Errorf("mutant %q does not say what it breaks, what for, where, or who notices", m.Name)
		}
		changed, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		for file, text := range changed {
			if before, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(before) == text {
				t.Errorf("mutant %s does not change %s: %v", m.Name, file, err)
			}
			if !strings.HasSuffix(file, ".go") {
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("mutant %s: %v", m.Name, err)
			}
		}
		for _, in := range m.Tests {
			if known[in.Package] == nil {
				if known[in.Package], err = TestsOf(root, in.Package); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range in.Names {
				if !slices.Contains(known[in.Package], name) {
					t.Errorf("mutant %s: %s has no test %s", m.Name, in.Package, name)
				}
			}
		}
	}
}

// A few of all stages are killed for real with every run of the suite; `make
// mutants` tries the others.
func TestAHandfulOfMutantsIsKilled(t *testing.T) {
	t.Parallel()
	r, err := NewRunner(root, "go", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	list, err := Select(All(), "credit-on-every-paid,float-money,fee-leg-dropped,stripe-first-signature-only,"+
		"dead-event-not-revived,contradicting-entry-swallowed,ack-before-commit,same-message-id-for-a-republication", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Baseline(t.Context(), list, func(text string) { t.Log(text) }); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		v := r.Try(t.Context(), &list[i])
		t.Logf("%s: %s by %s in %.1f s, built in %.1f s: %s", v.Mutant, v.Outcome, v.Test, v.Seconds, v.Build, v.Detail)
		if v.Outcome != Killed {
			t.Errorf("%s: %s", v.Mutant, v.Outcome)
		}
	}
}

func TestAShardIsItsPartOfTheList(t *testing.T) {
	t.Parallel()
	all := All()
	seen := map[string]int{}
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		part, err := Select(all, "", shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range part {
			seen[m.Name]++
		}
	}
	for _, m := range all {
		if seen[m.Name] != 1 {
			t.Errorf("%s is in %d of three shards", m.Name, seen[m.Name])
		}
	}
	for _, wrong := range []string{"0/3", "4/3", "x", "1"} {
		if _, err := Select(all, "", wrong); err == nil {
			t.Errorf("the shard %q was accepted", wrong)
		}
	}
	if _, err := Select(all, "no-such-mutant", ""); err == nil {
		t.Error("a mutant that is not there was accepted")
	}
}
