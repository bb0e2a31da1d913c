//go:build failpoints

package e2e

const buildTags = "failpoints"
