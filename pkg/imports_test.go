// Package imports_test keeps the direction of imports true: what each room may
// know of the others is written here once, and ARCHITECTURE.md explains it.
package imports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/umavez/umavez/"

// nouns know what things are, and neither a driver nor a room.
var nouns = []string{"money", "event", "payment", "ledger"}

// gateway is what the folder of one gateway may know.
var gateway = []string{"money", "event", "payment", "provider"}

// may lists, for each room below pkg, what else of ours it may import. A room
// that is not listed has no place yet: give it one here and in ARCHITECTURE.md.
var may = map[string][]string{
	"money":      nil,
	"event":      nil,
	"payment":    {"money"},
	"ledger":     {"money", "payment"},
	"settlement": {"event", "payment", "ledger"},
	"sweep":      {"event"},
	"failpoint":  nil,
	"replay":     {"event"},
	"provider":   {"money", "event", "payment"},

	"provider/asaas":            gateway,
	"provider/efi":              gateway,
	"provider/iugu":             gateway,
	"provider/jsonpath":         {"provider"},
	"provider/keyset":           nil,
	"provider/pagarme":          append([]string{"provider/keyset"}, gateway...),
	"provider/pagbank":          gateway,
	"provider/mercadopago":      gateway,
	"provider/pagpolar":         append([]string{"provider/jsonpath"}, gateway...),
	"provider/standardwebhooks": append([]string{"provider/jsonpath"}, gateway...),
	"provider/stripe":           gateway,
	"provider/zoop":             gateway,
	"provider/registry":         append([]string{"provider/asaas", "provider/efi", "provider/iugu", "provider/pagarme", "provider/pagbank", "provider/mercadopago", "provider/pagpolar", "provider/standardwebhooks", "provider/stripe", "provider/zoop"}, gateway...),

	"postgres": append([]string{"failpoint", "settlement", "sweep", "replay", "schema"}, nouns...),
	"queue":    {"event", "failpoint"},
	"lookup":   append([]string{"provider"}, nouns...),
	"daemon":   {"failpoint"},
	"localpg":  nil,

	"ingest":    append([]string{"failpoint", "provider"}, nouns...),
	"processor": append([]string{"failpoint", "provider", "lookup", "settlement"}, nouns...),
	"sweeper":   append([]string{"failpoint", "provider", "sweep"}, nouns...),
	"explain":   {"event", "payment", "provider"},

	// A gateway's simulator shares the words and none of the code of the side
	// that it tests.
	"gatewaysim": nouns,
	"truth":      {"gatewaysim", "postgres"},
	"process":    nil,

	// Wiring. It may know everybody, and nobody but a main may know it.
	"app": append([]string{"daemon", "ingest", "processor", "sweeper", "postgres", "queue", "lookup", "localpg",
		"provider", "provider/registry", "settlement", "sweep", "replay", "explain", "failpoint"}, nouns...),
	"sweeper/command": {"app", "daemon", "sweep", "sweeper"},
	"demo":            {"app", "daemon", "gatewaysim", "postgres", "process", "sweep", "sweeper", "truth"},

	// Rooms for tests.
	"e2e":                                nil, // its tests import what they like
	"provider/providertest":              gateway,
	"provider/providertest/npmtest":      nil, // JavaScript peers
	"postgres/postgrestest":              {"postgres", "localpg"},
	"postgres/postgrestest/withpostgres": {"postgres/postgrestest"},
	"queue/queuetest":                    {"queue"},
	"chaostest":                          {"app", "failpoint", "gatewaysim", "localpg", "postgres", "process", "queue", "sweep", "truth"},
	"chaostest/chaos":                    {"chaostest", "daemon"},
	"mutants":                            nil,
	"mutants/kill":                       {"mutants"},
	"virtual":                            nil, // its tests import what they like
	"powercut":                           nil,
	"powercut/campaign":                  {"gatewaysim", "localpg", "postgres", "powercut", "process", "sweep", "truth"},
	"powercut/powercuts":                 {"powercut/campaign"},
}

