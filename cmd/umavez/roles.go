package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/queue"
)

// roleCommand runs one role as a process of its own, from this same program:
// the demo kills such processes.
func roleCommand() *cobra.Command {
	roles := map[string]app.Build{"ingest": app.IngestRole, "processor": app.ProcessorRole, "sweeper": app.SweeperRole}
	return &cobra.Command{
		Use:    "role {ingest|processor|sweeper}",
		Short:  "Run one role, like the binary of its name",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			build, ok := roles[args[0]]
			if !ok {
				return &daemon.ConfigError{Err: fmt.Errorf("role %q is unknown", args[0])}
			}
			return app.Serve(cmd.Context(), args[0], build)
		},
	}
}

// brokerCommand runs the embedded broker as a process of its own.
func brokerCommand() *cobra.Command {
	var dir, sync string
	var port int
	cmd := &cobra.Command{
		Use:    "broker",
		Short:  "Run the embedded broker as a process of its own",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return &daemon.ConfigError{Err: errors.New("--dir is empty; give the directory of the streams")}
			}
			if port < 0 || port > 65535 {
				return &daemon.ConfigError{Err: fmt.Errorf("--port is %d; it must be from 0 to 65535", port)}
			}
			every, err := time.ParseDuration(sync)
			if sync == "always" {
				every, err = 0, nil
			} else if err != nil || every <= 0 {
				return &daemon.ConfigError{Err: fmt.Errorf("--sync is %q; it must be \"always\" or a time such as 10s", sync)}
			}
			n, err := queue.StartEmbeddedSyncing(dir, port, every)
			if err != nil {
				return &daemon.ConfigError{Err: err}
			}
			defer n.Shutdown()
			for _, name := range n.Removed {
				fmt.Fprintf(os.Stderr, "broker: a power cut left too little of the consumer %s to go on with; who makes it again gets everything that its stream holds\n", name)
			}
			fmt.Println(n.URL())
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the streams")
	cmd.Flags().StringVar(&sync, "sync", queue.DefaultSync.String(), "how often messages are flushed to disk, or \"always\": before each acknowledgement")
	cmd.Flags().IntVar(&port, "port", 0, "port on 127.0.0.1; 0 takes a free one")
	return cmd
}
