package chaostest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// RunBroker is a NATS server as a process of its own, alone or as one of a
// cluster, until ctx ends. routes are the cluster addresses of all its
// members, this one's too; "" for a server alone.
func RunBroker(ctx context.Context, name, dir, addr, cluster, routes string) error {
	host, port, err := hostPort(addr)
	if err != nil {
		return err
	}
	o := &server.Options{
		ServerName: name, Host: host, Port: port, StoreDir: dir, JetStream: true,
		// The disk is the limit, so that a full one is met as such.
		JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30,
		NoSigs: true, NoLog: true,
	}
	if routes != "" {
		chost, cport, err := hostPort(cluster)
		if err != nil {
			return err
		}
		// Not advertised: clients know the ways through the proxies alone.
		o.Cluster = server.ClusterOpts{Name: "chaos", Host: chost, Port: cport, NoAdvertise: true}
		o.Routes = server.RoutesFromStr("nats://" + strings.ReplaceAll(routes, ",", ",nats://"))
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("broker %s: %w", name, err)
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		s.Shutdown()
		return fmt.Errorf("broker %s is not ready after 30 s", name)
	}
	ended := make(chan struct{})
	go func() { s.WaitForShutdown(); close(ended) }()
	select {
	case <-ctx.Done():
		s.Shutdown()
		<-ended
		return nil
	case <-ended:
		return errors.New("the broker ended by itself")
	}
}

func hostPort(addr string) (string, int, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.Atoi(text)
	return host, port, err
}
