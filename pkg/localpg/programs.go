package localpg

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest PostgreSQL that the schema is tested with.
const oldestMajor = 14

// ErrMissing says that no usable PostgreSQL programs were found.
var ErrMissing = errors.New("PostgreSQL programs not found")

// Programs are the server programs of one installation.
type Programs struct {
	Bin   string // directory of postgres and initdb
	Major int    // 15, 16, ...
}

// Find looks for server programs: on the PATH, in the directories that
// distributions use (newest first), and where pg_config points. With a major
// version other than 0 only that version is taken, since data belongs to one.
func Find(major int) (Programs, error) {
	var seen []string
	for _, dir := range candidates() {
		found, err := versionOf(dir)
		if err != nil {
			continue
		}
		seen = append(seen, fmt.Sprintf("%d in %s", found, dir))
		if found >= oldestMajor && (major == 0 || found == major) {
			return Programs{Bin: dir, Major: found}, nil
		}
	}
	need := fmt.Sprintf("PostgreSQL %d or later", oldestMajor)
	if major != 0 {
		need = fmt.Sprintf("PostgreSQL %d, which made the data that is there,", major)
	}
	if len(seen) > 0 {
		return Programs{}, fmt.Errorf("%w: %s is needed; there is only %s; %s", ErrMissing, need, strings.Join(seen, ", "), InstallHint())
	}
	return Programs{}, fmt.Errorf("%w: %s is needed; %s, or set DATABASE_URL to a server that runs", ErrMissing, need, InstallHint())
}

func candidates() []string {
	var dirs []string
	add := func(dir string) {
		if resolved, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dir = filepath.Dir(resolved)
		}
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil || slices.Contains(dirs, dir) {
			return
		}
		dirs = append(dirs, dir)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		add(filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // PGDG on Red Hat
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return numberIn(b) - numberIn(a) })
		for _, dir := range found {
			add(dir)
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		add(strings.TrimSpace(string(out)))
	}
	return dirs
}

var number = regexp.MustCompile(`\d+`)

func numberIn(path string) int {
	n, _ := strconv.Atoi(number.FindString(path))
	return n
}

// versionOf asks the program itself: "postgres (PostgreSQL) 15.8 (Debian ...)".
func versionOf(dir string) (int, error) {
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(out), ")")
	return strconv.Atoi(number.FindString(rest))
}

// InstallHint says how to install the programs on this kind of machine.
func InstallHint() string {
	if runtime.GOOS == "darwin" {
		return "run `brew install postgresql`"
	}
	switch family := osFamily(); {
	case strings.Contains(family, "debian"), strings.Contains(family, "ubuntu"):
		return "run `apt-get install postgresql`"
	case strings.Contains(family, "fedora"), strings.Contains(family, "rhel"):
		return "run `dnf install postgresql-server`"
	case strings.Contains(family, "alpine"):
		return "run `apk add postgresql`"
	case strings.Contains(family, "arch"):
		return "run `pacman -S postgresql`"
	case strings.Contains(family, "suse"):
		return "run `zypper install postgresql-server`"
	}
	return "install the PostgreSQL server package of your system (`apt-get install postgresql` on Debian and Ubuntu)"
}

// osFamily is the ID and ID_LIKE of os-release.
func osFamily() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	var family []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), "="); ok && (name == "ID" || name == "ID_LIKE") {
			family = append(family, strings.Trim(value, `"`))
		}
	}
	return strings.Join(family, " ")
}
