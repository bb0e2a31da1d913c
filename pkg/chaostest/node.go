package chaostest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/umavez/umavez/pkg/process"
)

// node is a process that is started again whenever it ends, as an orchestrator
// does it.
type node struct {
	name, role string
	spec       process.Spec
	admin      string // address of /readyz, /metrics, /failpoints; "" for a broker

	mu      sync.Mutex
	p       *process.Process
	wanted  bool
	keep    chan struct{} // not nil: it is kept down until this is closed
	starts  int
	ended   chan struct{} // of the keeper
	stopped chan struct{}
}

// run starts the process and keeps it alive until stop.
func (n *node) run() error {
	n.wanted, n.ended, n.stopped = true, make(chan struct{}), make(chan struct{})
	p, err := process.Start(n.spec)
	if err != nil {
		return err
	}
	n.p, n.starts = p, 1
	go n.keepAlive()
	return nil
}

func (n *node) keepAlive() {
	defer close(n.ended)
	for {
		<-n.process().Done()
		n.mu.Lock()
		keep := n.keep
		n.mu.Unlock()
		if keep != nil {
			<-keep
		}
		select {
		case <-n.stopped:
			return
		case <-time.After(200 * time.Millisecond):
		}
		p, err := process.Start(n.spec)
		if err != nil {
			continue
		}
		n.mu.Lock()
		n.p = p
		n.starts++
		n.mu.Unlock()
	}
}

func (n *node) process() *process.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.p
}

// hold keeps the process down after its next end, until the returned function
// is called.
func (n *node) hold() (release func()) {
	keep := make(chan struct{})
	n.mu.Lock()
	n.keep = keep
	n.mu.Unlock()
	return sync.OnceFunc(func() {
		n.mu.Lock()
		n.keep = nil
		n.mu.Unlock()
		close(keep)
	})
}

// stop ends the process for good.
func (n *node) stop(grace time.Duration) {
	n.mu.Lock()
	if !n.wanted {
		n.mu.Unlock()
		return
	}
	n.wanted = false
	n.mu.Unlock()
	close(n.stopped)
	n.process().Signal(syscall.SIGCONT)
	n.process().Stop(grace)
	<-n.ended
	n.process().Stop(grace) // one that was started at the last moment
}

// ready says whether the process answers that it is.
func (n *node) ready(ctx context.Context) error {
	if p := n.process(); p.Ended() {
		return fmt.Errorf("%s is down", n.name)
	}
	if n.admin == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close() //nolint:errcheck // only the status counts
	if resp.StatusCode != http.StatusOK {
		return errors.New(n.name + " is not ready")
	}
	return nil
}

// put sends a body to the admin listener.
func (n *node) put(ctx context.Context, path, body string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+n.admin+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s to %s: %s", path, n.name, text)
	}
	return nil
}
