package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/postgres"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	caseRow      = regexp.MustCompile(`(?m)^\| ([A-G][0-9]+) \|[^|]*\|(.*)\|$`)
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

func TestTheTableOfCasesAgreesWithTheTree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	tree := testsOfTheTree(t)
	for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
		if !tree[m[1]] {
			t.Errorf("guarantees.md names %s, which does not exist", m[1])
		}
	}
	covers := map[string]string{}
	for _, m := range caseRow.FindAllStringSubmatch(string(text), -1) {
		covers[m[1]] = m[2]
	}
	for name := range tree {
		m := caseOfTest.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if row, listed := covers[m[1]]; listed && !strings.Contains(row, name) && strings.Contains(row, "not covered yet") {
			t.Errorf("guarantees.md calls %s not covered, and there is %s", m[1], name)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"../*.md", "*.md", "adr/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 10 {
		t.Fatalf("only %v found", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s points to %s, which is not there", file, m[1])
			}
		}
	}
}

// The checks that the guarantees name are those of the code, word for word.
func TestEveryCheckOfVerifyIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(string(text)), " ")
	for _, c := range postgres.Checks() {
		if !strings.Contains(flat, `"`+c.Name+`"`) {
			t.Errorf("guarantees.md does not explain the check %q", c.Name)
		}
	}
}
