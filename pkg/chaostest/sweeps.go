package chaostest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/umavez/umavez/pkg/sweep"
)

// sweeps runs the sweeper's command again and again, as a CronJob does.
type sweeps struct {
	program string
	env     []string
	logs    string

	mu     sync.Mutex
	sum    sweep.Summary // of all passes
	passes int
	failed int
	cmd    *exec.Cmd // that runs now
}

func newSweeps(program string, env []string, logs string) *sweeps {
	return &sweeps{program: program, env: env, logs: logs}
}

// pass makes one. Only events that have waited for longer than olderThan are
// rung for. more are settings for this pass.
func (s *sweeps) pass(ctx context.Context, olderThan time.Duration, more ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	errs, err := os.OpenFile(filepath.Join(s.logs, "sweeper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer errs.Close() //nolint:errcheck // the child has its own descriptor
	cmd := exec.CommandContext(ctx, s.program, "run", "--older-than", olderThan.String(), "--output", "json", "--verbose")
	cmd.Env = append(append(os.Environ(), s.env...), more...)
	cmd.Stderr = errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
	out, err := cmd.Output()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = nil
	s.passes++
	var sum sweep.Summary
	if json.Unmarshal(out, &sum) == nil {
		s.sum.Looked += sum.Looked
		s.sum.Lost += sum.Lost
		s.sum.Due += sum.Due
		s.sum.Waiting += sum.Waiting
		s.sum.Failed += sum.Failed
		s.sum.Reconciled += sum.Reconciled
	}
	if err != nil {
		s.failed++
	}
	return err
}

// loop sweeps until ctx ends, with a pause after each pass.
func (s *sweeps) loop(ctx context.Context, pause, olderThan time.Duration) {
	for ctx.Err() == nil {
		_ = s.pass(ctx, olderThan) // what failed, the next one does
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// signal sends a signal to the pass that is under way; false when none is.
func (s *sweeps) signal(sig os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil && s.cmd.Process != nil && s.cmd.Process.Signal(sig) == nil
}

func (s *sweeps) summary() (sweep.Summary, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum, s.passes
}
