package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Outcome is what became of a mutant.
type Outcome string

// The outcomes. Only Killed is a success. A mutant under which the tests hang
// is not killed: the suite is to notice within the limit.
const (
	Killed   Outcome = "killed"
	Survived Outcome = "survived"
	TooSlow  Outcome = "not killed in time"
	Broken   Outcome = "error" // of the list or the environment; see Detail
)

// Verdict is what became of one mutant; its JSON names are an interface.
type Verdict struct {
	Mutant  string  `json:"mutant"`
	Breaks  string  `json:"breaks"`
	Harm    string  `json:"harm"`
	Outcome Outcome `json:"outcome"`
	Package string  `json:"package,omitempty"` // of the test that killed it
	Test    string  `json:"test,omitempty"`    // that killed it
	Detail  string  `json:"detail,omitempty"`  // its first message, or what went wrong
	Seconds float64 `json:"seconds"`           // of the tests, without the compiler
	Build   float64 `json:"build_seconds"`
}

// Runner builds and runs tests of the module at Root.
type Runner struct {
	Root  string        // absolute
	Go    string        // the go command
	Limit time.Duration // for the tests of one mutant; compiling them is not counted
	dir   string        // for what it makes
}

// NewRunner makes a Runner; Close removes what it has made.
func NewRunner(root, goTool string, limit time.Duration) (*Runner, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "umavez-mutants-")
	if err != nil {
		return nil, err
	}
	// Tests start PostgreSQL below it, which does not run as root.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		return nil, err
	}
	return &Runner{Root: root, Go: goTool, Limit: limit, dir: dir}, nil
}

// Close removes what the runner has made.
func (r *Runner) Close() error { return os.RemoveAll(r.dir) }

// Baseline runs the named tests of the given mutants without any fault. Where
// they are not green, no verdict would mean anything.
func (r *Runner) Baseline(ctx context.Context, list []Mutant, progress func(string)) error {
	names := map[string][]string{}
	var packages []string
	for _, m := range list {
		for _, t := range m.Tests {
			if names[t.Package] == nil {
				packages = append(packages, t.Package)
			}
			for _, n := range t.Names {
				if !slices.Contains(names[t.Package], n) {
					names[t.Package] = append(names[t.Package], n)
				}
			}
		}
	}
	for _, pkg := range packages {
		started := time.Now()
		binary, err := r.build(ctx, pkg, nil)
		if err != nil {
			return fmt.Errorf("%s does not build without any mutant: %w", pkg, err)
		}
		got, err := r.run(ctx, binary, Tests{pkg, names[pkg]}, 10*r.Limit)
		_ = os.Remove(binary)
		switch {
		case err != nil:
			return err
		case got.outcome != Survived:
			return fmt.Errorf("without any mutant %s of %s is red (%s): %s", got.test, pkg, got.outcome, got.detail)
		}
		progress(fmt.Sprintf("green without a mutant: %d tests of %s, %.0f s", len(names[pkg]), pkg, time.Since(started).Seconds()))
	}
	return ctx.Err()
}

// Try says whether the tests of a mutant notice it.
func (r *Runner) Try(ctx context.Context, m *Mutant) Verdict {
	v := Verdict{Mutant: m.Name, Breaks: m.Breaks, Harm: m.Harm}
	broken := func(err error) Verdict {
		v.Outcome, v.Detail = Broken, err.Error()
		return v
	}
	changed, err := m.Apply(r.Root)
	if err != nil {
		return broken(err)
	}
	v.Outcome = Survived
	var spent time.Duration
	for _, t := range m.Tests {
		started := time.Now()
		binary, err := r.build(ctx, t.Package, changed)
		v.Build += time.Since(started).Seconds()
		if err != nil {
			return broken(err)
		}
		got, err := r.run(ctx, binary, t, r.Limit-spent)
		_ = os.Remove(binary)
		spent += got.took
		v.Seconds = spent.Seconds()
		if err != nil {
			return broken(err)
		}
		if got.outcome != Survived {
			v.Outcome, v.Package, v.Test, v.Detail = got.outcome, t.Package, got.test, got.detail
			return v
		}
	}
	return v
}

// build compiles the tests of a package with some files replaced.
func (r *Runner) build(ctx context.Context, pkg string, changed map[string]string) (binary string, err error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		at := filepath.Join(r.dir, strings.ReplaceAll(file, "/", "__"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(r.Root, filepath.FromSlash(file))] = at
	}
	words, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	at := filepath.Join(r.dir, "overlay.json")
	if err := os.WriteFile(at, words, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(r.dir, "mutated.test")
	cmd := exec.CommandContext(ctx, r.Go, "test", "-c", "-overlay", at, "-o", binary, "./"+pkg)
	cmd.Dir = r.Root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

type ran struct {
	outcome      Outcome // Killed, Survived or TooSlow
	test, detail string
	took         time.Duration
}

// run runs tests until the first one fails. An error is of the environment.
func (r *Runner) run(ctx context.Context, binary string, t Tests, limit time.Duration) (ran, error) {
	scratch := filepath.Join(r.dir, "tmp")
	if err := os.MkdirAll(scratch, 0o755); err != nil { //nolint:gosec // as in NewRunner
		return ran{}, err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // scratch
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.count=1", "-test.timeout="+(limit+time.Second).String(),
		"-test.run=^("+strings.Join(t.Names, "|")+")$")
	cmd.Dir = filepath.Join(r.Root, filepath.FromSlash(t.Package))
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
	cmd.WaitDelay = 5 * time.Second // what a test started may hold the pipe
	var out output
	out.stop = cancel // the first failure is enough
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	started := time.Now()
	err := cmd.Run()
	got := ran{took: time.Since(started)}
	switch {
	case out.failed != "":
		got.outcome, got.test, got.detail = Killed, out.failed, out.message()
	case err == nil && out.passed >= len(t.Names):
		got.outcome = Survived
		return got, nil
	case err == nil:
		return got, fmt.Errorf("%d of %d tests of %s ran: %s", out.passed, len(t.Names), t.Package, strings.Join(t.Names, ", "))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		got.outcome, got.detail = TooSlow, "still running: "+strings.Join(out.running(), ", ")
	case ctx.Err() != nil:
		return got, ctx.Err()
	default: // a panic outside of a test, or a leak that TestMain has found
		got.outcome, got.test, got.detail = Killed, strings.Join(out.running(), ", "), firstLine(stderr.String())
		if got.test == "" {
			got.test = "TestMain"
		}
		if got.detail == "" {
			got.detail = err.Error()
		}
	}
	if environment(got.detail) {
		return got, fmt.Errorf("the environment of %s failed: %s", got.test, got.detail)
	}
	return got, nil
}

// environment says whether a message is of a test that got no world to run in;
// postgrestest says so in these words.
func environment(message string) bool {
	for _, words := range []string{"no test database:", "test database:", "test cluster:"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
