package powercut

import (
	"os"
	"testing"
)

// NeedMount fails or skips a test that could not mount: it is no test then. In
// CI, where CI is true, that is a failure; a developer without the right to
// mount is told what the others run and he does not.
func NeedMount(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("the power-cut tests must run in CI: %v", err)
	default:
		t.Skipf("not run: %v", err)
	}
}
