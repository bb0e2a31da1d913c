package localpg

import "syscall"

// dieWithParent asks the kernel for an orderly stop when the thread that
// started the server ends; see startProcess.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }
