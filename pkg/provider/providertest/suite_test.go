package providertest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// toy is a small correct gateway with a shared token. Each flaw breaks one
// thing that a real gateway's author could get wrong.
type toy struct {
	src  provider.Source
	flaw string
}

type toyBody struct {
	ID      provider.Text   `json:"id"`
	Type    provider.Text   `json:"type"`
	Payment provider.Text   `json:"payment"`
	Amount  provider.Number `json:"amount"`
	Name    provider.Text   `json:"name"`
}

func newToy(flaw string) provider.Factory {
	return func(src provider.Source) (provider.Provider, error) {
		if err := src.CheckSecrets(8); err != nil && flaw != "open to all" {
			return nil, err
		}
		return &toy{src, flaw}, nil
	}
}

func (g *toy) Verify(r provider.Request) (string, provider.Reason) {
	values := r.Header.Values("X-Token")
	if len(values) == 0 || values[0] == "" {
		return "", provider.ReasonMissing
	}
	got := values[0]
	if g.flaw == "trims" {
		got = strings.TrimSpace(got)
	}
	if len(values) != 1 && g.flaw != "first of two" {
		return "", provider.ReasonMalformed
	}
	found := ""
	for i, secret := range g.src.WebhookSecrets {
		want := secret.Reveal()
		equal := subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
		switch g.flaw {
		case "prefix":
			equal = strings.HasPrefix(got, want)
		case "letter case":
			equal = strings.EqualFold(got, want)
		case "first secret only":
			equal = equal && i == 0
		}
		if equal {
			found = strconv.Itoa(i + 1)
		}
	}
	if found == "" {
		return "", provider.ReasonToken
	}
	return found, provider.ReasonNone
}

func (g *toy) Parse(r provider.Request) []provider.Message {
	var b toyBody
	m := provider.Message{Body: r.Body, Disposition: provider.Process}
	sum := sha256.Sum256(r.Body)
	err := provider.Decode(r.Body, &b)
	switch {
	case g.flaw == "panics" && b.Amount == "" && b.ID != "":
		panic("no amount")
	case g.flaw == "loses" && err != nil:
		return nil
	case err != nil || b.ID == "" || !b.ID.Clean() || b.Payment == "" || !b.Payment.Clean() || !b.Type.Clean():
		m.DedupeKey, m.Disposition, m.Reason = event.Key("body", fmt.Sprintf("%x", sum)), provider.Quarantine, provider.ReasonUnreadable
		if g.flaw == "one key" {
			m.DedupeKey = "unreadable"
		}
		if g.flaw == "quotes" {
			m.Reason = "bad event of " + strings.ToValidUTF8(string(b.ID), "")
		}
	default:
		m.ProviderEventID, m.Type, m.PaymentRef = string(b.ID), string(b.Type), string(b.Payment)
		m.DedupeKey = event.Key("event", string(b.ID))
		if g.flaw == "hash" {
			m.DedupeKey = event.Key("body", fmt.Sprintf("%x", sum))
		}
	}
	if g.flaw == "rewrites" {
		m.Body = []byte(strings.ReplaceAll(string(r.Body), ", ", ","))
	}
	return []provider.Message{m}
}

func (g *toy) Facts(e *event.Event) ([]payment.Claim, error) {
	var b toyBody
	if err := provider.Decode(e.Body, &b); err != nil {
		return nil, err
	}
	minor, err := money.ParseDecimal(string(b.Amount), "BRL")
	if g.flaw == "float" {
		f, _ := strconv.ParseFloat(string(b.Amount), 64)
		minor, err = int64(f*100), nil
	}
	if g.flaw == "absolute" && minor < 0 {
		minor = -minor
	}
	if err != nil || minor <= 0 || b.Payment == "" || !b.Payment.Clean() {
		return nil, errors.New("amount or payment is not usable")
	}
	return []payment.Claim{{
		GatewayID: string(b.Payment), Currency: "BRL", Captured: payment.Of(minor), Reason: e.Type,
		Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}},
	}}, nil
}

