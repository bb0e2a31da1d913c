//go:build race

package virtual

// slower is how many times less is done under the race detector.
const slower = 10
