package npmtest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// installTimeout bounds npm; the packages are about a megabyte.
const installTimeout = 3 * time.Minute

const runnerFile = "runner.mjs"

//go:embed package.json package-lock.json runner.mjs
var files embed.FS

// fileNames are the files of an installation, in the order they are digested.
var fileNames = []string{"package.json", "package-lock.json", runnerFile}

// missingError says that this machine lacks something that is not ours.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what }

func isMissing(err error) (bool, string) {
	var m *missingError
	if errors.As(err, &m) {
		return true, m.what
	}
	return false, ""
}

// installed gives the directory of the packages, and installs them when they
// are not there. A process asks once.
var installed = sync.OnceValues(func() (string, error) { return install(cacheDir()) })

// install makes an installation below cache, or finds it there. It is made
// under another name and then renamed, so that what has the final name is
// complete: of several processes that install at once one wins, and the
// others take what it made.
func install(cache string) (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", &missingError{program + " is not installed"}
		}
	}
	key, err := digest()
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, key)
	if isDir(final) {
		return final, checkWhole(final)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	temp, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	defer os.RemoveAll(temp) // nothing is left of it after the rename
	for _, name := range fileNames {
		content, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(temp, name), content, 0o644); err != nil {
			return "", fmt.Errorf("installation: %w", err)
		}
	}
	if err := npmCI(temp); err != nil {
		return "", err
	}
	if err := os.Rename(temp, final); err != nil && !isDir(final) {
		return "", fmt.Errorf("installation: %w", err)
	}
	return final, nil
}

func npmCI(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--no-update-notifier", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &missingError{fmt.Sprintf("npm ci did not end within %v", installTimeout)}
	case unreachable(string(out)):
		return &missingError{"npm reached no package registry"}
	}
	return fmt.Errorf("npm ci: %w\n%s", err, lastLines(out, 20))
}

// unreachable says whether npm gave up on the network, by the error codes
// that it prints.
func unreachable(out string) bool {
	for _, code := range []string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH", "ENOTCACHED"} {
		if strings.Contains(out, "code "+code) {
			return true
		}
	}
	return false
}

// digest names an installation by all that is in it.
func digest() (string, error) {
	h := sha256.New()
	for _, name := range fileNames {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(content))
		h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// checkWhole refuses an installation that somebody has cleaned up in part. It
// is not repaired here: other processes may be using what is left.
func checkWhole(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil {
		return fmt.Errorf("the installation in %s is incomplete; remove that directory and run the tests again", dir)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
