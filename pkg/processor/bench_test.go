package processor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// BenchmarkSettle compares batches with one transaction an event, with the
// same statements, in the same run: capture and fee, spread over many
// payments and beneficiaries, no lookups. The ratio is the claim; the rates
// are of this machine.
func BenchmarkSettle(b *testing.B) {
	const events = 2000
	for b.Loop() {
		single := rate(b, 300, 1, spread)
		for _, batch := range []int{10, 100, 500} {
			r := rate(b, events, batch, spread)
			b.ReportMetric(r/single, fmt.Sprintf("x_batch_%d", batch))
			if batch == 500 {
				b.ReportMetric(r, "events/s_batch_500")
				b.ReportMetric(rate(b, events, batch, hot)/r, "hot/spread")
			}
		}
		b.ReportMetric(single, "events/s_single")
	}
}

func spread(i int) string { return fmt.Sprintf("loja-%d", i%100) }
func hot(int) string      { return "loja" }

var benchRun int

// rate settles n paid events in batches and gives events a second.
func rate(b *testing.B, n, batch int, owner func(int) string) float64 {
	b.Helper()
	w := newWorld(b, provider.LookupNever)
	benchRun++
	ids := make([]int64, n)
	for i := range ids {
		c := paid(fmt.Sprintf("pay_%d_%d", benchRun, i))
		c.Facts[1].ID = fmt.Sprintf("fee_%d_%d", benchRun, i)
		c.Beneficiary = owner(i)
		ids[i] = w.receive(c)
	}
	started := time.Now()
	for chunk := range slices.Chunk(ids, batch) {
		w.process(chunk...)
	}
	took := time.Since(started)
	w.wantStatus(fmt.Sprintf("pay_%d_%d", benchRun, n-1), payment.StatusPaid)
	return float64(n) / took.Seconds()
}
