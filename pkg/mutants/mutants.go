// Package mutants holds deliberate faults of umavez, one change of a few words
// each, and kills them: it builds the tests with the fault in place and demands
// that one of them fails. A fault that no test notices is a hole in the suite.
//
// A mutant is a patch, not a build tag: the product carries no trace of it.
// The changed file is handed to the compiler with -overlay, so the work tree
// stays as it is and runs beside one another do not meet.
//
// It promises that a killed mutant was killed by a test that is green without
// it, within the limit, and that a patch which does not apply, or does not
// compile, is an error of the list and no success. It does not say that the
// test failed for the right reason: the report shows each failure's first line
// for that.
//
// It is tooling for tests; no binary links it. `make mutants` runs it.
package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Mutant is one deliberate fault.
type Mutant struct {
	Name    string // unique, in words with hyphens
	Breaks  string // what the code does not do any more
	Harm    string // what that would cost somebody, in money or in lost events
	Changes []Change
	Tests   []Tests // who must notice; they run in this order, until one does
}

// Change replaces Old, which must occur exactly once in File, by New.
type Change struct {
	File     string // from the root of the module, with slashes
	Old, New string
}

// Tests names tests of one package.
type Tests struct {
	Package string // from the root of the module, with slashes
	Names   []string
}

// in lists the tests of a package that a mutant must not survive.
func in(pkg string, names ...string) Tests { return Tests{pkg, names} }

// Apply gives the changed text of every file that the mutant touches, by its
// path from the module's root. An error means that the patch does not fit the
// tree any more.
func (m *Mutant) Apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, c := range m.Changes {
		text, ok := changed[c.File]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(c.File)))
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(read)
		}
		if n := strings.Count(text, c.Old); n != 1 {
			return nil, fmt.Errorf("mutant %s: %q occurs %d times in %s, not once", m.Name, c.Old, n, c.File)
		}
		changed[c.File] = strings.Replace(text, c.Old, c.New, 1)
	}
	return changed, nil
}

// All is the list, in the order of an event's way through umavez.
func All() []Mutant {
	return slices.Concat(receiving, storing, keys, credentials, gateways, settling, deciding, booking, asking, waiting, queueing, relaying, sweeping, starting)
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// TestsOf lists the names of the tests of a package.
func TestsOf(root, pkg string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	return names, nil
}

// Select gives the mutants whose name is one of a comma-separated list, all
// for "", and of those the i-th of n parts, for a shard written "i/n".
func Select(all []Mutant, names, shard string) ([]Mutant, error) {
	chosen := all
	if names != "" {
		chosen = nil
		for _, name := range strings.Split(names, ",") {
			i := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("no mutant is called %q", name)
			}
			chosen = append(chosen, all[i])
		}
	}
	if shard == "" {
		return chosen, nil
	}
	var part, parts int
	if n, err := fmt.Sscanf(shard, "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
		return nil, fmt.Errorf("%q is no shard; write the first of four as 1/4", shard)
	}
	var mine []Mutant
	for i, m := range chosen {
		if i%parts == part-1 {
			mine = append(mine, m)
		}
	}
	return mine, nil
}
