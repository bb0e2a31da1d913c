package ingest

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestTheSenderIsTheRightMostHopThatIsNotOurs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, remote, proxies string
		forwarded             []string
		want                  string // "" is not known
	}{
		{"nobody before us", "192.0.2.7:1234", "", nil, "192.0.2.7"},
		{"a header that a stranger wrote", "192.0.2.7:1234", "", []string{"34.193.116.226"}, "192.0.2.7"},
		{"a header that a stranger wrote, with proxies elsewhere", "192.0.2.7:1234", "10.0.0.0/8", []string{"34.193.116.226"}, "192.0.2.7"},
		{"one proxy", "10.1.2.3:1234", "10.0.0.0/8", []string{"192.0.2.7"}, "192.0.2.7"},
		{"a spoofed first entry", "10.1.2.3:1234", "10.0.0.0/8", []string{"34.193.116.226, 192.0.2.7"}, "192.0.2.7"},
		{"two proxies", "10.1.2.3:1234", "10.0.0.0/8, 172.16.0.1", []string{"34.193.116.226, 192.0.2.7, 172.16.0.1"}, "192.0.2.7"},
		{"several headers", "10.1.2.3:1234", "10.0.0.0/8", []string{"34.193.116.226", "192.0.2.7"}, "192.0.2.7"},
		{"a hop with a port", "10.1.2.3:1234", "10.0.0.0/8", []string{"192.0.2.7:5555"}, "192.0.2.7"},
		{"a hop that is no address", "10.1.2.3:1234", "10.0.0.0/8", []string{"192.0.2.7, unknown"}, ""},
		{"a proxy that says nothing", "10.1.2.3:1234", "10.0.0.0/8", nil, "10.1.2.3"},
		{"IPv6", "[2001:db8::1]:1234", "2001:db8::/64", []string{"2001:db8:1::7"}, "2001:db8:1::7"},
		{"IPv4 in IPv6", "[::ffff:10.1.2.3]:1234", "10.0.0.0/8", []string{"::ffff:192.0.2.7"}, "192.0.2.7"},
		{"no address at all", "@", "10.0.0.0/8", []string{"192.0.2.7"}, ""},
	} {
		s, err := newSenders(Config{TrustedProxies: c.proxies})
		if err != nil {
			t.Fatal(err)
		}
		peer, verified := s.of(&http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.forwarded}})
		got := ""
		if peer.IsValid() {
			got = peer.String()
		}
		if got != c.want || verified {
			t.Errorf("%s: %q %v, want %q", c.name, got, verified, c.want)
		}
	}
}

func TestOnlyATrustedProxyCanSayThatACertificateWasShown(t *testing.T) {
	t.Parallel()
	s, err := newSenders(Config{TrustedProxies: "10.0.0.0/8", ClientVerifiedHeader: "X-Client-Verify: SUCCESS"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		remote string
		values []string
		want   bool
	}{
		{"10.1.2.3:1", []string{"SUCCESS"}, true},
		{"10.1.2.3:1", []string{"NONE"}, false},
		{"10.1.2.3:1", []string{"success"}, false},
		{"10.1.2.3:1", nil, false},
		{"10.1.2.3:1", []string{"SUCCESS", "SUCCESS"}, false}, // one of them is the sender's own
		{"192.0.2.7:1", []string{"SUCCESS"}, false},
	} {
		if _, got := s.of(&http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Client-Verify": c.values}}); got != c.want {
			t.Errorf("%s %q: %v", c.remote, c.values, got)
		}
	}
}

func TestSettingsOfSendersAreChecked(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]Config{
		"entry 2 of INGEST_TRUSTED_PROXIES": {TrustedProxies: "10.0.0.0/8,example.com"},
		"entry 1 of INGEST_TRUSTED_PROXIES": {TrustedProxies: ",10.0.0.0/8"},
		"is not a header and its value":     {TrustedProxies: "10.0.0.0/8", ClientVerifiedHeader: "X-Client-Verify"},
		"needs INGEST_TRUSTED_PROXIES":      {ClientVerifiedHeader: "X-Client-Verify: SUCCESS"},
	} {
		if _, err := newSenders(c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s, err := newSenders(Config{})
	if err != nil || len(s.proxies) != 0 {
		t.Errorf("%v %v", s, err)
	}
	if got := forwarded(nil, nil, netip.MustParseAddr("192.0.2.7")); got.String() != "192.0.2.7" {
		t.Error(got)
	}
}
