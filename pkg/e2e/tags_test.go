//go:build !failpoints

package e2e

// buildTags are those of the binaries under test.
const buildTags = ""
