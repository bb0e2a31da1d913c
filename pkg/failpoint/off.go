//go:build !failpoints

package failpoint

import (
	"context"
	"errors"
)

// Enabled says whether this program was built with failpoints.
const Enabled = false

// At does nothing.
func At(context.Context, string) error { return nil }

// Armed says whether anything is armed at a point whose name has the prefix.
func Armed(string) bool { return false }

// Arm is an error: this program has no failpoints.
func Arm(string) error { return errors.New("this program was built without the tag failpoints") }

// Reset does nothing.
func Reset() {}

// Now is empty.
func Now() State { return State{} }
