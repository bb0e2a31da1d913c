package mutants

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// output reads what a test binary prints with -test.v, and notes the first
// test that fails with what it said. It is an io.Writer.
type output struct {
	stop func() // called once a test has failed

	rest    []byte // of a line that has not ended
	current string // the test whose lines come
	begun   []string
	ended   map[string]bool
	said    map[string]string // the first message of each test
	passed  int               // top-level tests
	failed  string            // the first test that failed, with its subtest
}

var (
	// Names may hold spaces only as underscores.
	turn    = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE)\s+(\S*)$`)
	end     = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	message = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)$`)
)

func (o *output) Write(b []byte) (int, error) {
	o.rest = append(o.rest, b...)
	for {
		line, rest, ended := bytes.Cut(o.rest, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		o.rest = rest
		o.line(string(line))
	}
}

func (o *output) line(line string) {
	if o.failed != "" {
		return
	}
	if m := turn.FindStringSubmatch(line); m != nil {
		o.current = m[2]
		if m[1] == "RUN" {
			o.begun = append(o.begun, m[2])
		}
		return
	}
	if m := end.FindStringSubmatch(line); m != nil {
		if o.ended == nil {
			o.ended = map[string]bool{}
		}
		o.ended[m[2]] = true
		switch {
		case m[1] == "FAIL":
			o.failed = m[2]
			o.stop()
		case m[1] == "PASS" && !strings.Contains(m[2], "/"):
			o.passed++
		}
		return
	}
	if m := message.FindStringSubmatch(line); m != nil && o.current != "" && o.said[o.current] == "" {
		if o.said == nil {
			o.said = map[string]string{}
		}
		o.said[o.current] = m[1]
	}
}

// message is what the failed test said first, or one of its subtests did.
func (o *output) message() string {
	if said := o.said[o.failed]; said != "" {
		return said
	}
	for name, said := range o.said {
		if strings.HasPrefix(name, o.failed+"/") {
			return said
		}
	}
	return ""
}

// running are the top-level tests that had begun and not ended.
func (o *output) running() []string {
	return slices.DeleteFunc(slices.Clone(o.begun), func(name string) bool { return o.ended[name] || strings.Contains(name, "/") })
}
