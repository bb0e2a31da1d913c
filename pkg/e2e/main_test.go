package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.Close()
	if dir, err := built(); err == nil {
		os.RemoveAll(dir) //nolint:errcheck // scratch
	}
	os.Exit(code)
}

// built compiles the commands, once for a run of the tests. Where the tests
// never asked for them it is not worth doing, so asked says whether they did.
var (
	asked bool
	built = sync.OnceValues(func() (string, error) {
		if !asked {
			return "", os.ErrNotExist
		}
		dir, err := os.MkdirTemp("", "umavez-e2e-")
		if err != nil {
			return "", err
		}
		cmd := exec.Command("go", "build", "-tags", buildTags, "-o", dir+"/", "./cmd/ingest", "./cmd/processor", "./cmd/sweeper", "./cmd/umavez")
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("go build: %w\n%s", err, out)
		}
		return dir, nil
	})
	buildMu sync.Mutex
)

// binary is the path of a built command.
func binary(t testing.TB, name string) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	asked = true
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}
