// Package npmtest runs snippets of JavaScript against the packages that
// gateways publish for their customers, so that tests have the other side's
// own code as a peer.
//
// The packages and their exact versions are in package.json and
// package-lock.json beside this file; the lock has their digests and names no
// registry, so that the machine's own npm settings say where they come from.
// They are installed once a machine, into the user's cache directory, under a
// name made of those files; their install scripts are not run.
//
// Without node, npm or a registry within reach, a test that needs them fails
// where CI is set, and is skipped with the reason elsewhere.
package npmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runTimeout bounds one snippet.
const runTimeout = time.Minute

// Run runs the snippet, which is the body of an async function with three
// parameters: input is in as JSON, require loads a CommonJS package, and
// "await load(name)" any package. What it returns is decoded into out (nil:
// dropped). An exception of the snippet is returned as an error, with the
// exception's name and message; whatever else goes wrong ends the test.
func Run(t testing.TB, snippet string, in, out any) error {
	t.Helper()
	dir, err := installed()
	if err != nil {
		unavailable(t, err)
	}
	question, err := json.Marshal(map[string]any{"snippet": snippet, "input": in})
	if err != nil {
		t.Fatalf("npmtest: the input is not JSON: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", runnerFile)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(question)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("npmtest: node: %v\n%s", err, stderr.String())
	}
	var answer struct {
		Output json.RawMessage `json:"output"`
		Error  *string         `json:"error"`
	}
	if err := json.Unmarshal(stdout, &answer); err != nil {
		t.Fatalf("npmtest: the answer of node is not JSON: %v\n%s", err, stderr.String())
	}
	if answer.Error != nil {
		return fmt.Errorf("javascript: %s", *answer.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Output, out); err != nil {
		t.Fatalf("npmtest: the snippet's result does not fit: %v", err)
	}
	return nil
}

// Dir is the directory whose node_modules has the packages, for tests that
// start node by themselves.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := installed()
	if err != nil {
		unavailable(t, err)
	}
	return dir
}

func unavailable(t testing.TB, err error) {
	t.Helper()
	if missing, why := isMissing(err); missing && os.Getenv("CI") == "" {
		t.Skipf("npmtest: %s; this test needs node, npm and a package registry (it fails where CI is set)", why)
	}
	t.Fatalf("npmtest: %v", err)
}

// cacheDir is where installations are kept.
func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
	}
	return filepath.Join(base, "umavez", "npmtest")
}

// lastLines keeps of npm's talk what a reader needs.
func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
