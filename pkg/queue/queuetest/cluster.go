package queuetest

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
)

// Cluster is three NATS servers in processes of their own that keep each
// stream thrice.
type Cluster struct {
	t       testing.TB
	Servers []*Process
}

// NewCluster starts a cluster of this test's own and waits until it takes
// streams.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	dir := t.TempDir()
	routes := []int{freePort(t), freePort(t), freePort(t)}
	for i := range 3 {
		own := slices.Clone(routes)
		own[0], own[i] = own[i], own[0]
		c.Servers = append(c.Servers, &Process{t: t, plan: plan{
			Dir: filepath.Join(dir, strconv.Itoa(i)), Port: freePort(t), Name: fmt.Sprint("n", i+1), Routes: own,
		}})
	}
	t.Cleanup(func() {
		for _, s := range c.Servers {
			s.Kill()
		}
	})
	var all sync.WaitGroup
	failed := make([]error, 3)
	for i, s := range c.Servers {
		all.Go(func() { failed[i] = s.launch() })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			t.Fatalf("NATS cluster: %v", err)
		}
	}
	conn := c.Connect(t)
	Eventually(t, 60*time.Second, "the cluster takes streams", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return conn.Ensure(ctx) == nil
	})
	return c
}

// URL is the addresses of all servers, for NATS_URL.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Connect opens a connection that is closed with the test.
func (c *Cluster) Connect(t testing.TB) *queue.Conn {
	t.Helper()
	return Connect(t, queue.Config{URL: c.URL(), Replicas: 3, AckWait: 4 * time.Second})
}

// Client is a client without any of the product's settings.
func (c *Cluster) Client(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Leader is the server that leads a stream, once one does.
func (c *Cluster) Leader(js jetstream.JetStream, stream string) *Process {
	c.t.Helper()
	var leader *Process
	Eventually(c.t, 30*time.Second, stream+" has a leader", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		for _, p := range c.Servers {
			if p.cmd != nil && p.plan.Name == s.CachedInfo().Cluster.Leader {
				leader = p
			}
		}
		return leader != nil
	})
	return leader
}

// Whole waits until every copy of the streams is current again.
func (c *Cluster) Whole(js jetstream.JetStream) {
	c.t.Helper()
	Eventually(c.t, 60*time.Second, "every copy is current", func() bool {
		for _, name := range []string{queue.StreamWebhooks, queue.StreamPayments} {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			s, err := js.Stream(ctx, name)
			cancel()
			if err != nil || s.CachedInfo().Cluster == nil || s.CachedInfo().Cluster.Leader == "" || len(s.CachedInfo().Cluster.Replicas) != 2 {
				return false
			}
			for _, r := range s.CachedInfo().Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
		}
		return true
	})
}

// startMember runs a server that is one of a cluster.
func (p plan) startMember() (stop func(), err error) {
	o := &server.Options{
		ServerName: p.Name, Host: "127.0.0.1", Port: p.Port, JetStream: true, StoreDir: p.Dir,
		JetStreamMaxStore: 1 << 40, NoSigs: true, NoLog: true, MaxPayload: 1 << 20,
		Cluster: server.ClusterOpts{Name: "umavez-test", Host: "127.0.0.1", Port: p.Routes[0]},
	}
	for _, port := range p.Routes[1:] {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(port)})
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return nil, fmt.Errorf("server %s is not ready after 20 s", p.Name)
	}
	return func() { s.Shutdown(); s.WaitForShutdown() }, nil
}