// onlyUser names the rooms that may import a library which is to stay
// replaceable; the rooms for their tests may too.
var onlyUser = map[string]string{
	"github.com/jackc/":                  "postgres",
	"github.com/nats-io/":                "queue",
	"github.com/sony/gobreaker/v2":       "lookup",
	"github.com/go-json-experiment/json": "provider",
	"github.com/bojanz/currency":         "money",
	"github.com/stripe/":                 "", // tests only
	"github.com/mercadopago/":            "", // tests only
	"github.com/standard-webhooks/":      "", // tests only
	"github.com/go-jose/":                "provider",
	"github.com/google/go-cmp":           "", // tests only
	"pgregory.net/rapid":                 "", // tests only
	"go.uber.org/goleak":                 "", // tests only
	"github.com/hanwen/go-fuse/":         "", // tests only
}

type pkg struct {
	ImportPath string
	Name       string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// list is every package of the module, without its tests.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,GoFiles,Imports,Deps", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 20 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	return pkgs
}

// room is the name of one of our packages as the table has it; "" for others.
func room(importPath string) string {
	ours, ok := strings.CutPrefix(importPath, module)
	if !ok {
		return ""
	}
	return strings.TrimPrefix(ours, "pkg/")
}

// isTestRoom says whether a package is there for tests only.
func isTestRoom(importPath string) bool {
	for part := range strings.SplitSeq(room(importPath), "/") {
		if strings.HasSuffix(part, "test") || part == "mutants" || part == "powercut" {
			return true
		}
	}
	return false
}

func TestEachRoomImportsOnlyWhatIsAboveIt(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range list(t) {
		if !strings.HasPrefix(p.ImportPath, module+"pkg/") || len(p.GoFiles) == 0 {
			continue
		}
		name := room(p.ImportPath)
		seen[name] = true
		allowed, listed := may[name]
		if !listed {
			t.Errorf("pkg/%s has no place in the table of imports; give it one, and a line in ARCHITECTURE.md", name)
			continue
		}
		for _, i := range p.Imports {
			if other := room(i); other != "" && !slices.Contains(allowed, other) {
				t.Errorf("pkg/%s imports %s, which it may not know", name, other)
			}
		}
	}
	for name := range may {
		if !seen[name] {
			t.Errorf("the table of imports names pkg/%s, which does not exist", name)
		}
	}
}

func TestNothingButBinariesAndWiringImportsTheWiring(t *testing.T) {
	t.Parallel()
	users := []string{"demo", "sweeper/command", "chaostest"}
	for _, p := range list(t) {
		if slices.Contains(p.Imports, module+"pkg/app") && p.Name != "main" && !slices.Contains(users, room(p.ImportPath)) {
			t.Errorf("%s imports pkg/app, which is for binaries", room(p.ImportPath))
		}
	}
}

func TestEachLibraryStaysInItsRoom(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if isTestRoom(p.ImportPath) {
			continue
		}
		name := room(p.ImportPath)
		for _, i := range p.Imports {
			for library, owner := range onlyUser {
				if !strings.HasPrefix(i, library) || name == owner {
					continue
				}
				if owner == "provider" && path.Dir(name) == "provider" {
					continue // the folder of a gateway
				}
				if owner == "" {
					t.Errorf("%s imports %s, which is for tests only", name, i)
				} else {
					t.Errorf("%s imports %s; only pkg/%s may", name, i, owner)
				}
			}
		}
	}
}

func TestRoomsForTestsAreImportedByTestsOnly(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if isTestRoom(p.ImportPath) {
			continue
		}
		for _, i := range p.Imports {
			if isTestRoom(i) {
				t.Errorf("%s imports %s outside of its tests", room(p.ImportPath), room(i))
			}
		}
	}
}

func TestBinariesLinkNothingThatIsForTests(t *testing.T) {
	t.Parallel()
	binaries := 0
	for _, p := range list(t) {
		if !strings.HasPrefix(p.ImportPath, module+"cmd/") || p.Name != "main" {
			continue
		}
		binaries++
		for _, d := range p.Deps {
			if isTestRoom(d) || d == "testing" || d == "net/http/httptest" || strings.HasPrefix(d, "github.com/hanwen/go-fuse/") {
				t.Errorf("%s links %s", room(p.ImportPath), d)
			}
		}
	}
	if binaries < 5 {
		t.Fatalf("only %d binaries found", binaries)
	}
}
