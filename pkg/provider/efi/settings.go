package efi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

// The settings that only Efí has, after EFI_ or EFI_<ACCOUNT>_:
//
//	AUTH                  mtls or skip-mtls, as the webhook was registered. Required.
//	TOKEN_IN              where in the registered address the shared token is:
//	                      query (?hmac=<token>&ignorar=), query-without-ignorar
//	                      (?hmac=<token>), or path (/<token> at the end).
//	                      Default query.
//	CLIENT_ID             of the API application; API_KEY is its client secret.
//	CERTIFICATE_FILE      the API's client certificate, PEM.
//	CERTIFICATE_KEY_FILE  its key, PEM; default the same file.
//	TARIFA                fee or ignore: what gnExtras.tarifa is. Default fee.
const (
	settingAuth     = "AUTH"
	settingTokenIn  = "TOKEN_IN"
	settingClientID = "CLIENT_ID"
	settingCert     = "CERTIFICATE_FILE"
	settingCertKey  = "CERTIFICATE_KEY_FILE"
	settingTarifa   = "TARIFA"
)

// The values of AUTH.
const (
	authMTLS     = "mtls"
	authSkipMTLS = "skip-mtls"
)

// tokenPlace is where the address carries the shared token.
type tokenPlace string

// The places.
const (
	inQuery               tokenPlace = "query"
	inQueryWithoutIgnorar tokenPlace = "query-without-ignorar"
	inPath                tokenPlace = "path"
)

// minTokenLen is our own limit: the token stands in an address, and all that
// it protects from is guessing.
const minTokenLen = 32

// api is what asking the API takes.
type api struct {
	base, clientID string
	certificate    *tls.Certificate // nil where the address is plain http, of this machine
}

// reader reads settings and collects what is wrong with them.
type reader struct {
	src    provider.Source
	faults []error
}

func (r *reader) err() error { return errors.Join(r.faults...) }

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("source "+r.src.Name()+": "+format, args...))
}

func (r *reader) auth() (mtls bool) {
	switch r.src.Value(settingAuth, "") {
	case authMTLS:
		return true
	case authSkipMTLS:
		return false
	case "":
		r.fault("%s is not set; say how the webhook was registered at Efí: mtls (Efí shows its certificate, and our TLS listener or proxy verifies it), or skip-mtls (x-skip-mtls-checking: true; a token in the address)",
			r.src.Variable(settingAuth))
	default:
		r.fault("%s is neither mtls nor skip-mtls", r.src.Variable(settingAuth))
	}
	return false
}

// unchanged is what an address carries as it is, however it is encoded on the
// way. A token without a slash cannot end in what Efí glues to it.
var unchanged = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)

// tokenPlace checks the tokens and reads where they stand.
func (r *reader) tokenPlace(mtls bool) tokenPlace {
	place, given := tokenPlace(r.src.Value(settingTokenIn, string(inQuery))), r.src.Value(settingTokenIn, "") != ""
	switch place {
	case inQuery, inQueryWithoutIgnorar, inPath:
	default:
		r.fault("%s is not one of query (?hmac=<token>&ignorar=), query-without-ignorar (?hmac=<token>) and path (/<token>)", r.src.Variable(settingTokenIn))
	}
	if mtls && len(r.src.WebhookSecrets) == 0 {
		if given {
			r.fault("%s says where the token is, but there is none; set %s too, or neither: with %s=mtls the certificate suffices",
				r.src.Variable(settingTokenIn), r.src.Variable("WEBHOOK_SECRETS"), r.src.Variable(settingAuth))
		}
		return place
	}
	if err := r.src.CheckSecrets(minTokenLen); err != nil {
		r.faults = append(r.faults, err)
	}
	for i, s := range r.src.WebhookSecrets {
		if !unchanged.MatchString(s.Reveal()) {
			r.fault("entry %d of %s has a character that an address may not carry unchanged; use letters, digits, '-', '_', '.' and '~' (openssl rand -hex 32 makes one)",
				i+1, r.src.Variable("WEBHOOK_SECRETS"))
		}
	}
	return place
}

func (r *reader) ignoresTarifa() bool {
	switch r.src.Value(settingTarifa, "fee") {
	case "fee":
		return false
	case "ignore":
		return true
	}
	r.fault("%s is neither fee (gnExtras.tarifa is what Efí keeps of the payment) nor ignore", r.src.Variable(settingTarifa))
	return false
}

// api reads what the lookups need; nil when there is no API key.
func (r *reader) api() *api {
	a := &api{base: r.src.APIBase, clientID: r.src.Value(settingClientID, "")}
	if a.base == "" {
		a.base = ProductionBase
		if !r.src.Production {
			a.base = SandboxBase
		}
	}
	if r.src.APIKey == "" {
		if a.clientID != "" {
			r.fault("%s is set without %s, which is the client secret that goes with it", r.src.Variable(settingClientID), r.src.Variable("API_KEY"))
		}
		return nil
	}
	switch {
	case a.clientID == "":
		r.fault("%s is not set; %s is the client secret of an application, and the API wants both", r.src.Variable(settingClientID), r.src.Variable("API_KEY"))
	case strings.ContainsFunc(a.clientID, func(c rune) bool { return c == ':' || unicode.IsSpace(c) || unicode.IsControl(c) }):
		r.fault("%s contains a colon, white space or a control character; it is one client id", r.src.Variable(settingClientID))
	}
	if !strings.HasPrefix(a.base, "http:") {
		a.certificate = r.certificate()
	}
	return a
}

// certificate reads the client certificate, which the API wants on every call.
func (r *reader) certificate() *tls.Certificate {
	if r.src.Value(settingCert, "") == "" || r.src.File == nil {
		r.fault("%s is not set; Efí's API refuses every call without the application's client certificate. Convert the .p12 file to PEM: openssl pkcs12 -in efi.p12 -nodes -out efi.pem",
			r.src.Variable(settingCert))
		return nil
	}
	cert, err := r.src.File(settingCert)
	if err != nil {
		r.fault("%w", err)
		return nil
	}
	key := cert
	if r.src.Value(settingCertKey, "") != "" {
		if key, err = r.src.File(settingCertKey); err != nil {
			r.fault("%w", err)
			return nil
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // the error's own text is left out: it may speak of the key
		r.fault("%s and %s do not hold a certificate and the key that goes with it, both PEM and without a password", r.src.Variable(settingCert), r.src.Variable(settingCertKey))
		return nil
	}
	return &pair
}
