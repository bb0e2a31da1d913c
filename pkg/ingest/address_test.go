package ingest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/provider"
)

// placed is a gateway that has something of its own in the address, asks for
// a client certificate, and can say what it would have taken.
type placed struct {
	testpay
	wantCertificate, keysAway bool
}

func (p *placed) Traits() provider.Traits {
	t := p.testpay.Traits()
	t.OwnsPath, t.EmptyBodies = true, true
	t.SignedHeaders = []string{"?data.id", "?twice", "x-request-id"}
	return t
}

func (p *placed) Verify(r provider.Request) (string, provider.Reason) {
	switch {
	case p.keysAway:
		return "", provider.ReasonUnavailable
	case p.wantCertificate && !r.ClientVerified:
		return "", provider.ReasonNoClient
	case r.Path == "right" || strings.HasPrefix(r.Path, "right/"):
		return "1", provider.ReasonNone
	case r.Path == "wrong/digest":
		return "", provider.ReasonMismatch
	}
	return "", provider.ReasonToken
}

func (p *placed) Explain(provider.Request) []provider.SignedText {
	return []provider.SignedText{{Name: "id as sent", Text: "id:A\n;", Accepted: true}, {Name: "id in upper case", Text: "id:B;", Secret: "1"}}
}

type placedSources struct {
	*placed
	allowed string
}

func (s placedSources) Lookup(name, account string) (provider.Provider, provider.Source, bool) {
	src := provider.Source{Provider: name, Account: account}
	if s.allowed != "" {
		src.AllowedFrom = []netip.Prefix{netip.MustParsePrefix(s.allowed)}
	}
	return s.placed, src, name == "placed" && (account == provider.DefaultAccount || account == "loja2")
}

func newPlacedWorld(t *testing.T, s placedSources, options ...option) *world {
	return newWorld(t, append(options, func(_ *ingest.Config, p *ingest.Parts) { p.Sources = s })...)
}

func (w *world) post(path, body string, header ...string) reply {
	req, err := http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return w.do(req)
}

func TestWhatFollowsTheAccountBelongsToAGatewayThatOwnsIt(t *testing.T) {
	t.Parallel()
	w := newPlacedWorld(t, placedSources{placed: &placed{}})
	for path, want := range map[string]int{
		"/webhooks/placed/right":                 200,
		"/webhooks/placed/right/pix":             200,
		"/webhooks/placed/right/":                200,
		"/webhooks/placed/default/right":         200,
		"/webhooks/placed/loja2/right/pix":       200,
		"/webhooks/placed/%72ight":               200,
		"/webhooks/placed":                       401,
		"/webhooks/placed/loja2":                 401,
		"/webhooks/placed/loja3/right":           401, // no such account: all of it is the plain account's
		"/webhooks/placed/right/../right":        404,
		"/webhooks/other/right":                  404,
		"/webhooks/placed/right/%2e%2e/%2e%2e/x": 404,
	} {
		if r := w.post(path, `{"id":"`+path+`"}`); r.status != want {
			t.Errorf("%s: %d, want %d", path, r.status, want)
		}
	}
	if n := query[int](w, `SELECT count(*) FROM events WHERE account = 'loja2'`); n != 1 {
		t.Errorf("%d events of the second account", n)
	}
	if r := w.post("/webhooks/placed/right", ""); r.status != 200 {
		t.Errorf("a probe without a body: %d", r.status)
	}
}

