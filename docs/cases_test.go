package docs_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	caseRow      = regexp.MustCompile(`(?m)^\| ([A-G][0-9]+) \|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	caseOfTest   = regexp.MustCompile(`^TestCase_([A-G][0-9]+)_`)
)

// testsOfTheTree are the names of all test functions.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil && strings.HasPrefix(path, "../.") {
			return fs.SkipDir // clusters of tests, which may be another user's
		}
		if err != nil || d.IsDir() {
			if err == nil && len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return err
	})
	if err != nil || len(found) < 100 {
		t.Fatalf("%d tests found, %v", len(found), err)
	}
	return found
}

var update = flag.Bool("update", false, "write the tests of each case into guarantees.md")

func TestTheTableOfCasesIsThatOfTheTree(t *testing.T) {
	const file = "guarantees.md"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree := testsOfTheTree(t)
	for _, m := range namedTest.FindAllStringSubmatch(string(before), -1) {
		if !tree[m[1]] && !strings.Contains(m[1], "Case_") {
			t.Errorf("%s names %s, which does not exist", file, m[1])
		}
	}
	byRow := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if m := caseOfTest.FindStringSubmatch(name); m != nil {
			byRow[m[1]] = append(byRow[m[1]], "`"+name+"`")
		}
	}
	listed := map[string]bool{}
	after := caseRow.ReplaceAllStringFunc(string(before), func(line string) string {
		m := caseRow.FindStringSubmatch(line)
		row, fault, otherwise := m[1], m[2], strings.TrimSpace(m[4])
		listed[row] = true
		tests := strings.Join(byRow[row], ", ")
		if tests == "" && otherwise == "" {
			tests = "not covered yet"
		}
		return strings.ReplaceAll("| "+row+" |"+fault+"| "+tests+" | "+otherwise+" |", "|  |", "| |")
	})
	for row := range byRow {
		if !listed[row] {
			t.Errorf("%s does not list the case %s", file, row)
		}
	}
	if after == string(before) {
		return
	}
	if !*update {
		t.Fatalf("the tests in %s are not those of the tree; run: go test ./docs -run Cases -update", file)
	}
	if err := os.WriteFile(file, []byte(after), 0o644); err != nil {
		t.Fatal(err)
	}
}
