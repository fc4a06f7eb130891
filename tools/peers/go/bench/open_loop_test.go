// Varve: a key-value storage engine. MIT licence, see LICENSE.

package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The tests of db_bench's open loop, with the same figures.

func TestPercentilesAreWithinOnePercent(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	var values []uint64
	var whole, part histogram
	for range 100000 {
		value := source.Uint64() >> (20 + source.UintN(40))
		values = append(values, value)
		if value%2 == 0 {
			whole.add(value)
		} else {
			part.add(value)
		}
	}
	whole.merge(&part)
	slices.Sort(values)
	for _, percent := range []float64{50, 99, 99.9, 99.99} {
		exact := values[int(percent*1000)-1]
		got := whole.percentile(percent)
		if difference := max(got, exact) - min(got, exact); difference*100 >
			exact {
			t.Errorf("P%v: %d, not %d", percent, got, exact)
		}
	}
	if whole.most != values[len(values)-1] {
		t.Error(whole.most)
	}
	var one histogram
	one.add(64000)
	if one.percentile(50) != 64000 || one.percentile(99.99) != 64000 {
		t.Error(one.percentile(50))
	}
}

// fakeClock moves on by itself only while it is waited for.
type fakeClock struct{ time, sleeps, pauses uint64 }

func (c *fakeClock) now() uint64              { return c.time }
func (c *fakeClock) sleep(nanoseconds uint64) { c.time += nanoseconds; c.sleeps++ }
func (c *fakeClock) pause()                   { c.time += 100; c.pauses++ }

func TestScheduleSharesTheRateAmongThreads(t *testing.T) {
	first, last := schedule{100000, 2, 0}, schedule{100000, 2, 1}
	for i, due := range []uint64{0, 20000, 40000} {
		if first.dueAt(uint64(i)) != due || last.dueAt(uint64(i)) != due+10000 {
			t.Error(i, first.dueAt(uint64(i)), last.dueAt(uint64(i)))
		}
	}
	// Three in a second; the product with nanoseconds has more than 64 bits.
	if due := (schedule{3, 1, 0}).dueAt(24000000001); due != 8000000000333333333 {
		t.Error(due)
	}
	if n := (schedule{3, 2, 1}).countWithin(1); n != 1 {
		t.Error(n)
	}
	if n := (schedule{3, 2, 0}).countWithin(1); n != 2 {
		t.Error(n)
	}
	if n := (schedule{1, 2, 1}).countWithin(1); n != 0 {
		t.Error(n)
	}
}

func TestLatencyCountsFromWhenAnOperationWasDue(t *testing.T) {
	// Due each 10 us; each takes 2 us, and the second 35 us.
	var time fakeClock
	took := []uint64{2000, 35000, 2000, 2000, 2000, 2000, 2000}
	var latencies []uint64
	i := 0
	var latency *histogram
	done := runOpenLoop(schedule{100000, 1, 0}, 7, &time, func() {
		if latency != nil {
			latencies = append(latencies, latency.most)
		}
	}, func() *histogram {
		time.time += took[i]
		i++
		latency = &histogram{}
		return latency
	})
	latencies = append(latencies, latency.most)
	want := []uint64{2000, 35000, 27000, 19000, 11000, 3000, 2000}
	if done != 7 || !slices.Equal(latencies, want) {
		t.Error(done, latencies)
	}
	if time.sleeps != 0 || time.pauses == 0 || time.time != 62000 {
		t.Error(time)
	}
}

func TestSleepsUntilShortlyBefore(t *testing.T) {
	var time fakeClock
	waitUntilDue(1000000, &time)
	if time.sleeps != 1 || time.pauses != 2000 || time.time != 1000000 {
		t.Error(time)
	}
	time = fakeClock{}
	waitUntilDue(400000, &time)
	if time.sleeps != 0 || time.pauses != 4000 {
		t.Error(time)
	}
}
