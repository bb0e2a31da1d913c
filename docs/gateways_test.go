package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
)

const gatewaysPage = "gateways.md"

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

func anchor(title string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(title), ".", ""), " ", "-")
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
