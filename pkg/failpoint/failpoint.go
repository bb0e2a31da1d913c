// Package failpoint lets a test break the program at a named place: die there,
// meet an error, lose an answer, or stand still for a while. The places are
// declared in points.go, once each, with what lies before and after them.
//
// It works in programs that are built with the tag failpoints. Without the tag
// Enabled is false and At is empty, so the compiler leaves nothing of it.
//
// What is armed is a text, from the variable FAILPOINTS at start, by Arm in
// the process, or by PUT /failpoints on the admin listener:
//
//	name=action[*count][@probability][;...]
//
//	crash             SIGKILL to the own process: nothing deferred runs
//	panic             a panic
//	error             ErrInjected, a fault of our own and not of a connection
//	lost              as if the connection broke and took the answer with it
//	delay:<duration>  stands still, whatever the context says, as a stopped
//	                  process would, and then goes on
//	deadlock          the database gave the statement up (40P01)
//	serialization     the database could not order two transactions (40001)
//
// The last two are for places of the database only. A place may be named more
// than once: the first that has not used its count up acts.
package failpoint

import (
	"errors"
	"io"
	"slices"
	"strings"
)

// Environment is the name of the variable that arms a process at its start.
const Environment = "FAILPOINTS"

// What At returns wraps one of these.
var (
	// ErrInjected is a fault of our own code.
	ErrInjected = errors.New("injected fault")
	// ErrLost is the end of a connection: what was asked may have happened.
	ErrLost error = lostError{}
	// ErrDeadlock and ErrSerialization stand for what a database says; the
	// room that knows the driver turns them into errors of the driver.
	ErrDeadlock      = errors.New("injected deadlock")
	ErrSerialization = errors.New("injected serialization failure")
)

type lostError struct{}

func (lostError) Error() string { return "injected loss of the answer" }
func (lostError) Unwrap() error { return io.ErrUnexpectedEOF }

// Point is a place where the program can be broken.
type Point struct {
	Name   string // <room>.<moment>
	Where  string // file below pkg, and the function: "postgres/settle.go Settle"
	Before string // what has happened when the point is reached
	After  string // what comes next
}

// Room is the package that the point belongs to.
func (p Point) Room() string {
	room, _, _ := strings.Cut(p.Name, ".")
	return room
}

// Actions are the names of the actions that make sense at the point, without
// their arguments, in the order of the package's comment.
func (p Point) Actions() []string {
	all := []string{"crash", "panic", "error", "lost", "delay"}
	if p.Room() == "postgres" {
		all = append(all, "deadlock", "serialization")
	}
	return all
}

// Points are all points, sorted by name.
func Points() []Point {
	all := slices.Clone(points)
	slices.SortFunc(all, func(a, b Point) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Names are the names of all points, sorted.
func Names() []string {
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = p.Name
	}
	slices.Sort(names)
	return names
}

// State is what GET /failpoints says.
type State struct {
	// Armed are the parts of the spec that have something of their count left.
	Armed []string `json:"armed"`
	// Hits says how often each point was reached since the start, armed or
	// not. A transaction whose points are not armed sends its statements in
	// one piece and does not pass the points between them.
	Hits map[string]int64 `json:"hits"`
	// Fired says how often each action was taken at each point.
	Fired map[string]map[string]int64 `json:"fired"`
}
