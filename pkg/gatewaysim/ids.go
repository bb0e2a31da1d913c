package gatewaysim

import (
	"math/rand/v2"
	"strings"
)

const (
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	hexes  = "0123456789abcdef"
	digits = "0123456789"
)

// The streams of random numbers, so that a change in one part leaves the
// others as they were.
const (
	streamPlan uint64 = iota + 1
	streamSchedule
	streamSecrets
	streamAPI
	streamRequest
	streamPayment uint64 = 1 << 32 // plus the payment's index
)

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

func randomText(r *rand.Rand, n int, alphabet string) string {
	var b strings.Builder
	b.Grow(n)
	for range n {
		b.WriteByte(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// mix is a hash of numbers that is the same on every machine (splitmix64).
func mix(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h ^= p
		h += 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// chance says whether a hash falls within a share.
func chance(h uint64, share float64) bool {
	return float64(h>>11)/(1<<53) < share
}