func (g *toy) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	var b toyBody
	call := provider.Call{Base: g.src.APIBase, Segments: []string{"p", ref}}
	if g.flaw == "leaves its place" {
		call.Segments = append([]string{"p"}, strings.Split(ref, "/")...)
	}
	if err := provider.GetJSON(ctx, client, call, &b); err != nil {
		if g.flaw == "shows the reference" {
			return payment.Claim{}, fmt.Errorf("look up %s: %w", ref, err)
		}
		return payment.Claim{}, err
	}
	if string(b.Payment) != ref && g.flaw != "does not compare" {
		return payment.Claim{}, provider.ErrMismatch
	}
	claims, err := g.Facts(&event.Event{Body: fmt.Appendf(nil, `{"payment":%q,"amount":%q}`, b.Payment, b.Amount)})
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	claims[0].GatewayID, claims[0].Reason = ref, "lookup"
	return claims[0], nil
}

func (g *toy) Traits() provider.Traits {
	return provider.Traits{CanLookup: true, Success: provider.Answer{Status: 200}, Unauthorized: provider.Answer{Status: 401}, LookupRate: 1, LookupBurst: 1}
}

func toySpec(flaw string) Spec {
	body := func(id, amount string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"type":"paid","payment":"pay_0001","amount":%s,"name":"Ana"}`, id, amount)
	}
	answer := func(amount string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(body("e_1", amount))
		}
	}
	return Spec{
		Factory: newToy(flaw),
		Source: provider.Source{
			Provider: "toy", Account: provider.DefaultAccount, Production: true, APIKey: "toy-key-0123456",
			WebhookSecrets: []provider.Secret{"Token-One-aaaa", "Other-Two-bbbb"},
		},
		Now: time.Unix(1767225600, 0), CredentialHeader: "X-Token", CaseMatters: true,
		Sign: func(secret string, b []byte, now time.Time) provider.Request {
			return provider.Request{Header: http.Header{"X-Token": {secret}}, Body: b, Now: now}
		},
		Body: body("e_1", "12.50"),
		Keys: []KeyPair{
			{Name: "same id", A: body("e_1", "1"), B: body("e_1", "2"), Same: true},
			{Name: "other id", A: body("e_1", "1"), B: body("e_2", "1")},
		},
		Amounts: func(cents int64) [][]byte {
			return [][]byte{body("e_1", fmt.Sprintf("%d.%02d", cents/100, cents%100)), body("e_1", fmt.Sprintf(`"%d.%02d"`, cents/100, cents%100))}
		},
		OutOfRange: [][]byte{body("e_1", "12345678901234567890"), body("e_1", "0.001"), body("e_1", "-1")},
		Lookups:    []Lookup{{Name: "paid", Ref: "pay_0001", Answer: answer("12.50"), Status: payment.StatusPaid}},
		LookupRef:  "pay_0001", LookupAnswer: answer("12.50"),
		LookupAmounts: func(cents int64) []http.HandlerFunc {
			return []http.HandlerFunc{answer(fmt.Sprintf("%d.%02d", cents/100, cents%100))}
		},
	}
}

// flawVariable makes the toy of this process a broken one.
const flawVariable = "UMAVEZ_TOY_FLAW"

func TestACorrectGatewayPassesTheSuite(t *testing.T) {
	t.Parallel()
	Run(t, toySpec(os.Getenv(flawVariable)))
}

// A suite that lets everything pass would be worse than none: each flaw must
// make it fail, in the part that is there for it.
func TestTheSuiteFindsEachFlaw(t *testing.T) {
	t.Parallel()
	if os.Getenv(flawVariable) != "" {
		t.Fatal("this test starts the broken ones itself")
	}
	for flaw, part := range map[string]string{
		"open to all":         "secrets_that_would_accept_everybody",
		"trims":               "credentials_with_a_trailing_space",
		"first of two":        "credentials_sent_twice",
		"prefix":              "credentials_doubled_with_a_comma",
		"letter case":         "credentials_in_other_letter_case",
		"first secret only":   "secret_2_is_accepted",
		"panics":              "damaged_values",
		"loses":               "shapes",
		"one key":             "shapes",
		"quotes":              "damaged_values",
		"hash":                "dedupe_keys",
		"rewrites":            "foreign_bytes",
		"float":               "amounts",
		"absolute":            "amounts",
		"leaves its place":    "the_reference_cannot_leave_its_place",
		"does not compare":    "another_id_is_a_mismatch",
		"shows the reference": "failures",
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestACorrectGatewayPassesTheSuite$")
			cmd.Env = append(os.Environ(), flawVariable+"="+flaw)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passes")
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "--- FAIL") && strings.Contains(line, part) {
					return
				}
			}
			t.Errorf("fails, but not in %q:\n%.3000s", part, out)
		})
	}
}
