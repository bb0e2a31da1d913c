package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/daemon"
)

// Role is what one process does.
type Role interface {
	Parts() []Part
	Ready(context.Context) error
	Close()
}

// Build checks and opens a role; its metrics carry its name.
type Build struct {
	Name string
	// Check reads the role's settings, opens nothing, and reports all faults.
	Check func() error
	Open  func(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (Role, error)
}

// Serve runs roles as one daemon until ctx ends: settings, logger, admin
// address, parts, and an orderly shutdown. Errors before the start are of
// settings or of what the role depends on.
func Serve(ctx context.Context, name string, builds ...Build) error {
	cfg, err := check(builds...)
	if err != nil {
		return err
	}
	log, err := daemon.Logger(cfg.LogLevel)
	if err != nil {
		return err
	}
	log = log.Named(name)
	defer log.Sync() //nolint:errcheck // stderr cannot always be synced
	reg := NewRegistry()
	d := daemon.New(cfg, log, reg)
	var opened []Role
	for _, build := range builds {
		role, err := build.Open(ctx, log, prometheus.WrapRegistererWith(prometheus.Labels{"role": build.Name}, reg))
		if err != nil {
			for _, r := range opened {
				r.Close()
			}
			return &daemon.ConfigError{Err: err}
		}
		opened = append(opened, role)
		for _, p := range role.Parts() {
			d.Go(p.Name, p.Run)
		}
		d.Ready(build.Name+" database", role.Ready)
		d.Close(build.Name+" connections", func(context.Context) error { role.Close(); return nil })
	}
	return d.Run(ctx)
}

// Check reads the settings of roles and of the process around them, and
// reports all faults at once.
func Check(builds ...Build) error {
	_, err := check(builds...)
	return err
}

func check(builds ...Build) (cfg daemon.Config, err error) {
	faults := []error{load(&cfg)}
	for _, b := range builds {
		faults = append(faults, b.Check())
	}
	if err := distinct(faults...); err != nil {
		return cfg, &daemon.ConfigError{Err: err}
	}
	return cfg, nil
}

// NewRegistry is a metrics registry with the process's own collectors.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// The roles.
var (
	IngestRole = Build{"ingest", func() error { return new(ingestSettings).load(zap.NewNop()) }, func(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (Role, error) {
		return orNil(NewIngest(ctx, log, reg))
	}}
	ProcessorRole = Build{"processor", func() error { return new(processorSettings).load(zap.NewNop()) }, func(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (Role, error) {
		return orNil(NewProcessor(ctx, log, reg))
	}}
	SweeperRole = Build{"sweeper", func() error { return new(sweeperSettings).load(zap.NewNop(), nil) }, func(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (Role, error) {
		return orNil(NewSweeper(ctx, log, reg, nil))
	}}
)

// orNil keeps a failed build from becoming a non-nil interface.
func orNil[R Role](r R, err error) (Role, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
