// Command chaos plays a campaign of faults against umavez on this machine and
// judges what is left; see package chaostest. `make chaos` builds and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/chaostest"
	"github.com/umavez/umavez/pkg/daemon"
)

func main() {
	daemon.Main("chaos", func(ctx context.Context) error {
		root := &cobra.Command{Use: "chaos", Short: "Break everything on purpose and look for harm", Args: cobra.NoArgs}
		root.AddCommand(campaign(), recovery(), prefetch(), overload(), broker())
		return daemon.Execute(ctx, root)
	})
}

func campaign() *cobra.Command {
	cfg := chaostest.Config{Say: func(format string, args ...any) {
		fmt.Printf("%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}}
	var minutes float64
	var brokers []int
	var short bool
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Play faults under load and judge what is left",
		Long: `Play faults under load and judge what is left.

Everything runs on this machine and talks over loopback. Exit codes: 0 nothing
was found, 1 something was, or a kind of fault or rescue did not occur,
2 arguments.`,
		Example: `  chaos campaign                           ten minutes
  chaos campaign --minutes 60 --seed 7     longer, with other cards
  chaos campaign --brokers 3               with a cluster of brokers alone`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.For = time.Duration(minutes * float64(time.Minute))
			for _, n := range brokers {
				if n != 1 && n != 3 {
					return &daemon.ConfigError{Err: fmt.Errorf("--brokers %d: an act has 1 broker or 3", n)}
				}
				cfg.Acts = append(cfg.Acts, chaostest.Act{Brokers: n})
			}
			cfg.Demanding = !short
			if err := cfg.Validate(); err != nil {
				return &daemon.ConfigError{Err: err}
			}
			return play(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", ".umavez", "directory of the report and of the processes' logs")
	f.StringVar(&cfg.Programs, "programs", "bin/failpoints", "directory of the programs, built with the tag failpoints")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of the gateways and of the faults")
	f.Float64Var(&minutes, "minutes", 10, "of load and faults, over all acts; to settle and judge takes some more")
	f.IntSliceVar(&brokers, "brokers", []int{1, 3}, "brokers of each act")
	f.Float64Var(&cfg.Rate, "rate", 40, "webhooks a second")
	f.IntVar(&cfg.Lanes, "lanes", 8, "faults at once, at most")
	f.BoolVar(&short, "short", false, "do not demand that every kind of fault and rescue occurs")
	return cmd
}

func play(ctx context.Context, cfg chaostest.Config) error {
	path := filepath.Join(cfg.Dir, "chaos-report.json")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r, err := chaostest.Run(ctx, cfg)
	if r == nil {
		return err
	}
	md, openErr := os.Create(filepath.Join(cfg.Dir, "chaos-report.md"))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	r.Markdown(md)
	r.Markdown(os.Stdout)
	err = errors.Join(err, md.Close(), r.WriteJSON(path))
	if err == nil && !r.OK() {
		err = fmt.Errorf("%d violations, %d kinds missing; see above and %s", r.Violations, len(r.Missing), path)
	}
	return err
}

// broker is one broker of a campaign, as a process of its own.
func broker() *cobra.Command {
	var name, dir, addr, cluster, routes string
	cmd := &cobra.Command{
		Use: "broker", Short: "Run one broker of a campaign", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return chaostest.RunBroker(cmd.Context(), name, dir, addr, cluster, routes)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "of the server")
	f.StringVar(&dir, "dir", "", "of its streams")
	f.StringVar(&addr, "addr", "", "to listen on")
	f.StringVar(&cluster, "cluster", "", "to listen on for the others of its cluster")
	f.StringVar(&routes, "routes", "", "addresses of all members, comma-separated")
	return cmd
}
