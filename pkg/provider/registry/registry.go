// Package registry knows every gateway of this program and builds the
// configured sources, the accounts from which webhooks are taken.
//
// It is the one place where a gateway is listed (Factories) and where the
// settings <PROVIDER>[_<ACCOUNT>]_... are read (Load). A set of sources either
// loads whole or not at all: every fault of the settings is reported at once,
// and each names the variable and what to do. No error, and no printed form
// of anything here, contains the value of a setting.
//
// Secrets may come from files (WEBHOOK_SECRETS_FILE, API_KEY_FILE), as
// Kubernetes mounts them. They are read again while the program runs, so that
// a rotation needs no restart; see Set.Reload.
package registry

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// Entry is one configured source and the provider that was built for it.
type Entry struct {
	Source   provider.Source
	Provider provider.Provider
}

// pollInterval is how often, at most, Lookup looks at the secret files.
const pollInterval = 10 * time.Second

// Set holds the configured sources. It is safe for concurrent use. Callers
// ask it for a provider each time instead of keeping one, so that they see
// rotated secrets.
type Set struct {
	current atomic.Pointer[snapshot]

	load     func() (*snapshot, error) // nil: the set never changes
	readFile func(string) ([]byte, error)
	now      func() time.Time
	report   atomic.Pointer[func(error)]

	reloading sync.Mutex   // one reload at a time
	polledAt  atomic.Int64 // Unix nanoseconds of the last look at the files
}

// snapshot is one consistent state of a set; it is never changed.
type snapshot struct {
	entries []Entry
	index   map[name]int
	files   map[string]digest // path of each secret file, and what it held
}

type name struct{ provider, account string }

type digest [sha256.Size]byte

func newSnapshot(entries []Entry, files map[string]string) *snapshot {
	s := &snapshot{entries: entries, index: make(map[name]int, len(entries)), files: make(map[string]digest, len(files))}
	for path, text := range files {
		s.files[path] = sha256.Sum256([]byte(text))
	}
	for i, e := range entries {
		s.index[name{e.Source.Provider, account(e.Source.Account)}] = i
	}
	return s
}

func account(a string) string {
	if a == "" {
		return provider.DefaultAccount
	}
	return a
}

// New makes a set of sources that are already built; it never reloads.
func New(entries ...Entry) *Set {
	s := &Set{now: time.Now}
	s.current.Store(newSnapshot(entries, nil))
	return s
}

// Load reads the settings of all sources and builds their providers. getenv
// is os.LookupEnv, or a map's look-up in tests.
func Load(getenv func(string) (string, bool)) (*Set, error) {
	return LoadWith(getenv, Factories())
}

// LoadWith is Load with another list of gateways.
func LoadWith(getenv func(string) (string, bool), factories map[string]provider.Factory) (*Set, error) {
	return load(getenv, factories, os.ReadFile, time.Now)
}

func load(getenv func(string) (string, bool), factories map[string]provider.Factory,
	readFile func(string) ([]byte, error), now func() time.Time) (*Set, error) {
	s := &Set{readFile: readFile, now: now}
	s.load = func() (*snapshot, error) {
		l := loader{getenv: getenv, factories: factories, readFile: readFile, files: map[string]string{}}
		return l.run()
	}
	first, err := s.load()
	if err != nil {
		return nil, err
	}
	s.current.Store(first)
	s.polledAt.Store(now().UnixNano())
	return s, nil
}

// Lookup returns the provider and the settings of one source. account is
// provider.DefaultAccount, or "", for the plain form. When secrets come from
// files, one caller in ten seconds looks whether they have changed.
func (s *Set) Lookup(providerName, accountName string) (provider.Provider, provider.Source, bool) {
	s.poll()
	cur := s.current.Load()
	i, ok := cur.index[name{providerName, account(accountName)}]
	if !ok {
		return nil, provider.Source{}, false
	}
	return cur.entries[i].Provider, cur.entries[i].Source, true
}

// Entries returns all sources in the order of SOURCES.
func (s *Set) Entries() []Entry {
	s.poll()
	return append([]Entry(nil), s.current.Load().entries...)
}

// OnReload sets who is told of reloads that Lookup and Entries start: nil
// after secrets were replaced, the reason when they could not be.
func (s *Set) OnReload(report func(error)) { s.report.Store(&report) }

// Reload reads the secret files again and, when one has changed, rebuilds all
// providers and swaps them in together; changed says so. On any error the old
// secrets stay in force: a file that is missing for a moment, or half
// written, locks nobody out.
func (s *Set) Reload() (changed bool, err error) {
	if s.load == nil {
		return false, nil
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.polledAt.Store(s.now().UnixNano())
	if !s.filesChanged() {
		return false, nil
	}
	next, err := s.load()
	if err != nil {
		return false, fmt.Errorf("reload of secrets, the old ones stay in force: %w", err)
	}
	s.current.Store(next)
	return true, nil
}

// filesChanged says whether a file differs from what is in force; one that
// cannot be read differs too, so that load reports it by its variable.
func (s *Set) filesChanged() bool {
	for path, held := range s.current.Load().files {
		if b, err := s.readFile(path); err != nil || sha256.Sum256(b) != held {
			return true
		}
	}
	return false
}

func (s *Set) poll() {
	if s.load == nil || len(s.current.Load().files) == 0 {
		return
	}
	last, now := s.polledAt.Load(), s.now().UnixNano()
	if now-last < int64(pollInterval) || !s.polledAt.CompareAndSwap(last, now) {
		return
	}
	changed, err := s.Reload()
	if report := s.report.Load(); report != nil && (changed || err != nil) {
		(*report)(err)
	}
}
