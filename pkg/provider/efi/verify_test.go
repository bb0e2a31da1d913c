package efi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/registry"
)

type attempt struct {
	name        string
	path, query string
	client      bool // a verified certificate
	label       string
	reason      provider.Reason
}

func (a attempt) request() provider.Request {
	return provider.Request{Header: http.Header{}, Path: a.path, Query: a.query, ClientVerified: a.client, Body: []byte(paidBody), Now: now}
}

func try(t *testing.T, src provider.Source, attempts []attempt) {
	t.Helper()
	p := build(t, src)
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			if label, reason := p.Verify(a.request()); label != a.label || reason != a.reason {
				t.Errorf("secret %q, reason %q; want %q, %q", label, reason, a.label, a.reason)
			}
		})
	}
}

// The suffix is accepted behind the token only where the address was
// registered without the parameter that swallows it.
func TestASuffixGluedToTheToken(t *testing.T) {
	t.Parallel()
	glued := []attempt{
		{name: "pix", query: "hmac=" + token + "/pix", label: "1"},
		{name: "rec", query: "hmac=" + token + "/rec", label: "1"},
		{name: "cobr, encoded", query: "hmac=" + oldToken + "%2Fcobr", label: "2"},
		{name: "the probe has none", query: "hmac=" + token, label: "1"},
		{name: "of another word", query: "hmac=" + token + "/pax", reason: provider.ReasonToken},
		{name: "twice", query: "hmac=" + token + "/pix/pix", reason: provider.ReasonToken},
		{name: "without its slash", query: "hmac=" + token + "pix", reason: provider.ReasonToken},
		{name: "with a slash behind", query: "hmac=" + token + "/pix/", reason: provider.ReasonToken},
		{name: "in capitals", query: "hmac=" + token + "/PIX", reason: provider.ReasonToken},
		{name: "to a wrong token", query: "hmac=" + token[1:] + "/pix", reason: provider.ReasonToken},
		{name: "to nothing", query: "hmac=/pix", reason: provider.ReasonToken},
		{name: "to no token at all", query: "ignorar=/pix", reason: provider.ReasonMissing},
	}
	t.Run("of an address without &ignorar= is cut off", func(t *testing.T) { try(t, source("TOKEN_IN=query-without-ignorar"), glued) })
	t.Run("of an address with &ignorar= makes it another token", func(t *testing.T) {
		try(t, source("TOKEN_IN=query"), []attempt{
			{name: "pix", query: "hmac=" + token + "/pix", reason: provider.ReasonToken},
			{name: "pix, encoded", query: "hmac=" + token + "%2Fpix", reason: provider.ReasonToken},
			{name: "pix, with ignorar all the same", query: "hmac=" + token + "/pix&ignorar=/pix", reason: provider.ReasonToken},
			{name: "where it belongs", query: "hmac=" + token + "&ignorar=/pix", label: "1"},
		})
	})
}

func TestATokenInThePath(t *testing.T) {
	t.Parallel()
	try(t, source("TOKEN_IN=path"), []attempt{
		{name: "with the suffix", path: token + "/pix", label: "1"},
		{name: "the previous one", path: oldToken + "/pix", label: "2"},
		{name: "of Pix Automático", path: token + "/rec", label: "1"},
		{name: "of the probe", path: token, label: "1"},
		{name: "beside a query that says otherwise", path: token + "/pix", query: "hmac=x", label: "1"},
		{name: "missing", reason: provider.ReasonMissing},
		{name: "missing before the suffix", path: "pix", reason: provider.ReasonMissing},
		{name: "in the query instead", path: "pix", query: "hmac=" + token, reason: provider.ReasonMissing},
		{name: "before another word", path: token + "/pax", reason: provider.ReasonToken},
		{name: "behind another word", path: "x/" + token, reason: provider.ReasonToken},
		{name: "twice", path: token + "/" + token, reason: provider.ReasonToken},
		{name: "in other letter case", path: strings.ToUpper(token) + "/pix", reason: provider.ReasonToken},
		{name: "cut short", path: token[:len(token)-1] + "/pix", reason: provider.ReasonToken},
		{name: "of 64 KB", path: strings.Repeat("a", 64<<10), reason: provider.ReasonToken},
		{name: "of bytes that are no text", path: "\xff\x00/pix", reason: provider.ReasonToken},
	})
}

