package chaostest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/localpg"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/process"
)

// world is all that runs in one act.
type world struct {
	cfg  Config
	act  Act
	as   *shape
	dir  string // of data; gone at the end
	logs string

	sim     *gatewaysim.Sim
	moods   *moods
	api     *http.Server
	pg      *localpg.Cluster
	disks   map[string]string // size-limited mounts: "postgres", "broker" -> directory
	links   *links
	brokers []*node
	nodes   []*node // ingests and processors
	gates   []string
	sweeps  *sweeps
	history *history
	scraped *scraped
	reader  *reader

	db *postgres.DB // past the proxies, for looking
	nc *nats.Conn   // past the proxies
	js jetstream.JetStream
}

// payments of one webhook on the average, duplicates and all; see demo.
const deliveriesAPayment = 4.8

func startWorld(ctx context.Context, cfg Config, act Act, seed uint64, d time.Duration) (w *world, err error) {
	w = &world{cfg: cfg, act: act, as: act.shape, logs: filepath.Join(cfg.Dir, "chaos-logs"), links: newLinks(), disks: map[string]string{}}
	if w.as == nil {
		w.as = campaignShape(max(60, int(cfg.Rate*d.Seconds()/deliveriesAPayment)))
	}
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	if err = errors.Join(os.RemoveAll(w.logs), os.MkdirAll(w.logs, 0o755)); err != nil {
		return w, err
	}
	if w.dir, err = os.MkdirTemp("", "umavez-chaos-"); err != nil {
		return w, err
	}
	if err = os.Chmod(w.dir, 0o755); err != nil {
		return w, err
	}
	w.mountDisks()
	if w.history, err = newHistory(filepath.Join(w.logs, "history.jsonl")); err != nil {
		return w, err
	}
	sim := w.as.sim
	sim.Seed = seed
	if w.sim, err = gatewaysim.New(sim); err != nil {
		return w, err
	}
	w.moods = newMoods(w.sim, sim.API, w.as.lookupTimeout)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return w, err
	}
	w.api = &http.Server{Handler: w.moods, ReadHeaderTimeout: 10 * time.Second}
	go w.api.Serve(l) //nolint:errcheck // it ends with Close
	if err = w.startServers(ctx); err != nil {
		return w, err
	}
	if err = w.startRoles(ctx, l.Addr().String()); err != nil {
		return w, err
	}
	w.scraped = startScraping(w)
	w.reader, err = startReader(ctx, w.js)
	return w, err
}

// calmAPI is how the gateways' APIs behave when nothing is wrong with them.
var calmAPI = gatewaysim.API{Latency: time.Millisecond, Jitter: 2 * time.Millisecond, Stale: 0.01, StaleFor: time.Second}

// startServers starts PostgreSQL and the brokers and prepares both.
func (w *world) startServers(ctx context.Context) (err error) {
	dir := filepath.Join(w.dir, "pg")
	if mount := w.disks["postgres"]; mount != "" {
		dir = filepath.Join(mount, "pg")
	}
	w.pg, err = localpg.Start(ctx, localpg.Config{
		Dir: dir, LogFile: filepath.Join(w.logs, "postgres.log"), Throwaway: true,
		Params: map[string]string{"max_connections": "100", "max_wal_size": "256MB", "deadlock_timeout": "200ms"},
	})
	if err != nil {
		return err
	}
	var addrs, clusters []string
	for range w.act.Brokers {
		a, b, err := twoAddrs()
		if err != nil {
			return err
		}
		addrs, clusters = append(addrs, a), append(clusters, b)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range w.act.Brokers {
		name := fmt.Sprintf("broker-%d", i+1)
		dir := filepath.Join(w.dir, name)
		if mount := w.disks["broker"]; mount != "" {
			dir = filepath.Join(mount, name)
		}
		args := []string{"broker", "--name", name, "--dir", dir, "--addr", addrs[i]}
		if w.act.Brokers > 1 {
			args = append(args, "--cluster", clusters[i], "--routes", strings.Join(clusters, ","))
		}
		n := &node{name: name, role: "broker", spec: process.Spec{Name: name, Program: self, Args: args, LogDir: w.logs}}
		if err := n.run(); err != nil {
			return err
		}
		w.brokers = append(w.brokers, n)
	}
	urls := make([]string, len(addrs))
	for i, a := range addrs {
		urls[i] = "nats://" + a
	}
	// For this process alone; the roles get the ways through the proxies.
	for name, value := range map[string]string{
		"DATABASE_URL": w.pg.URL(""), "NATS_URL": strings.Join(urls, ","), "NATS_REPLICAS": strconv.Itoa(w.act.Brokers),
		"NATS_ACK_WAIT": w.as.settings["NATS_ACK_WAIT"], "NATS_MAX_BYTES": w.as.settings["NATS_MAX_BYTES"], "NATS_PAYMENTS_MAX_BYTES": w.as.settings["NATS_PAYMENTS_MAX_BYTES"],
	} {
		os.Setenv(name, value) //nolint:errcheck // the names are valid
	}
	w.nc, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(100*time.Millisecond), nats.IgnoreDiscoveredServers())
	if err != nil {
		return err
	}
	if w.js, err = jetstream.New(w.nc); err != nil {
		return err
	}
	err = process.Await(ctx, 60*time.Second, "JetStream", func() error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := w.js.AccountInfo(ctx)
		return err
	})
	if err != nil {
		return err
	}
	err = process.Await(ctx, 60*time.Second, "the schema and the streams", func() error {
		_, err := app.Migrate(ctx, zap.NewNop(), false, true, func(postgres.Migration) {})
		return err
	})
	if err != nil {
		return err
	}
	w.db, err = postgres.Open(ctx, postgres.Config{DatabaseURL: w.pg.URL(""), MaxConns: 6})
	return err
}

