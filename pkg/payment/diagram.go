package payment

import (
	"slices"
	"strings"
)

// statuses in the order of a payment's life, which is that of the documents.
var statuses = []Status{
	StatusPending, StatusAuthorized, StatusFailed, StatusExpired, StatusCanceled,
	StatusPaid, StatusPartiallyRefunded, StatusRefunded, StatusDisputed, StatusChargedBack,
}

// Diagram draws Moves as a Mermaid state diagram. Moves from a status to
// itself are left out, and the five statuses before capture are one box: any
// of them may follow any other.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    direction LR\n    state \"before capture\" as attempts {\n")
	for _, s := range attempts {
		b.WriteString("        " + string(s) + "\n")
	}
	b.WriteString("    }\n    [*] --> attempts\n")
	seen := map[string]bool{}
	for _, m := range Moves {
		from, to := box(m.From), box(m.To)
		if m.To == StatusPending { // the way back leads to this one only
			to = string(m.To)
		}
		if m.From == StatusNone && to != string(StatusPaid) || m.From == m.To ||
			slices.Contains(attempts, m.From) && slices.Contains(attempts, m.To) {
			continue
		}
		line := "    " + from + " --> " + to
		if books := shown(m.Books); books != "" {
			line += " : " + books
		}
		if !seen[line] {
			seen[line] = true
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func box(s Status) string {
	switch {
	case s == StatusNone:
		return "[*]"
	case slices.Contains(attempts, s):
		return "attempts"
	}
	return string(s)
}

func shown(kinds []Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// MovesTable lists Moves as a Markdown table, by the status they leave. Moves
// that differ only in where they lead share a row.
func MovesTable() string {
	var b strings.Builder
	b.WriteString("| from | to | why | may book |\n|---|---|---|---|\n")
	for _, from := range append([]Status{StatusNone}, statuses...) {
		var done []string
		for i, m := range Moves {
			if m.From != from {
				continue
			}
			row := m.Why + "|" + shown(m.Books)
			if slices.Contains(done, row) {
				continue
			}
			done = append(done, row)
			var to []string
			for _, o := range Moves[i:] {
				if o.From == from && o.Why == m.Why && slices.Equal(o.Books, m.Books) {
					to = append(to, code(o.To))
				}
			}
			b.WriteString("| " + code(from) + " | " + strings.Join(to, ", ") + " | " + m.Why + " | " + shown(m.Books) + " |\n")
		}
	}
	return b.String()
}

func code(s Status) string {
	if s == StatusNone {
		return "(new)"
	}
	return "`" + string(s) + "`"
}
