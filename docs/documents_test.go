package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/postgres"
)

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"../*.md", "*.md", "adr/*.md", "proof/*.md"} {
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

var (
	constraint = regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`")
	created    = regexp.MustCompile(`(?m)(?:CONSTRAINT|CREATE (?:UNIQUE )?INDEX|CREATE TRIGGER|CREATE TABLE) ([a-z_]+)`)
)

// Where the guarantees say what enforces them, they name what the schema has.
func TestTheConstraintsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../schema/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	schema := map[string]bool{"synchronous_commit": true} // a setting of PostgreSQL
	for _, file := range files {
		sql, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range created.FindAllStringSubmatch(string(sql), -1) {
			schema[m[1]] = true
		}
	}
	promises, _, _ := strings.Cut(string(text), "## Cases")
	named := constraint.FindAllStringSubmatch(promises, -1)
	if len(named) < 15 {
		t.Fatalf("only %d names found", len(named))
	}
	for _, m := range named {
		if !schema[m[1]] && !strings.HasPrefix(m[1], "umavez_") && m[1] != "exceeds_captured" {
			t.Errorf("guarantees.md names %s, which the schema does not have", m[1])
		}
	}
}

var direct = regexp.MustCompile(`(?m)^\t([a-z0-9.-]+/[^ ]+|pgregory\.net/rapid) v[^ ]+$`)

func TestEveryDirectDependencyHasItsReason(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	architecture, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	found := direct.FindAllStringSubmatch(string(mod), -1)
	if len(found) < 15 {
		t.Fatalf("only %d direct dependencies found", len(found))
	}
	for _, m := range found {
		if !strings.Contains(string(architecture), "`"+strings.TrimPrefix(m[1], "github.com/")) {
			t.Errorf("ARCHITECTURE.md gives no reason for %s", m[1])
		}
	}
}