// startRoles starts the processes under test, each with its own ways to the
// servers.
func (w *world) startRoles(ctx context.Context, api string) error {
	for i := range w.as.ingests {
		if err := w.addRole("ingest", i+1, api); err != nil {
			return err
		}
	}
	for i := range w.as.processors {
		if err := w.addRole("processor", i+1, api); err != nil {
			return err
		}
	}
	env, err := w.environment("sweeper", api)
	if err != nil {
		return err
	}
	w.sweeps = newSweeps(filepath.Join(w.cfg.Programs, "sweeper"), env, w.logs)
	for _, n := range w.nodes {
		if err := process.Await(ctx, 60*time.Second, n.name, func() error { return n.ready(ctx) }); err != nil {
			return fmt.Errorf("%w; its last words: %s", err, n.process().LastWords())
		}
	}
	return nil
}

func (w *world) addRole(role string, i int, api string) error {
	n := &node{name: fmt.Sprintf("%s-%d", role, i), role: role}
	env, err := w.environment(n.name, api)
	if err != nil {
		return err
	}
	listen, admin, err := twoAddrs()
	if err != nil {
		return err
	}
	n.admin = admin
	env = append(env, "ADMIN_ADDR="+admin)
	if role == "ingest" {
		env = append(env, "INGEST_ADDR="+listen)
		gate, err := w.way(n.name+"/gateways", listen)
		if err != nil {
			return err
		}
		w.gates = append(w.gates, "http://"+gate)
	}
	n.spec = process.Spec{Name: n.name, Program: filepath.Join(w.cfg.Programs, "umavez"), Args: []string{"role", role}, Env: env, LogDir: w.logs}
	w.nodes = append(w.nodes, n)
	return n.run()
}

// environment makes one process's own ways to everything.
func (w *world) environment(name, api string) ([]string, error) {
	direct, err := addrOf(w.pg.URL(""))
	if err != nil {
		return nil, err
	}
	pg, err := w.way(name+"/postgres", direct)
	if err != nil {
		return nil, err
	}
	apiAddr, err := w.way(name+"/api", api)
	if err != nil {
		return nil, err
	}
	var brokers []string
	for i, url := range strings.Split(os.Getenv("NATS_URL"), ",") {
		way, err := w.way(fmt.Sprintf("%s/broker-%d", name, i+1), strings.TrimPrefix(url, "nats://"))
		if err != nil {
			return nil, err
		}
		brokers = append(brokers, "nats://"+way)
	}
	env := []string{
		"DATABASE_URL=" + strings.Replace(w.pg.URL(""), direct, pg, 1),
		"NATS_URL=" + strings.Join(brokers, ","), "NATS_REPLICAS=" + strconv.Itoa(w.act.Brokers),
	}
	all := w.sim.Settings("http://" + apiAddr)
	maps.Copy(all, w.as.settings)
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	return env, nil
}

// way is the address by which one finds another.
func (w *world) way(name, to string) (addr string, err error) {
	if w.as.direct {
		return to, nil
	}
	return w.links.add(name, to)
}

// gate is the address of an ingest, any of them: what a load balancer does.
func (w *world) gate(string, string) string { return w.gates[rand.IntN(len(w.gates))] }

// stop ends everything and takes the data away.
func (w *world) stop() {
	if w.reader != nil {
		w.reader.stop()
	}
	if w.scraped != nil {
		w.scraped.stop()
	}
	for _, n := range w.nodes {
		n.stop(15 * time.Second)
	}
	if w.db != nil {
		w.db.Close()
	}
	if w.nc != nil {
		w.nc.Close()
	}
	for _, n := range w.brokers {
		n.stop(10 * time.Second)
	}
	if w.api != nil {
		_ = w.api.Close()
	}
	w.links.close()
	if w.pg != nil {
		_ = w.pg.Stop()
	}
	w.unmountDisks()
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

// twoAddrs are two free addresses on loopback.
func twoAddrs() (a, b string, err error) {
	for _, at := range []*string{&a, &b} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close() //nolint:errcheck // only the number is wanted
		*at = l.Addr().String()
	}
	return a, b, nil
}
