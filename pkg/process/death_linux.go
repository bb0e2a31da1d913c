package process

import "syscall"

// dieWithParent ends the child when its starter is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
