package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
)

const (
	gatewaysPage           = "gateways.md"
	portugueseGatewaysPage = "gateways.pt-BR.md"
)

// described is a gateway as the page shows it.
type described struct {
	name   string
	about  provider.About
	traits provider.Traits
}

func describedGateways(t *testing.T) []described {
	t.Helper()
	settings := withCertificate(t)
	set, err := registry.Load(func(name string) (string, bool) { v, ok := settings[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	var all []described
	for _, e := range set.Entries() {
		d, ok := provider.As[provider.Describer](e.Provider)
		if !ok {
			t.Fatalf("%s does not describe itself", e.Source.Name())
		}
		if slices.ContainsFunc(all, func(g described) bool { return g.name == e.Source.Provider }) {
			continue // a further account, configured to have all settings read
		}
		all = append(all, described{e.Source.Provider, d.About(), e.Provider.Traits()})
	}
	slices.SortFunc(all, func(a, b described) int { return strings.Compare(a.about.Title, b.about.Title) })
	return all
}

func summary(all []described) string {
	var b strings.Builder
	b.WriteString("| gateway | in `SOURCES` | credentials | money moves by | one event is | one payment is | success answer |\n|---|---|---|---|---|---|---|\n")
	for _, g := range all {
		moves := "the body or a lookup, as `..._LOOKUP` says"
		if !g.traits.BodyAuthenticated {
			moves = "lookups only: the body is not authenticated"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | `%s` | %s | %s | %s | %s | %d |\n", g.about.Title, anchor(g.about.Title), g.name,
			g.about.Credentials, moves, g.about.DedupeKey, g.about.Payment, g.traits.Success.Status)
	}
	return b.String()
}

// anchor is the name that GitHub gives to a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func (g described) block() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("- Lookup: %s. By default %s a second, %d at once.", g.about.Lookup, strconv.FormatFloat(g.traits.LookupRate, 'g', -1, 64), g.traits.LookupBurst)
	line("- Wrong credentials are answered %d.", g.traits.Unauthorized.Status)
	if len(g.traits.SignedHeaders) > 0 {
		line("- Kept beside the body: `%s`.", strings.Join(g.traits.SignedHeaders, "`, `"))
	}
	line("- Sandbox: %s", g.about.Sandbox)
	line("\n**Confirmed**\n")
	for _, text := range g.about.Confirmed {
		line("- %s", text)
	}
	line("\n**Not established**\n")
	for _, text := range g.about.Unknown {
		line("- %s", text)
	}
	return b.String()
}

var generated = regexp.MustCompile(`(?s)<!-- generated: ([a-z0-9]+) -->\n(.*?)<!-- end -->`)

func TestGatewaysPageIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(gatewaysPage)
	if err != nil {
		t.Fatal(err)
	}
	all := describedGateways(t)
	blocks := map[string]string{"summary": summary(all)}
	for _, g := range all {
		for what, text := range map[string]string{
			"Title": g.about.Title, "Credentials": g.about.Credentials, "DedupeKey": g.about.DedupeKey,
			"Payment": g.about.Payment, "Lookup": g.about.Lookup, "Sandbox": g.about.Sandbox,
		} {
			if text == "" {
				t.Errorf("%s: About has no %s", g.name, what)
			}
		}
		if len(g.about.Confirmed) == 0 || len(g.about.Unknown) == 0 {
			t.Errorf("%s: About says nothing of what is confirmed, or of what is not", g.name)
		}
		blocks[g.name] = g.block()
	}
	seen := map[string]bool{}
	fresh := generated.ReplaceAllStringFunc(string(page), func(old string) string {
		name := generated.FindStringSubmatch(old)[1]
		if seen[name] || blocks[name] == "" {
			t.Errorf("the page has a block %q twice, or the code has none", name)
		}
		seen[name] = true
		return "<!-- generated: " + name + " -->\n" + blocks[name] + "<!-- end -->"
	})
	for name := range blocks {
		if !seen[name] {
			t.Errorf("the page has no block %q", name)
		}
	}
	if fresh == string(page) {
		return
	}
	if !*update {
		t.Fatal("docs/gateways.md is not what the code says; run: go test ./docs -run Gateways -update")
	}
	if err := os.WriteFile(gatewaysPage, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}

// inPortuguese are the defaults that are words instead of values.
var inPortuguese = map[string]string{
	"that of the order's country": "a do país da order",
	"that of the environment":     "o do ambiente",
	"the same file":               "o mesmo arquivo",
}

func TestThePortuguesePageExplainsEverySettingOfEachGatewayAndNoOther(t *testing.T) {
	t.Parallel()
	rows, english, sources := tableOf(t, portugueseGatewaysPage), tableOf(t, gatewaysPage), sourceSettings(t)
	for name := range sources {
		if _, ok := rows[name]; !ok && !strings.HasPrefix(name, "<SOURCE>_") {
			t.Errorf("%s does not explain %s", portugueseGatewaysPage, name)
		}
	}
	for name, value := range rows {
		want := english[name]
		if words, ok := inPortuguese[want]; ok {
			want = words
		}
		switch {
		case !sources[name]:
			t.Errorf("%s explains %s, which nothing reads", portugueseGatewaysPage, name)
		case value != want:
			t.Errorf("%s says that %s is %q unless set; %s says %q", portugueseGatewaysPage, name, value, gatewaysPage, want)
		}
	}
}

// sections gives the titles of a page's sections in their order, and their
// texts.
func sections(t *testing.T, file string) ([]string, map[string]string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	texts := map[string]string{}
	for _, part := range strings.Split("\n"+string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		titles, texts[title] = append(titles, title), text
	}
	return titles, texts
}

var (
	step        = regexp.MustCompile(`(?m)^[0-9]+\. `)
	fence       = regexp.MustCompile("(?s)\n```.*?\n```\n")
	span        = regexp.MustCompile("`([^`]+)`")
	placeholder = regexp.MustCompile(`<[^<>]+>`)
)

// spans are the words in code type of a text, without what stands for the
// reader's own.
func spans(text string) map[string]bool {
	flat := strings.Join(strings.Fields(fence.ReplaceAllString(text, "\n")), " ")
	found := map[string]bool{}
	for _, m := range span.FindAllStringSubmatch(flat, -1) {
		word := placeholder.ReplaceAllString(m[1], "<>")
		found[strings.Replace(word, "usuario:senha", "user:password", 1)] = true
	}
	return found
}

// facts counts the list below a bold line.
func facts(section, title string) int {
	_, list, _ := strings.Cut(section, "\n**"+title+"**\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	return strings.Count("\n"+list, "\n- ")
}

// lineOf is the line of a text that begins so.
func lineOf(text, begin string) string {
	_, line, _ := strings.Cut("\n"+text, "\n"+begin)
	line, _, _ = strings.Cut(line, "\n")
	return begin + line
}

// handWritten is what the Portuguese section of a gateway says in place of
// what is made from its traits.
func (g described) handWritten() []string {
	rate := strings.Replace(strconv.FormatFloat(g.traits.LookupRate, 'g', -1, 64), ".", ",", 1)
	says := []string{
		fmt.Sprintf("Por padrão, %s por segundo, %d de uma vez.", rate, g.traits.LookupBurst),
		fmt.Sprintf("- Credenciais erradas recebem %d.", g.traits.Unauthorized.Status),
		"- Sandbox: ",
	}
	if kept := g.traits.SignedHeaders; len(kept) > 0 {
		says = append(says, " ao lado do corpo: `"+strings.Join(kept, "`, `")+"`.")
	}
	return says
}

// The Portuguese page says by hand what the English one takes from the code:
// its numbers are those of the code, and it names what the English page names.
func TestThePortuguesePageSaysOfEachGatewayWhatTheEnglishOneSays(t *testing.T) {
	t.Parallel()
	titles, texts := sections(t, portugueseGatewaysPage)
	englishTitles, english := sections(t, gatewaysPage)
	if !slices.Equal(titles, englishTitles) {
		t.Errorf("%s has the sections %q, %s %q", portugueseGatewaysPage, titles, gatewaysPage, englishTitles)
	}
	page, err := os.ReadFile(portugueseGatewaysPage)
	if err != nil {
		t.Fatal(err)
	}
	all := describedGateways(t)
	for _, g := range all {
		title := g.about.Title
		fault := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s, %s: %s", portugueseGatewaysPage, title, fmt.Sprintf(format, args...))
		}
		text, ok := texts[title]
		if !ok {
			fault("no section")
			continue
		}
		flat := strings.Join(strings.Fields(text), " ")
		for _, says := range g.handWritten() {
			if !strings.Contains(flat, says) {
				fault("does not say %q", says)
			}
		}

		moves := " | corpo ou consulta, conforme `..._LOOKUP` | "
		if !g.traits.BodyAuthenticated {
			moves = " | só consulta: o corpo não é autenticado | "
		}
		begin := fmt.Sprintf("| [%s](#%s) | `%s` | ", title, anchor(title), g.name)
		end := fmt.Sprintf(" | %d |", g.traits.Success.Status)
		line, englishLine := lineOf(string(page), begin), lineOf(summary(all), begin)
		if !strings.Contains(line, moves) || !strings.HasSuffix(line, end) {
			fault("its line of the first table is not %q ... %q ... %q", begin, moves, end)
		}

		if got, want := len(step.FindAllString(text, -1)), len(step.FindAllString(english[title], -1)); got != want {
			fault("%d steps, %s has %d", got, gatewaysPage, want)
		}
		if got, want := facts(text, "Confirmado"), len(g.about.Confirmed); got != want {
			fault("%d facts are confirmed, in the code %d", got, want)
		}
		if got, want := facts(text, "Não apurado"), len(g.about.Unknown); got != want {
			fault("%d facts are not established, in the code %d", got, want)
		}

		named, known := spans(text+"\n"+line), spans(english[title]+"\n"+englishLine)
		for _, word := range slices.Sorted(maps.Keys(known)) {
			if !named[word] {
				fault("does not name `%s`, as %s does", word, gatewaysPage)
			}
		}
		for _, word := range slices.Sorted(maps.Keys(named)) {
			if !known[word] {
				fault("names `%s`, which %s does not", word, gatewaysPage)
			}
		}
	}
}

var (
	linkToHeading = regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	heading       = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

func TestLinksOfThePagesOfGatewaysLeadToHeadings(t *testing.T) {
	t.Parallel()
	for _, file := range []string{gatewaysPage, portugueseGatewaysPage} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		links := linkToHeading.FindAllStringSubmatch(string(page), -1)
		if len(links) < 11 {
			t.Errorf("only %d links to headings found in %s", len(links), file)
		}
		for _, m := range links {
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Error(err)
				continue
			}
			if !slices.ContainsFunc(heading.FindAllStringSubmatch(string(text), -1), func(h []string) bool { return anchor(h[1]) == m[2] }) {
				t.Errorf("%s points to #%s of %s, which has no such heading", file, m[2], target)
			}
		}
	}
}

func TestThePortugueseReadmeLeadsToThePortuguesePageOfGateways(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.pt-BR.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "(docs/"+portugueseGatewaysPage+")") || strings.Contains(string(readme), "(docs/"+gatewaysPage) {
		t.Errorf("README.pt-BR.md does not lead to docs/%s, or leads to docs/%s", portugueseGatewaysPage, gatewaysPage)
	}
}
