package e2e

import "syscall"

// dieWithParent ends a child when the test binary is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
