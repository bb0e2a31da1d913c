package campaign

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/umavez/umavez/pkg/process"
)

// role is one process of umavez.
type role struct {
	name string
	env  []string
	args []string
	p    *process.Process
}

// startBroker starts the broker on its store. It tells with its error whether
// the broker refused.
func (p *phase) startBroker(ctx context.Context) (err error) {
	args := []string{"broker", "--dir", p.store, "--port", fmt.Sprint(p.port)}
	if p.sync != "" {
		args = append(args, "--sync", p.sync)
	}
	p.broker, err = process.Start(process.Spec{Name: "broker", Program: filepath.Join(p.c.Bin, "umavez"), Args: args, LogDir: p.logs})
	if err != nil {
		return err
	}
	return process.Await(ctx, 20*time.Second, "the broker", func() error { return dial(p.port) }, p.broker)
}

func (p *phase) startRoles(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	admin, err := freePort()
	if err != nil {
		return err
	}
	p.ingestURL, p.admin = fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", admin)
	p.roles = []*role{
		{name: "ingest", args: []string{"role", "ingest"}, env: []string{fmt.Sprintf("INGEST_ADDR=127.0.0.1:%d", port), fmt.Sprintf("ADMIN_ADDR=127.0.0.1:%d", admin)}},
		{name: "processor-1", args: []string{"role", "processor"}, env: []string{"ADMIN_ADDR=off"}},
		{name: "processor-2", args: []string{"role", "processor"}, env: []string{"ADMIN_ADDR=off"}},
		{name: "sweeper", args: []string{"role", "sweeper"}, env: []string{"ADMIN_ADDR=off"}},
	}
	for _, r := range p.roles {
		if err := p.start(r); err != nil {
			return err
		}
	}
	return process.Await(ctx, 20*time.Second, "ingest", func() error { return dial(port) }, p.roles[0].p)
}

func (p *phase) start(r *role) (err error) {
	r.p, err = process.Start(process.Spec{Name: r.name, Program: filepath.Join(p.c.Bin, "umavez"), Args: r.args, Env: p.environment(r.env...), LogDir: p.logs})
	return err
}

// killRoles ends every process of umavez without notice.
func (p *phase) killRoles() {
	p.c.r.Kills++
	for _, r := range p.roles {
		r.p.Kill()
	}
}

// restartRoles starts again what was killed, and what ended by itself, as an
// orchestrator does.
func (p *phase) restartRoles() error {
	for _, r := range p.roles {
		if r.p.Ended() {
			if err := p.start(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close() //nolint:errcheck // only the number is wanted
	return l.Addr().(*net.TCPAddr).Port, nil
}

// dial says whether somebody listens.
func dial(port int) error {
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
