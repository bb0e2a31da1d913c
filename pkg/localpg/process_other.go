//go:build !unix

package localpg

import (
	"errors"
	"os"
	"os/exec"
)

var errUnsupported = errors.New("local PostgreSQL: not supported on this system; set DATABASE_URL")

type owner struct{ name string }

func findOwner() (owner, error)         { return owner{}, errUnsupported }
func (owner) reaches(string) bool       { return false }
func (owner) owns(os.FileInfo) bool     { return false }
func (owner) give(string) error         { return errUnsupported }
func (owner) run(*exec.Cmd)             {}
func lockFile(string) (*os.File, error) { return nil, errUnsupported }
func isPostmaster(int, string) bool     { return false }

type stopMode int

const (
	fastStop stopMode = iota
	immediateStop
)

func signal(int, stopMode) error { return errUnsupported }

type process struct {
	pid  int
	done chan struct{}
	err  error
}

func startProcess(*exec.Cmd) (*process, error) { return nil, errUnsupported }
func (p *process) stop(stopMode) error         { return errUnsupported }
func (p *process) powerOff() error             { return errUnsupported }
