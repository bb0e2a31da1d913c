package npmtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSnippetsReachThePackagesAtTheirExactVersions(t *testing.T) {
	t.Parallel()
	var got map[string]string
	err := Run(t, `
		console.log("a line that must not reach the answer");
		const out = {};
		for (const name of input.names) {
			if (!require(name)) throw new Error("empty module");
			const fs = require("node:fs"), path = require("node:path");
			let dir = path.dirname(require.resolve(name));
			while (path.basename(path.dirname(dir)) !== "node_modules") dir = path.dirname(dir);
			out[name] = JSON.parse(fs.readFileSync(path.join(dir, "package.json"), "utf8")).version;
		}
		const { Webhook } = await load("standardwebhooks");
		out.loaded = typeof Webhook;
		return out;`, map[string]any{"names": []string{"mercadopago", "standardwebhooks"}}, &got)
	if err != nil {
		t.Fatal(err)
	}
	if got["mercadopago"] != "3.6.1" || got["standardwebhooks"] != "1.1.1" || got["loaded"] != "function" {
		t.Errorf("%v", got)
	}
}

func TestWhatASnippetThrowsIsAnErrorAndWhatItReturnsIsKeptExactly(t *testing.T) {
	t.Parallel()
	if err := Run(t, `throw new TypeError("no such thing")`, nil, nil); err == nil || !strings.Contains(err.Error(), "TypeError: no such thing") {
		t.Errorf("%v", err)
	}
	if err := Run(t, `this is not JavaScript`, nil, nil); err == nil || !strings.Contains(err.Error(), "SyntaxError") {
		t.Errorf("%v", err)
	}
	in, out := "São João \u2028 \"</script>\" \\ 💳", ""
	if err := Run(t, `return input`, in, &out); err != nil || out != in {
		t.Errorf("%q came back as %q, %v", in, out, err)
	}
	var nothing *string
	if err := Run(t, `return undefined`, nil, &nothing); err != nil || nothing != nil {
		t.Errorf("%v, %v", nothing, err)
	}
}

func TestInstallationsAtOnceEndInOne(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Log("installs twice, not four times, in short mode")
	}
	first := Dir(t) // skips, or fails, where nothing can be installed
	cache, n := t.TempDir(), 4
	if testing.Short() {
		n = 2
	}
	dirs, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { dirs[i], errs[i] = install(cache) })
	}
	wg.Wait()
	for i := range n {
		if errs[i] != nil || dirs[i] != dirs[0] {
			t.Errorf("%q, %v; the first is %q", dirs[i], errs[i], dirs[0])
		}
	}
	if filepath.Base(dirs[0]) != filepath.Base(first) {
		t.Errorf("the same files have two names: %q and %q", dirs[0], first)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 {
		t.Errorf("%d entries are left in the cache, %v; want the installation alone", len(left), err)
	}
	if _, err := os.Stat(filepath.Join(dirs[0], "node_modules", "standardwebhooks", "package.json")); err != nil {
		t.Error(err)
	}
}

func TestAnInstallationThatWasCleanedUpInPartIsRefused(t *testing.T) {
	t.Parallel()
	Dir(t)
	cache := t.TempDir()
	key, err := digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(cache, key, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := install(cache); err == nil || !strings.Contains(err.Error(), "remove that directory") {
		t.Errorf("%v", err)
	}
}

// A machine's registry, perhaps a private one, must not get into the
// repository, nor decide where others fetch from.
func TestTheLockHasADigestForEachPackageAndNamesNoRegistry(t *testing.T) {
	t.Parallel()
	raw, err := files.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"resolved", "http:", "https:", "git+", "file:"} {
		if strings.Contains(string(raw), word) {
			t.Errorf("the lock contains %q; write it anew with npm install --package-lock-only --omit-lockfile-registry-resolved", word)
		}
	}
	var lock struct {
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-")) {
			t.Errorf("%s has no version, or no SHA-512 digest", name)
		}
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if raw, err = files.ReadFile("package.json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	for name, version := range manifest.Dependencies {
		if got := lock.Packages["node_modules/"+name].Version; got != version {
			t.Errorf("%s is %q in package.json and %q in the lock", name, version, got)
		}
	}
	if len(manifest.Dependencies) == 0 {
		t.Error("no package is named")
	}
}

func TestOnlyWhatThisMachineLacksIsCalledMissing(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]bool{
		"npm error code ENOTFOUND\nnpm error syscall getaddrinfo":  true,
		"npm error code ECONNREFUSED":                              true,
		"npm error code EINTEGRITY\nnpm error sha512 differs":      false,
		"npm error code EUSAGE\nnpm error lock is not in sync":     false,
		"npm error code E404\nnpm error 404 no such package found": false,
		"": false,
	} {
		if got := unreachable(out); got != want {
			t.Errorf("%q: %v", out, got)
		}
	}
	if missing, why := isMissing(&missingError{"node is not installed"}); !missing || why != "node is not installed" {
		t.Errorf("%v %q", missing, why)
	}
}
