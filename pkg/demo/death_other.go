//go:build !linux

package demo

import "syscall"

// dieWithParent has no equivalent here: a killed demo leaves its children.
func dieWithParent(*syscall.SysProcAttr) {}
