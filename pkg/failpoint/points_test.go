package failpoint_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/failpoint"
)

// use is a point in the code.
type use struct{ name, where string }

// The functions by which the code names points, beyond failpoint.At itself:
// what they make of the string that they are given.
var namers = map[string]map[string][]string{
	"postgres": {
		"db.at":            {""},
		"s.add":            {""},
		"s.query":          {""},
		"db.between":       {"_asked", "_answered"},
		"db.autocommitted": {"_asked", "_answered"},
		"db.inTx":          {"_begun", "_committing", "_committed"},
	},
	"processor": {"p.at": {""}},
}

// The moments that are constants of pkg/postgres.
var moments = map[string]string{"asked": "_asked", "answered": "_answered"}

// within are the functions that pass on a name which their callers gave.
var within = []string{
	"postgres/hook.go at", "postgres/hook.go reach", "postgres/hook.go between", "postgres/retry.go autocommitted",
	"postgres/postgres.go inTx", "postgres/postgres.go InTx", "postgres/statements.go run", "postgres/statements.go add",
	"processor/processor.go at", "processor/processor.go reach",
}

// uses reads the program, without its tests.
func uses(t *testing.T) (found []use) {
	t.Helper()
	root := os.DirFS("../..")
	for _, dir := range []string{"pkg", "cmd"} {
		err := fs.WalkDir(root, dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			found = append(found, usesOf(t, file)...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func usesOf(t *testing.T, file string) (found []use) {
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	short := strings.TrimPrefix(file, "pkg/")
	room := filepath.Dir(short)
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		where := short + " " + f.Name.Name
		ast.Inspect(f.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			names, ours, err := namesOf(room, call)
			if err != nil && !slices.Contains(within, where) {
				t.Errorf("%s: %v", where, err)
			}
			if ours && err == nil {
				for _, name := range names {
					found = append(found, use{name, where})
				}
			}
			return true
		})
	}
	return found
}

// namesOf are the points that a call names. ours is false for other calls; an
// error says that the name cannot be read in the code.
func namesOf(room string, call *ast.CallExpr) (names []string, ours bool, err error) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false, nil
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return nil, false, nil
	}
	called := x.Name + "." + sel.Sel.Name
	if called == "failpoint.At" {
		name, ok := literal(call.Args[1])
		if !ok {
			return nil, true, fmt.Errorf("%s without a literal name", called)
		}
		return []string{name}, true, nil
	}
	endings, ours := namers[room][called]
	if !ours {
		return nil, false, nil
	}
	first := 1 // behind the context
	if x.Name == "s" {
		first = 0
	}
	if len(call.Args) <= first {
		return nil, true, fmt.Errorf("%s without a name", called)
	}
	step, ok := literal(call.Args[first])
	if !ok {
		return nil, true, fmt.Errorf("%s without a literal name", called)
	}
	if step == "" { // it is said to have no points
		return nil, false, nil
	}
	if called == "db.at" {
		moment, ok := literal(call.Args[2])
		if !ok {
			return nil, true, fmt.Errorf("%s without a literal moment", called)
		}
		endings = []string{moment}
	}
	for _, e := range endings {
		names = append(names, room+"."+step+e)
	}
	return names, true, nil
}

func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		s, ok := moments[e.Name]
		return s, ok
	}
	return "", false
}

func TestEachPointIsWhereItIsDeclared(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for _, u := range uses(t) {
		found[u.name] = append(found[u.name], u.where)
	}
	declared := map[string]string{}
	for _, p := range failpoint.Points() {
		if _, twice := declared[p.Name]; twice {
			t.Errorf("%s is declared twice", p.Name)
		}
		declared[p.Name] = p.Where
		if p.Before == "" || p.After == "" || p.Where == "" {
			t.Errorf("%s does not say where it lies", p.Name)
		}
		if got := found[p.Name]; !slices.Equal(got, []string{p.Where}) {
			t.Errorf("%s is declared in %q and used in %q", p.Name, p.Where, got)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, ok := declared[name]; !ok {
			t.Errorf("%s is used in %q and not declared", name, found[name])
		}
	}
	if len(declared) < 90 {
		t.Errorf("only %d points", len(declared))
	}
	if names := failpoint.Names(); !slices.IsSorted(names) || len(names) != len(declared) {
		t.Errorf("the names are not sorted, or not all there: %d of %d", len(names), len(declared))
	}
}
