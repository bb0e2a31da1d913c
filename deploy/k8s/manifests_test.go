// Package k8s checks that the manifests agree with the code.
package k8s

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	envconfigName = regexp.MustCompile("envconfig:\"([A-Z][A-Z0-9_]*)\"")
	mapKey        = regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_]*): (.*)$`)
	envName       = regexp.MustCompile(`- name: ([A-Z][A-Z0-9_]*)\n`)
	secretKey     = regexp.MustCompile(`key: ([A-Z][A-Z0-9_]*)\n`)
	resource      = regexp.MustCompile(`(?m)^  - (\S+\.yaml)$`)
	command       = regexp.MustCompile(`command: \[([a-z]+)`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func all(re *regexp.Regexp, text string) (found []string) {
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// settings are the names that the code reads. Those of sources are made of
// the source's name; SOURCES and ENVIRONMENT belong to the registry, and
// GOMEMLIMIT is the Go runtime's.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"SOURCES": true, "ENVIRONMENT": true, "GOMEMLIMIT": true}
	err := filepath.WalkDir("../../pkg", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			for _, name := range all(envconfigName, read(t, path)) {
				known[name] = true
			}
		}
		return err
	})
	if err != nil || len(known) < 10 {
		t.Fatalf("%d settings found in the code, %v", len(known), err)
	}
	return known
}

func TestEverySettingInTheManifestsIsReadByTheCode(t *testing.T) {
	known := settings(t)
	names := all(mapKey, read(t, "configmap.yaml"))
	for _, file := range []string{"ingest.yaml", "processor.yaml", "sweeper.yaml", "migrate.yaml"} {
		names = append(names, all(envName, read(t, file))...)
	}
	if len(names) < 10 {
		t.Fatalf("only %v found", names)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("%s is set, and no code reads it", name)
		}
	}
}

func TestTheExampleSecretHasEveryKeyThatPodsUse(t *testing.T) {
	have := all(mapKey, read(t, "secret.example.yaml"))
	for _, file := range []string{"ingest.yaml", "processor.yaml", "sweeper.yaml", "migrate.yaml"} {
		keys := all(secretKey, read(t, file))
		if len(keys) == 0 {
			t.Errorf("%s uses no secret", file)
		}
		for _, key := range keys {
			if !slices.Contains(have, key) {
				t.Errorf("%s uses the key %s, which the example lacks", file, key)
			}
		}
	}
}

func TestKustomizationListsEveryManifest(t *testing.T) {
	listed := all(resource, read(t, "kustomization.yaml"))
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file != "kustomization.yaml" && file != "secret.example.yaml" && !slices.Contains(listed, file) {
			t.Errorf("%s is not listed", file)
		}
	}
	for _, file := range listed {
		if !slices.Contains(files, file) {
			t.Errorf("%s is listed and missing", file)
		}
	}
}

func TestEveryPodIsLockedDownAndRunsABinaryOfTheImage(t *testing.T) {
	dockerfile := read(t, "../../Dockerfile")
	for _, file := range []string{"ingest.yaml", "processor.yaml", "sweeper.yaml", "migrate.yaml"} {
		text := read(t, file)
		for _, must := range []string{
			"runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false",
			"drop: [ALL]", "type: RuntimeDefault", "automountServiceAccountToken: false", "memory:", "requests:",
		} {
			if !strings.Contains(text, must) {
				t.Errorf("%s lacks %q", file, must)
			}
		}
		for _, name := range all(command, text) {
			if !strings.Contains(dockerfile, "./cmd/"+name) {
				t.Errorf("%s runs %s, which the image does not hold", file, name)
			}
			if _, err := os.Stat("../../cmd/" + name); err != nil {
				t.Errorf("%s runs %s, which is no command", file, name)
			}
		}
		if strings.Contains(text, "\t") {
			t.Errorf("%s has a tab", file)
		}
	}
}
