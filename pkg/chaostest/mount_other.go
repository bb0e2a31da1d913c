//go:build !linux

package chaostest

import "errors"

func mount(string, string) error { return errors.ErrUnsupported }

func unmount(string) {}
