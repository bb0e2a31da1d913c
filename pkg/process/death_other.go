//go:build !linux

package process

import "syscall"

// dieWithParent has no equivalent here: a killed starter leaves its children.
func dieWithParent(*syscall.SysProcAttr) {}
