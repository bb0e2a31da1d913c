//go:build !failpoints

package failpoint

import "time"

// Clock is the time now.
func Clock() time.Time { return time.Now() }

// Shift does nothing in a program that was not built to be broken.
func Shift(time.Duration) {}
