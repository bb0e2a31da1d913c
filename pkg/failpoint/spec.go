//go:build failpoints

package failpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// arming is one part of a spec.
type arming struct {
	name        string
	action      string
	delay       time.Duration // of the action delay
	left        int           // how often it still acts; below 0: always
	probability float64       // above 0, at most 1
}

// String is the part as it would be written to arm what is left of it.
func (a *arming) String() string {
	s := a.name + "=" + a.action
	if a.action == "delay" {
		s += ":" + a.delay.String()
	}
	if a.left >= 0 {
		s += "*" + strconv.Itoa(a.left)
	}
	if a.probability < 1 {
		s += "@" + strconv.FormatFloat(a.probability, 'g', -1, 64)
	}
	return s
}

// parse reads a spec and reports all faults at once.
func parse(spec string, declared map[string]Point) (armed []*arming, err error) {
	var faults []error
	for part := range strings.SplitSeq(spec, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		a, err := parsePart(part, declared)
		if err != nil {
			faults = append(faults, fmt.Errorf("failpoint %q: %w", part, err))
			continue
		}
		armed = append(armed, a)
	}
	return armed, errors.Join(faults...)
}

func parsePart(part string, declared map[string]Point) (*arming, error) {
	name, rest, ok := strings.Cut(part, "=")
	if !ok {
		return nil, errors.New("it must be name=action[*count][@probability]")
	}
	a := &arming{name: strings.TrimSpace(name), left: -1, probability: 1}
	point, known := declared[a.name]
	if !known {
		return nil, fmt.Errorf("no point is named %q", a.name)
	}
	rest, chance, chanced := strings.Cut(rest, "@")
	action, count, counted := strings.Cut(rest, "*")
	action, argument, argued := strings.Cut(strings.TrimSpace(action), ":")
	a.action = action
	if !slices.Contains(point.Actions(), action) {
		return nil, fmt.Errorf("the action must be one of %s", strings.Join(point.Actions(), ", "))
	}
	var err error
	if argued != (action == "delay") {
		return nil, errors.New("delay, and only delay, has a duration: delay:250ms")
	}
	if argued {
		if a.delay, err = time.ParseDuration(argument); err != nil || a.delay <= 0 {
			return nil, fmt.Errorf("%q is no duration above zero", argument)
		}
	}
	if counted {
		if a.left, err = strconv.Atoi(strings.TrimSpace(count)); err != nil || a.left < 1 {
			return nil, fmt.Errorf("the count %q is no number above zero", count)
		}
	}
	if chanced {
		a.probability, err = strconv.ParseFloat(strings.TrimSpace(chance), 64)
		if err != nil || !(a.probability > 0 && a.probability <= 1) {
			return nil, fmt.Errorf("the probability %q is no number above 0 and at most 1", chance)
		}
	}
	return a, nil
}
