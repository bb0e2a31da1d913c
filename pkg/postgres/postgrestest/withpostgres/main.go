// Command withpostgres runs a command with DATABASE_URL set: to what it is
// already, else to a local cluster that lives as long as the command.
//
//	go run ./pkg/postgres/postgrestest/withpostgres go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		code = 1
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("say which command to run")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := os.Environ()
	if os.Getenv("DATABASE_URL") == "" {
		cluster, err := postgrestest.StartShared(ctx)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		env = append(env, "DATABASE_URL="+cluster.URL(""))
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}
