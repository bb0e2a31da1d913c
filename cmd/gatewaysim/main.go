// Command gatewaysim plays the payment gateways against a umavez on this
// machine: signed webhooks, repeated, shuffled, forged and lost, and the
// lookup APIs that go with them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes. They do not change.
const (
	exitOK     = 0
	exitTarget = 1 // it ran, and the target did not behave
	exitUsage  = 2 // it could not run: flags, settings, an address in use
)

// errTarget marks results that are the target's fault.
var errTarget = errors.New("the target did not behave")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "gatewaysim:", err)
	if errors.Is(err, errTarget) {
		return exitTarget
	}
	return exitUsage
}
