package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	source := r.Provider
	if r.Account != "" && r.Account != "default" {
		source += "/" + r.Account
	}
	line("gateway", "%s", source)
	if r.Verified {
		line("verified", "yes, by secret %s", r.Secret)
	} else {
		line("verified", "NO: %s", r.Reason)
	}
	for _, s := range r.Signed {
		said := "no secret matches"
		switch {
		case s.Secret != "" && s.Accepted:
			said = "matches under secret " + s.Secret
		case s.Secret != "":
			said = "matches under secret " + s.Secret + ", but is not a form that is accepted"
		}
		line("signed text", "%s: %s", s.Name, said)
		line("", "  %+q", s.Text)
	}
	line("lookup", "%s", r.Lookup)
	for i := range r.Events {
		if len(r.Events) > 1 {
			line("", "")
			line("event", "%d of %d", i+1, len(r.Events))
		}
		r.Events[i].print(line, !strings.HasPrefix(r.Lookup, "never"))
	}
	return t.Flush()
}

func (e *Event) print(line func(name, format string, args ...any), asks bool) {
	line("dedupe key", "%s", e.DedupeKey)
	optional := func(name, value string) {
		if value != "" {
			line(name, "%s", value)
		}
	}
	optional("event id", e.ID)
	optional("type", e.Type)
	optional("occurred at", e.OccurredAt)
	if e.Test {
		line("test", "yes")
	}
	optional("payment", e.Payment)
	disposition := e.Disposition
	if e.Reason != "" {
		disposition += ": " + e.Reason
	}
	line("stored as", "%s", disposition)
	optional("facts", e.Fault)
	if e.Fault == "" && e.Disposition == "process" && len(e.Claims) == 0 {
		line("facts", "none: it is informational")
	}
	for i := range e.Claims {
		e.Claims[i].print(line, asks)
	}
}

func (c *Claim) print(line func(name, format string, args ...any), asks bool) {
	said := []string{c.Payment}
	add := func(name string, v *int64) {
		if v != nil {
			said = append(said, fmt.Sprintf("%s %d %s", name, *v, c.Currency))
		}
	}
	add("expected", c.Expected)
	add("captured", c.Captured)
	if c.Reference != "" {
		said = append(said, "reference "+c.Reference)
	}
	if c.Beneficiary != "" {
		said = append(said, "of "+c.Beneficiary)
	}
	line("claim", "%s", strings.Join(said, ", "))
	for _, f := range c.Facts {
		text := strings.TrimSpace(f.Kind + " " + f.State)
		if f.Amount != nil {
			text += fmt.Sprintf(" %d", *f.Amount)
		}
		if f.ID != "" {
			text += " (" + f.ID + ")"
		}
		line("  fact", "%s", text)
	}
	e := &c.Effect
	from := e.From
	if from == "" {
		from = "unknown payment"
	}
	switch e.Outcome {
	case "parked":
		line("  effect", "%s: would wait, %s", from, e.Needs)
	case "applied":
		line("  effect", "%s -> %s", from, e.To)
	default:
		if len(c.Facts) == 0 && asks {
			line("  effect", "%s: nothing by itself; what the gateway answers decides", from)
			break
		}
		line("  effect", "%s: nothing, it is %s", from, e.Outcome)
	}
	for _, s := range e.Transitions {
		start := s.From
		if start == "" {
			start = "(new)"
		}
		line("  step", "%s -> %s", start, s.To)
		for _, b := range s.Books {
			line("    books", "%s %d under %s", b.Kind, b.Amount, b.Reference)
		}
	}
}
