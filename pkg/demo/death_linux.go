package demo

import "syscall"

// dieWithParent ends the child when the demo is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
