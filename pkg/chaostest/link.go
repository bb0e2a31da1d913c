package chaostest

import (
	"context"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is one connection between two of the world, through a proxy.
type link struct {
	name  string // "processor-1/postgres"
	proxy *toxiproxy.Proxy
}

// links makes proxies on loopback.
type links struct {
	server *toxiproxy.ApiServer
	all    []*link
}

func newLinks() *links {
	zerolog.SetGlobalLevel(zerolog.Disabled) // its parts log by themselves
	return &links{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// add opens a way to an address and returns its own.
func (l *links) add(name, upstream string) (addr string, err error) {
	p := toxiproxy.NewProxy(l.server, name, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return "", fmt.Errorf("proxy %s: %w", name, err)
	}
	l.all = append(l.all, &link{name, p})
	return p.Listen, nil
}

func (l *links) close() {
	for _, k := range l.all {
		k.proxy.Stop()
	}
}

// poison puts a toxic on the link; the returned function takes it off.
func (k *link) poison(kind, stream, attributes string) (heal func(), err error) {
	_, err = k.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name":"fault","type":%q,"stream":%q,"toxicity":1,"attributes":{%s}}`, kind, stream, attributes)))
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", kind, k.name, err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = k.proxy.Toxics.RemoveToxic(ctx, "fault")
	}, nil
}

// cut closes all its connections and refuses new ones; the returned function
// opens it again at its address.
func (k *link) cut() (heal func()) {
	k.proxy.Stop()
	return func() {
		for range 100 {
			if k.proxy.Start() == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
