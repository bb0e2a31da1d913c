package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The exit codes of every binary.
const (
	ExitOK     = 0
	ExitFailed = 1 // it ran and something went wrong
	ExitConfig = 2 // it did not start: settings or arguments
)

// ConfigError marks an error of settings or arguments: ExitConfig.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// ExitError gives an error an exit code of its own.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the code for what a main function's run returned.
func ExitCode(err error) int {
	var exit *ExitError
	var config *ConfigError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &config):
		return ExitConfig
	}
	return ExitFailed
}

// Main runs a binary to its end and exits: with a context that ends with the
// first SIGTERM or SIGINT, and the process with the second. The error goes to
// stderr after the name.
//
//	func main() { daemon.Main("ingest", run) }
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := Signals(context.Background(), os.Exit)
	err := armFailpoints()
	if err == nil {
		err = run(ctx)
	}
	stop()
	report(os.Stderr, name, err)
	os.Exit(ExitCode(err))
}

func report(w io.Writer, name string, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintf(w, "%s: %s\n", name, line) //nolint:errcheck // nowhere to report it
	}
}

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

func (e SignalError) Error() string { return "signal: " + e.Signal.String() }

// Signals returns a context that the first SIGTERM or SIGINT ends, with a
// SignalError as its cause. The second one calls exit with 128 and the
// signal's number: somebody does not want to wait. stop gives the signals
// back to their defaults.
func Signals(parent context.Context, exit func(code int)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for first := true; ; first = false {
			select {
			case <-quit:
				return
			case s := <-signals:
				if !first {
					code := 128
					if n, ok := s.(syscall.Signal); ok {
						code += int(n)
					}
					exit(code)
					return
				}
				cancel(SignalError{s})
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(quit)
		<-done
		cancel(context.Canceled)
	}
}

// Logger writes JSON lines to stderr, from a level on. Nothing is sampled: a
// line that repeats is limited where it is written.
func Logger(level string) (*zap.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return nil, &ConfigError{err}
	}
	return newLogger(l, zapcore.Lock(os.Stderr)), nil
}

func newLogger(level zapcore.Level, out zapcore.WriteSyncer) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey, enc.EncodeTime = "at", zapcore.RFC3339NanoTimeEncoder
	enc.MessageKey = "event"
	enc.NameKey = "room"
	enc.EncodeDuration = zapcore.StringDurationEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), out, level), zap.ErrorOutput(out))
}

func parseLevel(level string) (zapcore.Level, error) {
	switch level {
	case "debug", "info", "warn", "error":
		return zapcore.ParseLevel(level)
	case "":
		return zapcore.InfoLevel, nil
	}
	return 0, fmt.Errorf("LOG_LEVEL is %q; it must be debug, info, warn or error", level)
}
