package standardwebhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const prefix = "STANDARDWEBHOOKS_"

// fault builds a source that must be refused, and checks that the complaint
// names the setting and shows no value.
func fault(t *testing.T, what string, src provider.Source, named ...string) {
	t.Helper()
	_, err := New(src)
	if err == nil {
		t.Errorf("%s: accepted", what)
		return
	}
	for _, setting := range named {
		if !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: the complaint does not name %s: %v", what, setting, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "canary") || strings.Contains(text, apiKey) {
		t.Errorf("%s: the complaint shows a value: %v", what, err)
	}
}

func TestSettingsThatCannotBeMeantAreRefusedByName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 201)
	for setting, values := range map[string][]string{
		"TOLERANCE": {"0", "-1", "canary", "5m", "86401"}, "SVIX_HEADERS": {"canary"}, "PROFILE": {"canary"}, "DEDUPE": {"canary"},
		"DEDUPE_FIELDS": {"a..b", "a,,b"}, "TYPE_PATH": {"a..b", ".a", "a.", long}, "TIME_FORMAT": {"canary"}, "AMOUNT_UNIT": {"cents"},
		"CURRENCY": {"canary"}, "NET_MISSING": {"canary"}, "AMOUNT_PATH": {"a..b"}, "PAYMENT_ID_PATH": {"a..b", "x*y=a", "a=", "=b", "a=b,c", "*=a..b", "a=b,a=c"},
		"EVENTS": {"canary", "a=canary", "a=paid,", "=paid", "a=", "a=paid,a=none", "a*b=paid", "*a=paid", "a=paid,b=paid", "a=refund,b=refunded", "a=refund,b=partially_refunded",
			"a=refund,b*=refund", "a=disputed,b=disputed", "a=charged_back,b=charged_back", "a=refund_failed,b=refund_failed", "a=dispute_won,b=dispute_won"},
		"STATUS_MAP": {"canary", "A=canary", "A=paid,A=failed"}, "API_AUTH": {"Bearer {key}", "Authorization: Bearer canary", "A B: {key}", ": {key}", "X: {key}{key}", "X: a\x00{key}"},
		"LOOKUP_URL": {"/charges", "/{id}/{id}", "/x{id}", "/a?b={id}&c={id}", "/{id}?b={id}", "/../{id}", "//{id}", "/a?{id}=b", "/a?b=x{id}", "/a%2f/{id}", "/a#b/{id}",
			"https://canary.example/{id}", "/a?%zz&b={id}"},
		"LOOKUP_REFUNDS_URL": {"/refunds"}, "LOOKUP_STATUS_MAP": {"A=canary"}, "LOOKUP_REFUND_STATUS_MAP": {"A=canary", "A=paid"}, "LOOKUP_AMOUNT_UNIT": {"canary"},
		"KEY_MODE": {"canary"}, "MIN_KEY_BYTES": {"canary"},
	} {
		for _, v := range values {
			fault(t, setting+"="+v, mapped(map[string]string{setting: v}), prefix+setting)
		}
	}
}

func TestWhatAShapeCannotDoWithoutIsAskedForByName(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"TYPE_PATH", "EVENTS", "PAYMENT_ID_PATH", "AMOUNT_PATH", "AMOUNT_UNIT", "API_AUTH", "LOOKUP_URL", "LOOKUP_ID_PATH",
		"LOOKUP_STATUS_PATH", "LOOKUP_STATUS_MAP", "LOOKUP_AMOUNT_PATH", "LOOKUP_CURRENCY_PATH", "LOOKUP_REFUNDS_PATH", "LOOKUP_REFUND_ID_PATH",
		"LOOKUP_REFUND_AMOUNT_PATH", "LOOKUP_REFUND_STATUS_PATH", "LOOKUP_REFUND_STATUS_MAP", "REFUND_ID_PATH", "REFUND_AMOUNT_PATH", "STATUS_PATH", "STATUS_MAP", "DEDUPE_FIELDS"} {
		fault(t, "without "+setting, mapped(map[string]string{setting: ""}), prefix+setting)
	}
	fault(t, "without a currency", mapped(map[string]string{"CURRENCY_PATH": ""}), prefix+"CURRENCY")
	fault(t, "two currencies", mapped(map[string]string{"CURRENCY": "BRL"}), prefix+"CURRENCY", prefix+"CURRENCY_PATH")
	fault(t, "fields without their rule", mapped(map[string]string{"DEDUPE": "body"}), prefix+"DEDUPE_FIELDS", prefix+"DEDUPE")
	fault(t, "a refund that nothing tells from its repetition", mapped(map[string]string{"REFUND_ID_PATH": "", "REFUND_TOTAL_PATH": ""}), prefix+"REFUND_TOTAL_PATH")
	fault(t, "all of it at once", with(source(), map[string]string{"PROFILE": "custom"}), prefix+"TYPE_PATH", prefix+"EVENTS", prefix+"PAYMENT_ID_PATH",
		prefix+"AMOUNT_PATH", prefix+"AMOUNT_UNIT", prefix+"CURRENCY", prefix+"LOOKUP_URL", prefix+"LOOKUP_STATUS_MAP")
	never := mapped()
	never.Lookup = provider.LookupNever
	fault(t, "a type that is looked up, without lookups", never, prefix+"EVENTS", prefix+"LOOKUP=always")
	never = with(source(), map[string]string{"NET_MISSING": "lookup"})
	never.Lookup, never.APIKey, never.APIBase = provider.LookupNever, "", ""
	fault(t, "a net amount by lookup, without lookups", never, prefix+"NET_MISSING")
}

