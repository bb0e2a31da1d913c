package lookup

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// Trust makes an Asker accept servers of a CA of the tests.
func Trust(a *Asker, roots *x509.CertPool) {
	a.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
}
