//go:build failpoints

package failpoint

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

// Enabled says whether this program was built with failpoints.
const Enabled = true

// registry is what is armed in this process, and what came of it. The points
// are places of the program, so there is one registry a process.
var registry = struct {
	sync.Mutex
	armed    []*arming
	declared map[string]Point
	hits     map[string]int64
	fired    map[string]map[string]int64
}{declared: declared(), hits: map[string]int64{}, fired: map[string]map[string]int64{}}

func declared() map[string]Point {
	all := make(map[string]Point, len(points))
	for _, p := range points {
		all[p.Name] = p
	}
	return all
}

// At is the place of that name: it does what is armed there. The error wraps
// one of ErrInjected, ErrLost, ErrDeadlock and ErrSerialization. It panics
// when nobody has declared the name.
func At(_ context.Context, name string) error {
	a := reach(name)
	if a == nil {
		return nil
	}
	return a.act()
}

// reach counts and chooses.
func reach(name string) *arming {
	registry.Lock()
	defer registry.Unlock()
	if _, known := registry.declared[name]; !known {
		panic("failpoint: nobody declared " + name)
	}
	registry.hits[name]++
	for _, a := range registry.armed {
		if a.name != name || a.left == 0 || a.probability < 1 && rand.Float64() >= a.probability {
			continue
		}
		if a.left > 0 {
			a.left--
		}
		if registry.fired[name] == nil {
			registry.fired[name] = map[string]int64{}
		}
		registry.fired[name][a.action]++
		return a
	}
	return nil
}

func (a *arming) act() error {
	fmt.Fprintf(os.Stderr, "failpoint: %s %s\n", a.name, a.action)
	switch a.action {
	case "crash":
		die()
		return nil
	case "panic":
		panic("failpoint: injected panic at " + a.name)
	case "delay":
		time.Sleep(a.delay)
		return nil
	}
	return fmt.Errorf("failpoint %s: %w", a.name, outcomes[a.action])
}

var outcomes = map[string]error{
	"error": ErrInjected, "lost": ErrLost, "deadlock": ErrDeadlock, "serialization": ErrSerialization,
}

// die ends the process as kill -9 does; it does not return.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic("failpoint: cannot kill the own process: " + err.Error())
	}
	select {} // the signal is on its way
}

// Armed says whether anything is armed at a point whose name has the prefix.
func Armed(prefix string) bool {
	registry.Lock()
	defer registry.Unlock()
	for _, a := range registry.armed {
		if a.left != 0 && strings.HasPrefix(a.name, prefix) {
			return true
		}
	}
	return false
}

// Arm replaces what is armed. An unknown name or action is an error, and then
// nothing changes. Counts of hits and of what was done stay.
func Arm(spec string) error {
	armed, err := parse(spec, registry.declared)
	if err != nil {
		return err
	}
	registry.Lock()
	defer registry.Unlock()
	registry.armed = armed
	return nil
}

// Reset disarms everything and forgets all counts.
func Reset() {
	registry.Lock()
	defer registry.Unlock()
	registry.armed = nil
	clear(registry.hits)
	clear(registry.fired)
}

// Now is the state of this process.
func Now() State {
	registry.Lock()
	defer registry.Unlock()
	s := State{Armed: []string{}, Hits: maps.Clone(registry.hits), Fired: map[string]map[string]int64{}}
	for _, a := range registry.armed {
		if a.left != 0 {
			s.Armed = append(s.Armed, a.String())
		}
	}
	for name, actions := range registry.fired {
		s.Fired[name] = maps.Clone(actions)
	}
	return s
}
