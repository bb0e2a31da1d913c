package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func fromFile(t *testing.T, text string) (path string, s settings) {
	path = filepath.Join(t.TempDir(), "secrets")
	write(t, path, text)
	return path, settings{"SOURCES": "asaas", "ASAAS_WEBHOOK_SECRETS_FILE": path}
}

func accepts(set *Set, token string) bool {
	p, _, ok := set.Lookup("asaas", "")
	if !ok {
		return false
	}
	_, reason := p.Verify(provider.Request{Header: map[string][]string{"Asaas-Access-Token": {token}}})
	return reason == provider.ReasonNone
}

func TestSecretsFromAFileLoseOneNewline(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		asaasToken: true, asaasToken + "\n": true, asaasToken + "\r\n": true, asaasToken + " , " + asaasToken + "x\n": true,
		asaasToken + ",\n": false, "": false, "\n": false, " \n": false, "short\n": false, asaasToken + "\n" + asaasToken + "\n": false,
	} {
		_, s := fromFile(t, text)
		set, err := Load(s.getenv)
		if ok != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
		if ok && !accepts(set, asaasToken) {
			t.Errorf("%q: the token is refused", text)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "ASAAS_WEBHOOK_SECRETS")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRotatedSecretsAreTakenWithoutARestart(t *testing.T) {
	t.Parallel()
	path, s := fromFile(t, asaasToken+"\n")
	clk := &clock{t: time.Unix(1e9, 0)}
	set, err := load(s.getenv, Factories(), os.ReadFile, clk.now)
	if err != nil {
		t.Fatal(err)
	}
	var reports []error
	set.OnReload(func(err error) { reports = append(reports, err) })
	next := "next-" + asaasToken

	write(t, path, asaasToken+","+next)
	clk.add(pollInterval - 1)
	if accepts(set, next) {
		t.Error("the file was read again before its time")
	}
	clk.add(1)
	if !accepts(set, next) || !accepts(set, asaasToken) {
		t.Error("both secrets should be in force")
	}
	if len(reports) != 1 || reports[0] != nil {
		t.Errorf("reports %v", reports)
	}

	write(t, path, next+",")
	clk.add(pollInterval)
	if !accepts(set, asaasToken) || !accepts(set, next) {
		t.Error("a faulty file locked somebody out")
	}
	if len(reports) != 2 || reports[1] == nil || !strings.Contains(reports[1].Error(), "stay in force") || strings.Contains(reports[1].Error(), "canary") {
		t.Errorf("reports %v", reports)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed, err := set.Reload(); changed || err == nil || !accepts(set, asaasToken) {
		t.Errorf("without its file: changed %v, %v", changed, err)
	}

	write(t, path, next)
	if changed, err := set.Reload(); !changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	if accepts(set, asaasToken) || !accepts(set, next) {
		t.Error("the old secret should be out")
	}
	if changed, err := set.Reload(); changed || err != nil {
		t.Errorf("nothing has changed: %v, %v", changed, err)
	}
}

func TestASetIsReadWhileItReloads(t *testing.T) {
	t.Parallel()
	path, s := fromFile(t, asaasToken)
	set := mustLoad(t, s)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				if !accepts(set, asaasToken) {
					t.Error("the secret that is in every version was refused")
					return
				}
			}
		})
	}
	for i := range 50 {
		write(t, path, fmt.Sprintf("%s,%s-%d", asaasToken, asaasToken, i))
		if changed, err := set.Reload(); err != nil || !changed {
			t.Errorf("round %d: changed %v, %v", i, changed, err)
		}
	}
	wg.Wait()
}

func TestWithoutFilesNothingIsReadAgain(t *testing.T) {
	t.Parallel()
	clk := &clock{t: time.Unix(1e9, 0)}
	read := func(string) ([]byte, error) { t.Error("a file was read"); return nil, errors.New("no") }
	set, err := load(full().getenv, Factories(), read, clk.now)
	if err != nil {
		t.Fatal(err)
	}
	clk.add(time.Hour)
	if !accepts(set, asaasToken) {
		t.Error("refused")
	}
	if changed, err := set.Reload(); changed || err != nil {
		t.Error(changed, err)
	}
	if changed, err := New(set.Entries()...).Reload(); changed || err != nil {
		t.Error(changed, err)
	}
}
