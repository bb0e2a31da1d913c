package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

const defaultAPI = "127.0.0.1:8181"

func newServe() *cobra.Command {
	f := &simFlags{}
	var addr string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serves the lookup APIs of the gateways until interrupted",
		Long: `serve answers lookups about the simulation's payments, all of them at the end
of their histories, until it is interrupted. It prints umavez' settings first.`,
		Example: `  gatewaysim serve --seed 7 --payments 2000 --api-latency 40ms --api-429 0.02`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sim, err := f.sim()
			if err != nil {
				return err
			}
			sim.PublishAll()
			api, err := listen(sim, addr)
			if err != nil {
				return err
			}
			defer api.close()
			if err := printSettings(cmd.OutOrStdout(), sim, api.base, f.output); err != nil {
				return err
			}
			return api.wait(cmd.Context())
		},
	}
	f.register(cmd, defaultPayments)
	f.registerAPI(cmd)
	cmd.Flags().StringVar(&addr, "addr", defaultAPI, "address to listen on; of this machine only")
	return cmd
}

func newSettings() *cobra.Command {
	f := &simFlags{}
	var api string
	cmd := &cobra.Command{
		Use:     "settings",
		Short:   "Prints the environment by which umavez talks to this simulation",
		Example: `  gatewaysim settings --seed 7 > sim.env && set -a && . ./sim.env`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.cfg.Payments = 1 // settings do not depend on the payments
			sim, err := f.sim()
			if err != nil {
				return err
			}
			return printSettings(cmd.OutOrStdout(), sim, api, f.output)
		},
	}
	f.register(cmd, 1)
	f.registerAPI(cmd)
	cmd.Flags().StringVar(&api, "api", "http://"+defaultAPI, "address at which serve or storm will answer lookups")
	return cmd
}

func printSettings(w io.Writer, sim *gatewaysim.Sim, base, output string) error {
	settings := sim.Settings(base)
	if output == "json" {
		return writeJSON(w, settings)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(w, "%s=%s\n", name, shellQuote(settings[name]))
	}
	return nil
}

// apiServer is a lookup API that is being served.
type apiServer struct {
	base string
	srv  *http.Server
	done chan error
}

// listen serves the API on an address of this machine.
func listen(sim *gatewaysim.Sim, addr string) (*apiServer, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address like %s", addr, defaultAPI)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%q is not an address of this machine alone, like %s", addr, defaultAPI)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve the lookup API: %w", err)
	}
	a := &apiServer{
		base: "http://" + l.Addr().String(), done: make(chan error, 1),
		srv: &http.Server{Handler: sim.APIHandler(), ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { a.done <- a.srv.Serve(l) }()
	return a, nil
}

// wait returns when the context ends, or with the reason why the server did.
func (a *apiServer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.done:
		a.done <- http.ErrServerClosed
		return err
	}
}

func (a *apiServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := a.srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = a.srv.Close()
	}
	<-a.done
}