func TestQueryParametersThatAGatewayNamesAreKeptAndNoOthers(t *testing.T) {
	t.Parallel()
	w := newPlacedWorld(t, placedSources{placed: &placed{}})
	r := w.post("/webhooks/placed/right?data.id=ORD%31&token=SECRET&twice=1&twice=%00%ff2", `{"id":"1"}`, "X-Request-Id", "r-1", "Authorization", "SECRET")
	if r.status != 200 {
		t.Fatal(r.status)
	}
	got := query[string](w, `SELECT array_to_string(headers, '|') FROM event_bodies`)
	if want := "?data.id|ORD1|?twice|1|?twice|\uFFFD\uFFFD2|X-Request-Id|r-1"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func TestOnlyTheAllowedAddressesMaySend(t *testing.T) {
	t.Parallel()
	proxied := func(c *ingest.Config, _ *ingest.Parts) { c.TrustedProxies = "127.0.0.0/8" }
	body := `{"id":"1"}`
	for _, c := range []struct {
		name, allowed, forwarded string
		options                  []option
		want                     int
	}{
		{"ours", "127.0.0.0/8", "", nil, 200},
		{"another", "192.0.2.0/24", "", nil, 403},
		{"a header that nobody vouches for", "192.0.2.0/24", "192.0.2.7", nil, 403},
		{"through our proxy", "192.0.2.0/24", "192.0.2.7", []option{proxied}, 200},
		{"spoofed before our proxy", "192.0.2.0/24", "192.0.2.7, 198.51.100.1", []option{proxied}, 403},
	} {
		w := newPlacedWorld(t, placedSources{&placed{}, c.allowed}, c.options...)
		before := w.rows()
		r := w.post("/webhooks/placed/right", body, "X-Forwarded-For", c.forwarded)
		if r.status != c.want || c.want != 200 && w.rows() != before {
			t.Errorf("%s: %d, want %d", c.name, r.status, c.want)
		}
	}
}

func TestKeysThatAreNotToBeHadAskForAnotherTry(t *testing.T) {
	t.Parallel()
	w := newPlacedWorld(t, placedSources{placed: &placed{keysAway: true}})
	if r := w.post("/webhooks/placed/right", `{"id":"1"}`); r.status != 503 || r.header.Get("Retry-After") != "2" || w.rows() != 0 {
		t.Errorf("%d %v, %d rows", r.status, r.header, w.rows())
	}
}

func TestCase_A15_TheListOfRefusedRequestsShowsWhichTextsWereTried(t *testing.T) {
	t.Parallel()
	w := newPlacedWorld(t, placedSources{placed: &placed{}})
	if r := w.post("/webhooks/placed/wrong/digest", `{"id":"1"}`); r.status != 401 {
		t.Fatal(r.status)
	}
	w.Close()
	got := query[string](w, `SELECT detail FROM rejected_deliveries`)
	want := `1 request, a body of 10 bytes; id as sent, "id:A\n;": no secret matches; id in upper case, "id:B;": secret 1 matches, but this form is not accepted`
	if got != want {
		t.Errorf("detail %q, want %q", got, want)
	}
}

// pki writes a CA, a server's and a client's certificate.
func pki(t *testing.T) (dir string, roots *x509.CertPool, client, stranger tls.Certificate) {
	t.Helper()
	dir = t.TempDir()
	made := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, tls.Certificate) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		if parent == nil {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca := func() *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	}
	leaf := func(usage x509.ExtKeyUsage) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	}
	root, rootKey, _ := made(ca(), nil, nil)
	other, otherKey, _ := made(ca(), nil, nil)
	server, serverKey, _ := made(leaf(x509.ExtKeyUsageServerAuth), root, rootKey)
	_, _, client = made(leaf(x509.ExtKeyUsageClientAuth), root, rootKey)
	_, _, stranger = made(leaf(x509.ExtKeyUsageClientAuth), other, otherKey)
	keyDER, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	write("ca.pem", "CERTIFICATE", root.Raw)
	write("cert.pem", "CERTIFICATE", server.Raw)
	write("key.pem", "EC PRIVATE KEY", keyDER)
	roots = x509.NewCertPool()
	roots.AddCert(root)
	return dir, roots, client, stranger
}

func TestTheListenerVerifiesClientCertificatesItself(t *testing.T) {
	t.Parallel()
	dir, roots, client, stranger := pki(t)
	w := newPlacedWorld(t, placedSources{placed: &placed{wantCertificate: true}}, func(c *ingest.Config, _ *ingest.Parts) {
		c.TLSCertFile, c.TLSKeyFile, c.TLSClientCAFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := w.Server()
	go server.ServeTLS(l, "", "") //nolint:errcheck // closed by the cleanup
	t.Cleanup(func() { server.Close() })
	ask := func(http2 bool, certificates ...tls.Certificate) (int, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}, ForceAttemptHTTP2: http2}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("https://"+l.Addr().String()+"/webhooks/placed/right", "application/json", strings.NewReader(`{"id":"1"}`))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if http2 != (resp.ProtoMajor == 2) {
			t.Errorf("protocol %s", resp.Proto)
		}
		return resp.StatusCode, nil
	}
	for _, http2 := range []bool{false, true} {
		if status, err := ask(http2, client); status != 200 {
			t.Errorf("with a certificate: %d %v", status, err)
		}
		if status, err := ask(http2); status != 401 {
			t.Errorf("without a certificate: %d %v", status, err)
		}
		if status, err := ask(http2, stranger); err == nil && status != 401 {
			t.Errorf("with the certificate of another CA: %d", status)
		}
	}
}

func TestTLSSettingsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	dir, _, _, _ := pki(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	for want, change := range map[string]func(*ingest.Config){
		"go together":                func(c *ingest.Config) { c.TLSCertFile = file("cert.pem") },
		"needs both":                 func(c *ingest.Config) { c.TLSClientCAFile = file("ca.pem") },
		"do not name a readable PEM": func(c *ingest.Config) { c.TLSCertFile, c.TLSKeyFile = file("cert.pem"), file("ca.pem") },
		"TLS_CLIENT_CA_FILE cannot be": func(c *ingest.Config) {
			c.TLSCertFile, c.TLSKeyFile, c.TLSClientCAFile = file("cert.pem"), file("key.pem"), file("none")
		},
		"holds no PEM certificate": func(c *ingest.Config) {
			c.TLSCertFile, c.TLSKeyFile, c.TLSClientCAFile = file("cert.pem"), file("key.pem"), file("key.pem")
		},
	} {
		c := defaults()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%v, want %q and no path", err, want)
		}
	}
}
