//go:build failpoints

package failpoint

import (
	"sync/atomic"
	"time"
)

var shift atomic.Int64

// Clock is the time now, as a machine has it whose clock is wrong by what
// Shift said.
func Clock() time.Time { return time.Now().Add(time.Duration(shift.Load())) }

// Shift sets the clock of this process wrong.
func Shift(by time.Duration) { shift.Store(int64(by)) }
