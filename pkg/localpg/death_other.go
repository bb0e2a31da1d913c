//go:build unix && !linux

package localpg

import "syscall"

// dieWithParent has no counterpart here: a server whose owner was killed goes
// on until the next Start in its directory stops it.
func dieWithParent(*syscall.SysProcAttr) {}