func TestTheProfileHasItsOwnShapeAndIsMixedWithNoOther(t *testing.T) {
	t.Parallel()
	fault(t, "a path beside the profile", with(source(), map[string]string{"PROFILE": "generic", "AMOUNT_PATH": "x"}), prefix+"PROFILE", prefix+"AMOUNT_PATH")
	fault(t, "one path and nothing else", with(source(), map[string]string{"AMOUNT_PATH": "x"}), prefix+"TYPE_PATH", prefix+"EVENTS")
	for _, settings := range []map[string]string{
		nil, {"PROFILE": "generic"}, {"DEDUPE": "body", "NET_MISSING": "gross", "LOOKUP_URL": "/v2/{id}", "API_AUTH": "X: {key}"}, {"DEDUPE": "fields", "DEDUPE_FIELDS": "type"},
	} {
		if p := build(t, with(source(), settings)); p.shape.typ.String() != "type" || p.api == nil {
			t.Errorf("%v: %+v", settings, p.shape.typ)
		}
	}
}

func TestHalfAnAccessToTheAPIIsRefused(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIBase = ""
	fault(t, "a key without an address", src, prefix+"API_BASE")
	src = source()
	src.APIKey = ""
	fault(t, "an address without a key", src, prefix+"API_KEY")
	src.APIBase = ""
	p := build(t, src)
	if p.Traits().CanLookup || !p.Traits().BodyAuthenticated {
		t.Errorf("%+v", p.Traits())
	}
	if _, err := p.Lookup(context.Background(), http.DefaultClient, "pay_0001"); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), prefix+"API_BASE") {
		t.Error(err)
	}
	src.Setting = func(name string) string { return map[string]string{"LOOKUP_URL": "/x/{id}"}[name] }
	fault(t, "an address of payments without an API", src, prefix+"API_BASE", prefix+"API_KEY")
}

// inFile moves settings about bodies into a file.
func inFile(src provider.Source, content string) provider.Source {
	before := src.Setting
	src.Setting = func(name string) string {
		if name == "MAPPING_FILE" {
			return "/etc/canary.json"
		}
		if before == nil {
			return ""
		}
		return before(name)
	}
	src.File = func(name string) ([]byte, error) {
		if name != "MAPPING_FILE" {
			return nil, errors.New("another file")
		}
		return []byte(content), nil
	}
	return src
}

func TestAMappingFileMeansWhatTheSettingsMean(t *testing.T) {
	t.Parallel()
	one := build(t, mapped())
	texts := map[string]any{}
	for name, v := range mapping() {
		texts[strings.ToLower(name)] = v
	}
	objects := maps.Clone(texts)
	for _, name := range []string{"events", "status_map", "payment_id_path", "lookup_status_map", "lookup_refund_status_map"} {
		table := map[string]string{}
		for entry := range strings.SplitSeq(texts[name].(string), ",") {
			word, meaning, _ := strings.Cut(strings.TrimSpace(entry), "=")
			table[word] = meaning
		}
		objects[name] = table
	}
	objects["dedupe_fields"] = []string{"event.name", "charge.code", "event.at"}
	bodies := []string{"mapped/settled", "mapped/given_back", "mapped/complaint", "mapped/changed_overdue", "mapped/twin", "mapped/look", "mapped/elsewhere"}
	for name, fields := range map[string]map[string]any{"texts": texts, "objects and lists": objects} {
		content, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		src := inFile(source(), string(content))
		other := build(t, src)
		for _, b := range bodies {
			r := sign(secretNow, testdata(t, b), clock)
			a, b := one.Parse(r)[0], other.Parse(r)[0]
			if d := cmp.Diff(a, b); d != "" {
				t.Errorf("%s: message\n%s", name, d)
			}
			ca, _ := one.Facts(providertest.EventOf(one, src, r, a))
			cb, _ := other.Facts(providertest.EventOf(other, src, r, b))
			if d := providertest.DiffClaims(ca, cb); d != "" {
				t.Errorf("%s: claims\n%s", name, d)
			}
		}
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: charge("SETTLED", "", "[]")}}
		if c, err := other.Lookup(context.Background(), client, "CH/12.a"); err != nil || c.Captured != payment.Of(25000) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	// The rest by the environment.
	rest := map[string]string{"LOOKUP_URL": "", "API_AUTH": ""}
	delete(texts, "lookup_url")
	delete(texts, "api_auth")
	content, _ := json.Marshal(texts)
	for name := range rest {
		rest[name] = mapping()[name]
	}
	if p := build(t, inFile(with(source(), rest), string(content))); p.api == nil {
		t.Error("a file and settings together do not suffice")
	}
}

func TestAMappingFileIsReadStrictly(t *testing.T) {
	t.Parallel()
	for what, content := range map[string]string{
		"not JSON": "canary", "a list": "[]", "null": "null", "cut short": `{"type_path":"type"`, "two names": `{"type_path":"canary","type_path":"b"}`,
		"an unknown field": `{"typ_path":"canary"}`, "a field in capitals": `{"TYPE_PATH":"canary"}`, "a secret": `{"webhook_secrets":"canary"}`, "a key": `{"api_key":"canary"}`,
		"a nested file": `{"mapping_file":"canary"}`, "an odd name": `{"canary\n":"x"}`, "a number": `{"type_path":1}`, "a null": `{"type_path":null}`,
		"a nested object": `{"events":{"a":{"canary":"b"}}}`, "a list of numbers": `{"dedupe_fields":[1]}`,
	} {
		fault(t, what, inFile(source(), content), prefix+"MAPPING_FILE")
	}
	for what, c := range map[string][2]string{
		"an object in place of a text":  {`{"type_path":{"a":"canary"}}`, "type_path in the file"},
		"a list in place of a table":    {`{"events":["canary"]}`, "events in the file"},
		"an object in place of a list":  {`{"dedupe_fields":{"a":"canary"},"dedupe":"fields"}`, "dedupe_fields in the file"},
		"an odd path":                   {`{"type_path":"canary..x"}`, "type_path in the file"},
		"a word of no meaning":          {`{"events":{"a":"canary"}}`, "events in the file"},
		"a word without a meaning":      {`{"events":{"canary":""}}`, "events in the file"},
		"two types for one fact":        {`{"events":{"canary":"paid","b":"paid"}}`, "events in the file"},
		"an address with another place": {`{"lookup_url":"/canary"}`, "lookup_url in the file"},
	} {
		fault(t, what, inFile(source(), c[0]), c[1], prefix+"MAPPING_FILE")
	}
	fault(t, "a setting twice", inFile(with(source(), map[string]string{"TYPE_PATH": "a"}), `{"type_path":"b"}`), prefix+"TYPE_PATH", prefix+"MAPPING_FILE")
	missing := inFile(source(), "")
	missing.File = func(string) ([]byte, error) {
		return nil, errors.New(prefix + "MAPPING_FILE names a file that cannot be read")
	}
	fault(t, "a file that is not there", missing, prefix+"MAPPING_FILE")
	missing.File = nil
	fault(t, "a program that reads no files", missing, prefix+"MAPPING_FILE")
}

// The longest prefix decides, and an exact type before any prefix.
func TestTheEventTableTakesTheNearestEntry(t *testing.T) {
	t.Parallel()
	p := build(t, mapped(map[string]string{"EVENTS": "*=none,charge.*=pending,charge.settled=paid,charge.settled.*=failed,charge.set*=expired"}))
	for typ, want := range map[string]meaning{
		"x": meansNone, "charge": meansNone, "charge.": meansPending, "charge.x": meansPending, "charge.settled": meansPaid,
		"charge.settled.late": meansFailed, "charge.setting": meansExpired, "CHARGE.SETTLED": meansNone,
	} {
		if got, ok := p.shape.events.of(typ); !ok || got != want {
			t.Errorf("%s means %q, want %q", typ, got, want)
		}
	}
}

func TestAnUnknownStatusIsNamedOnlyWhenItIsAWord(t *testing.T) {
	t.Parallel()
	p := build(t, mapped())
	for status, named := range map[string]bool{"ODD_WORD": true, "odd": true, "Maria": false, "123.456.789-00": false, "two words": false, strings.Repeat("A", 41): false} {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: charge(status, "", "[]")}}
		_, err := p.Lookup(context.Background(), client, "CH/12.a")
		if !errors.Is(err, provider.ErrUnreadable) || !strings.Contains(err.Error(), prefix+"LOOKUP_STATUS_MAP") || named != strings.Contains(err.Error(), status) {
			t.Errorf("%q: %v", status, err)
		}
	}
}

func TestNoPrintedFormOfAProviderShowsASecret(t *testing.T) {
	t.Parallel()
	src := mapped()
	src.APIKey = "canary-key"
	src.WebhookSecrets = []provider.Secret{provider.Secret(secretNow)}
	p := build(t, src)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text := fmt.Sprintf(format, p)
		if strings.Contains(text, "canary") || strings.Contains(text, secretNow[10:]) || !strings.Contains(text, "standardwebhooks source standardwebhooks") {
			t.Errorf("%s: %s", format, text)
		}
	}
}
