package ingest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// senders finds out who sent a request, when proxies of ours stand before us.
// What a proxy says is believed only when the connection comes from it:
// anybody can write a header.
type senders struct {
	proxies                       []netip.Prefix
	verifiedHeader, verifiedValue string
}

func newSenders(c Config) (s senders, err error) {
	var faults []error
	for i, entry := range strings.Split(c.TrustedProxies, ",") {
		if strings.TrimSpace(c.TrustedProxies) == "" {
			break
		}
		prefix, err := provider.ParsePrefix(entry)
		if err != nil {
			faults = append(faults, fmt.Errorf("entry %d of INGEST_TRUSTED_PROXIES is neither an IP address nor a network like 10.0.0.0/8", i+1))
			continue
		}
		s.proxies = append(s.proxies, prefix)
	}
	if c.ClientVerifiedHeader != "" {
		name, value, ok := strings.Cut(c.ClientVerifiedHeader, ":")
		s.verifiedHeader, s.verifiedValue = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || s.verifiedHeader == "" || s.verifiedValue == "":
			faults = append(faults, errors.New("INGEST_CLIENT_VERIFIED_HEADER is not a header and its value, like 'X-Client-Verify: SUCCESS'"))
		case len(s.proxies) == 0:
			faults = append(faults, errors.New("INGEST_CLIENT_VERIFIED_HEADER needs INGEST_TRUSTED_PROXIES: without it anybody could claim to have shown a certificate"))
		}
	}
	return s, errors.Join(faults...)
}

// of returns the sender's address, invalid when it is not known, and whether
// a client certificate was verified.
func (s *senders) of(r *http.Request) (peer netip.Addr, clientVerified bool) {
	clientVerified = verified(r.TLS)
	hop, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, clientVerified
	}
	peer = hop.Addr().Unmap()
	if !provider.Contains(s.proxies, peer) {
		return peer, clientVerified
	}
	if s.verifiedHeader != "" {
		values := r.Header[s.verifiedHeader]
		clientVerified = clientVerified || len(values) == 1 && values[0] == s.verifiedValue
	}
	return forwarded(r.Header.Values("X-Forwarded-For"), s.proxies, peer), clientVerified
}

// forwarded walks the hops from ours outwards: the first that is not a proxy
// of ours is the sender. Whatever stands to the left of it, the sender wrote.
func forwarded(headers []string, proxies []netip.Prefix, peer netip.Addr) netip.Addr {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		text := strings.TrimSpace(hops[i])
		if text == "" {
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			withPort, err := netip.ParseAddrPort(text)
			if err != nil {
				return netip.Addr{}
			}
			addr = withPort.Addr()
		}
		peer = addr.Unmap()
		if !provider.Contains(proxies, peer) {
			return peer
		}
	}
	return peer
}

func verified(state *tls.ConnectionState) bool {
	return state != nil && len(state.VerifiedChains) > 0
}
