package ingest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// tlsRecheck is how often, at most, the files are read again: certificates
// are replaced while we run.
const tlsRecheck = time.Minute

// tlsFiles is the listener's own TLS, for installations without a proxy
// before it. A client certificate is asked for when a CA is configured, and
// verified when one is shown; which gateways insist is theirs to say.
type tlsFiles struct {
	cert, key, clientCA string

	mu      sync.Mutex
	current *tls.Config
	read    time.Time
}

func newTLS(c Config) (*tlsFiles, error) {
	if c.TLSCertFile == "" && c.TLSKeyFile == "" && c.TLSClientCAFile == "" {
		return nil, nil
	}
	if c.TLSCertFile == "" || c.TLSKeyFile == "" {
		return nil, errors.New("INGEST_TLS_CERT_FILE and INGEST_TLS_KEY_FILE go together; INGEST_TLS_CLIENT_CA_FILE needs both")
	}
	f := &tlsFiles{cert: c.TLSCertFile, key: c.TLSKeyFile, clientCA: c.TLSClientCAFile}
	config, err := f.load()
	if err != nil {
		return nil, err
	}
	f.current, f.read = config, time.Now()
	return f, nil
}

// load reads the files. Errors name the setting, never a path or content.
func (f *tlsFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, errors.New("INGEST_TLS_CERT_FILE and INGEST_TLS_KEY_FILE do not name a readable PEM certificate and its key")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.clientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, errors.New("INGEST_TLS_CLIENT_CA_FILE cannot be read; check the mount and its permissions")
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("INGEST_TLS_CLIENT_CA_FILE holds no PEM certificate")
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}

// config is the configuration of the listener. Files that cannot be read
// leave the last good ones in force.
func (f *tlsFiles) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if time.Since(f.read) > tlsRecheck {
				f.read = time.Now()
				if fresh, err := f.load(); err == nil {
					f.current = fresh
				}
			}
			return f.current, nil
		},
		// The server insists on a certificate being configured, although the
		// one of GetConfigForClient is used.
		Certificates: f.current.Certificates,
	}
}
