package providertest

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

var knownReasons = map[provider.Reason]bool{
	provider.ReasonMissing: true, provider.ReasonMalformed: true, provider.ReasonMismatch: true,
	provider.ReasonToken: true, provider.ReasonTooOld: true, provider.ReasonTooNew: true,
	provider.ReasonNoClient: true, provider.ReasonUnavailable: true,
}

// verify calls Verify, which must neither panic nor touch the request.
func verify(t *testing.T, p provider.Provider, r provider.Request) (string, provider.Reason) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("Verify panicked with %v", v)
		}
	}()
	before := bytes.Clone(r.Body)
	label, reason := p.Verify(r)
	if !bytes.Equal(before, r.Body) {
		t.Error("Verify changed the body")
	}
	return label, reason
}

func mustRefuse(t *testing.T, p provider.Provider, r provider.Request) provider.Reason {
	t.Helper()
	label, reason := verify(t, p, r)
	switch {
	case reason == provider.ReasonNone:
		t.Fatalf("accepted, with secret %q", label)
	case label != "":
		t.Errorf("refused, but says that secret %q matched", label)
	case !knownReasons[reason]:
		t.Errorf("reason %q is not of the fixed set", reason)
	}
	return reason
}

func mustAccept(t *testing.T, p provider.Provider, r provider.Request, wantLabel string) {
	t.Helper()
	if label, reason := verify(t, p, r); reason != provider.ReasonNone || label != wantLabel {
		t.Fatalf("Verify says secret %q, reason %q; want secret %q accepted", label, reason, wantLabel)
	}
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

func (s Spec) credentials(t *testing.T) {
	p := s.build(t)
	good := s.sign(s.Body)
	value := s.credential(good)
	if value == "" {
		t.Fatal("Spec.Sign sets no credentials where Spec says that they travel")
	}
	for i, secret := range s.Source.WebhookSecrets {
		label := strconv.Itoa(i + 1)
		t.Run("secret "+label+" is accepted and named", func(t *testing.T) {
			mustAccept(t, p, s.Sign(secret.Reveal(), s.Body, s.Now), label)
		})
		t.Run("secret "+label+" with one byte changed is refused", func(t *testing.T) {
			b := []byte(secret.Reveal())
			for j := range b {
				c := bytes.Clone(b)
				c[j] ^= 1
				mustRefuse(t, p, s.Sign(string(c), s.Body, s.Now))
			}
			mustRefuse(t, p, s.Sign(string(b)+"x", s.Body, s.Now))
			mustRefuse(t, p, s.Sign(string(b[:len(b)-1]), s.Body, s.Now))
		})
	}
	t.Run("an empty secret is refused", func(t *testing.T) {
		mustRefuse(t, p, s.Sign("", s.Body, s.Now))
	})
	t.Run("missing credentials are called missing", func(t *testing.T) {
		if reason := mustRefuse(t, p, s.with(good)); reason != provider.ReasonMissing {
			t.Errorf("reason %q", reason)
		}
	})
	for name, values := range map[string][]string{
		"empty":                    {""},
		"sent twice":               {value, value},
		"right and wrong":          {"x", value},
		"wrong and right":          {value, "x"},
		"doubled with a comma":     {value + "," + value},
		"with a trailing space":    {value + " "},
		"with a leading space":     {" " + value},
		"with a trailing newline":  {value + "\n"},
		"with a trailing NUL":      {value + "\x00"},
		"non-ASCII (CASES A9)":     {"v1=é©"},
		"bytes that are not UTF-8": {"\xff\xfe" + value},
		"64 KB (CASES A9)":         {strings.Repeat("a", 64<<10)},
		"64 KB of items":           {strings.Repeat("v1=00,", 11<<10)},
		"64 KB after the right":    {value + strings.Repeat("=", 64<<10)},
		"separators only":          {",,,===;;;:::"},
		"a JSON value":             {`{"a":1}`},
		"null":                     {"null"},
		"a star":                   {"*"},
	} {
		t.Run("credentials "+name+" are refused", func(t *testing.T) {
			mustRefuse(t, p, s.with(good, values...))
		})
	}
	t.Run("credentials written twice without a separator", func(t *testing.T) {
		r := s.with(good, value+value)
		if !s.BodySigned {
			mustRefuse(t, p, r)
			return
		}
		// A list of digests may still hold one that is right and whole; then
		// the sender knew the secret.
		if label, reason := verify(t, p, r); reason == provider.ReasonNone && label != "1" {
			t.Errorf("accepted with secret %q", label)
		}
	})
	t.Run("credentials with any byte changed are refused", func(t *testing.T) {
		for i := range len(value) {
			b := []byte(value)
			b[i] ^= 1
			mustRefuse(t, p, s.with(good, string(b)))
		}
	})
	t.Run("credentials cut short anywhere are refused", func(t *testing.T) {
		for i := range len(value) {
			mustRefuse(t, p, s.with(good, value[:i]))
			if i > 0 {
				mustRefuse(t, p, s.with(good, value[i:]))
			}
		}
	})
	if s.CaseMatters {
		t.Run("credentials in other letter case are refused", func(t *testing.T) {
			mustRefuse(t, p, s.with(good, swapCase(value)))
		})
	}
	for _, c := range s.Refused {
		t.Run("refused: "+c.Name, func(t *testing.T) {
			if reason := mustRefuse(t, p, c.Request); reason != c.Reason {
				t.Errorf("reason %q, want %q", reason, c.Reason)
			}
		})
	}
	for _, c := range s.Accepted {
		t.Run("accepted: "+c.Name, func(t *testing.T) { mustAccept(t, p, c.Request, c.Label) })
	}
	t.Run("many requests at once do not disturb each other", func(t *testing.T) {
		var wg sync.WaitGroup
		for i, secret := range s.Source.WebhookSecrets {
			r := s.Sign(secret.Reveal(), s.Body, s.Now)
			bad := s.with(r, value[:len(value)-1])
			for range 4 {
				wg.Go(func() {
					for range 50 {
						if label, reason := p.Verify(r); reason != "" || label != strconv.Itoa(i+1) {
							t.Errorf("secret %d: label %q, reason %q", i+1, label, reason)
							return
						}
						if _, reason := p.Verify(bad); reason == "" {
							t.Error("a damaged credential was accepted")
							return
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

// openSecrets tries configurations that would let anybody in (CASES A23).
func (s Spec) openSecrets(t *testing.T) {
	good := s.Source.WebhookSecrets[0]
	for name, secrets := range map[string][]provider.Secret{
		"no secret":                         nil,
		"an empty secret":                   {""},
		"an empty secret beside a good one": {good, ""},
		"a secret of spaces":                {"          "},
		"a secret with an outer space":      {good + " "},
	} {
		t.Run(name+" is refused at the start", func(t *testing.T) {
			src := s.Source
			src.WebhookSecrets = secrets
			if _, err := s.Factory(src); err == nil {
				t.Error("the factory accepts it")
			} else if strings.Contains(err.Error(), good.Reveal()) {
				t.Error("the error shows a secret")
			}
		})
	}
}

// signedBodies changes what the credentials cover.
func (s Spec) signedBodies(t *testing.T) {
	p := s.build(t)
	good := s.sign(s.Body)
	if !s.BodySigned {
		t.Run("a token is accepted beside any body", func(t *testing.T) {
			mustAccept(t, p, good, "1")
			mustAccept(t, p, s.sign([]byte("\xff not even text")), "1")
		})
		return
	}
	if p.Traits().SignedHeaders == nil {
		t.Error("a signing gateway keeps no headers: a stored event could not be verified again; list the header of the signature in Traits().SignedHeaders")
	}
	refuse := func(name string, body []byte) {
		t.Run(name+" is refused", func(t *testing.T) {
			r := good
			r.Body = body
			if reason := mustRefuse(t, p, r); reason != provider.ReasonMismatch {
				t.Errorf("reason %q, want %q", reason, provider.ReasonMismatch)
			}
		})
	}
	refuse("a body with one more space", append(bytes.Clone(s.Body), ' '))
	refuse("a body with one more newline", append(bytes.Clone(s.Body), '\n'))
	refuse("a body with a byte-order mark", append([]byte("\xef\xbb\xbf"), s.Body...))
	refuse("a body without its last byte", s.Body[:len(s.Body)-1])
	refuse("an empty body", nil)
	t.Run("a body with any byte changed is refused", func(t *testing.T) {
		step := max(1, len(s.Body)/256)
		for i := 0; i < len(s.Body); i += step {
			r := good
			r.Body = bytes.Clone(s.Body)
			r.Body[i] ^= 0x20
			mustRefuse(t, p, r)
		}
	})
}
