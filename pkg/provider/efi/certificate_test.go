package efi_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
)

// The certificate of the settings is one that a server accepts for the token
// and for the question, and without it there is no answer.
func TestTheClientCertificateOpensTheAPI(t *testing.T) {
	t.Parallel()
	cert, _ := pair()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	server := httptest.NewUnstartedServer(&tokenAPI{})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	src := source()
	src.APIBase = server.URL
	p := build(t, src)
	shown := server.Client().Transport.(*http.Transport).Clone()
	own, ok := provider.As[provider.ClientCertificate](p)
	if !ok {
		t.Fatal("the provider shows no certificate")
	}
	shown.TLSClientConfig.Certificates = []tls.Certificate{*own.ClientCertificate()}
	if err := look(p, &http.Client{Transport: shown}); err != nil {
		t.Error(err)
	}
	var retry *provider.RetryError
	if err := look(build(t, src), server.Client()); !errors.As(err, &retry) {
		t.Errorf("without a certificate: %v", err)
	}
}