// In this mode Efí shows a certificate, and the registration fails unless a
// call without one is refused.
func TestAClientCertificateIsRequiredWithMTLS(t *testing.T) {
	t.Parallel()
	src := source("AUTH=mtls")
	t.Run("with a token in the address as well, both are", func(t *testing.T) {
		try(t, src, []attempt{
			{name: "both", query: "hmac=" + token + "&ignorar=/pix", client: true, label: "1"},
			{name: "the certificate alone", client: true, path: "pix", reason: provider.ReasonMissing},
			{name: "the token alone", query: "hmac=" + token + "&ignorar=/pix", reason: provider.ReasonNoClient},
			{name: "the certificate and a wrong token", query: "hmac=x&ignorar=/pix", client: true, reason: provider.ReasonToken},
			{name: "neither", reason: provider.ReasonNoClient},
		})
	})
	src.WebhookSecrets = nil
	t.Run("without tokens it suffices", func(t *testing.T) {
		try(t, src, []attempt{
			{name: "a callback", path: "pix", client: true, label: "client_certificate"},
			{name: "a callback whose suffix is swallowed", query: "ignorar=/pix", client: true, label: "client_certificate"},
			{name: "the probe", client: true, label: "client_certificate"},
			{name: "no certificate", path: "pix", reason: provider.ReasonNoClient},
			{name: "no certificate, and a token that nobody set", path: "pix", query: "hmac=", reason: provider.ReasonNoClient},
			{name: "an address that Efí does not make", path: "x/pix", client: true, reason: provider.ReasonMalformed},
			{name: "another suffix", path: "pax", client: true, reason: provider.ReasonMalformed},
		})
	})
	tr := build(t, src).Traits()
	if !tr.OtherCredentials || tr.BodyAuthenticated {
		t.Errorf("%+v", tr)
	}
	if build(t, source()).Traits().OtherCredentials {
		t.Error("without mTLS, a source without tokens would be taken for one with other credentials")
	}
}

// A header is what anybody can send; only the listener knows of certificates.
func TestNoHeaderReplacesTheCertificate(t *testing.T) {
	t.Parallel()
	src := source("AUTH=mtls")
	src.WebhookSecrets = nil
	p := build(t, src)
	r := provider.Request{Path: "pix", Body: []byte(paidBody), Header: http.Header{}}
	for _, name := range []string{"X-Client-Verify", "X-Ssl-Client-Verify", "Ssl-Client-Verify", "X-Forwarded-Client-Cert", "X-Skip-Mtls-Checking"} {
		for _, value := range []string{"SUCCESS", "true", "1", "Hash=0;Subject=\"CN=Efi\""} {
			r.Header.Set(name, value)
			if _, reason := p.Verify(r); reason != provider.ReasonNoClient {
				t.Errorf("%s: %s: reason %q", name, value, reason)
			}
		}
	}
}

// CASES A23: with mTLS the certificates stand in the place of the tokens;
// without it a source with no tokens does not load.
func TestCase_A23_EfiLoadsNoSourceThatWouldLetEverybodyIn(t *testing.T) {
	t.Parallel()
	load := func(settings map[string]string) error {
		all := map[string]string{"SOURCES": "efi", "EFI_API_BASE": "http://127.0.0.1:1", "EFI_API_KEY": apiKey, "EFI_CLIENT_ID": clientID}
		for k, v := range settings {
			all[k] = v
		}
		_, err := registry.LoadWith(func(name string) (string, bool) { v, ok := all[name]; return v, ok }, map[string]provider.Factory{"efi": efi.New})
		return err
	}
	for name, settings := range map[string]map[string]string{
		"no mode":                     {"EFI_WEBHOOK_SECRETS": token},
		"a mode of another name":      {"EFI_WEBHOOK_SECRETS": token, "EFI_AUTH": "none"},
		"no tokens without mTLS":      {"EFI_AUTH": "skip-mtls"},
		"an empty token without mTLS": {"EFI_AUTH": "skip-mtls", "EFI_WEBHOOK_SECRETS": token + ","},
		"an empty token with mTLS":    {"EFI_AUTH": "mtls", "EFI_WEBHOOK_SECRETS": token + ","},
		"a short token with mTLS":     {"EFI_AUTH": "mtls", "EFI_WEBHOOK_SECRETS": "short"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := load(settings); err == nil || strings.Contains(err.Error(), token) {
				t.Errorf("%v", err)
			}
		})
	}
	for name, settings := range map[string]map[string]string{
		"mTLS alone":         {"EFI_AUTH": "mtls"},
		"mTLS and a token":   {"EFI_AUTH": "mtls", "EFI_WEBHOOK_SECRETS": token},
		"a token, no mTLS":   {"EFI_AUTH": "skip-mtls", "EFI_WEBHOOK_SECRETS": token},
		"a token and a peer": {"EFI_AUTH": "skip-mtls", "EFI_WEBHOOK_SECRETS": token, "EFI_ALLOWED_IPS": "192.0.2.7"},
	} {
		t.Run(name+" loads", func(t *testing.T) {
			if err := load(settings); err != nil {
				t.Error(err)
			}
		})
	}
}
