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

var _ = time.Minute
