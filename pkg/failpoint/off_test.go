//go:build !failpoints

package failpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/failpoint"
)

// A program without the tag has no trace of the points: neither a function of
// this package nor one of the names.
func TestAProgramWithoutTheTagHoldsNothingOfThis(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "./cmd/ingest", "./cmd/processor", "./cmd/sweeper")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"ingest", "processor", "sweeper"} {
		file := filepath.Join(dir, name)
		symbols, err := exec.Command("go", "tool", "nm", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(symbols, []byte("umavez/pkg/daemon.Main")) {
			t.Fatalf("%s: the symbols are not those of our program", name)
		}
		for line := range strings.Lines(string(symbols)) {
			if strings.Contains(line, "pkg/failpoint.") {
				t.Errorf("%s has the symbol %s", name, strings.TrimSpace(line))
			}
		}
		program, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range failpoint.Names() {
			if bytes.Contains(program, []byte(point)) {
				t.Errorf("%s contains the name %s", name, point)
			}
		}
		if bytes.Contains(program, []byte("/failpoints")) || bytes.Contains(program, []byte(failpoint.Environment)) {
			t.Errorf("%s can be armed", name)
		}
	}
}

func TestWithoutTheTagNothingHappensAndNothingIsAllocated(t *testing.T) {
	ctx := t.Context()
	if failpoint.Enabled || failpoint.Armed("") || failpoint.Arm("ingest.parsed=error") == nil {
		t.Error("this program claims to have failpoints")
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := failpoint.At(ctx, "ingest.parsed"); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAtWithoutTheTag(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		if failpoint.At(ctx, "ingest.parsed") != nil {
			b.Fatal("an error")
		}
	}
}
