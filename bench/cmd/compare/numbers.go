package main

import (
	"math/bits"
	"slices"
	"time"
)

// A histogram counts durations in buckets that are 1/32 wide, relatively. Its
// keys are bucket numbers, which Bench.java computes in the same way.
type histogram map[int]int64

func (h histogram) add(d time.Duration) { h[bucket(int64(d))]++ }

func bucket(ns int64) int {
	ns = max(ns, 0)
	if ns < 64 {
		return int(ns)
	}
	shift := bits.Len64(uint64(ns)) - 6
	return shift<<5 + int(ns>>shift)
}

// floor returns the least duration in a bucket.
func lowest(bucket int) time.Duration {
	if bucket < 64 {
		return time.Duration(bucket)
	}
	shift := bucket>>5 - 1
	return time.Duration(bucket-shift<<5) << shift
}

func (h histogram) merge(o histogram) {
	for b, n := range o {
		h[b] += n
	}
}

// quantile returns what a share q of the durations does not exceed, as exactly
// as the buckets are; 0 when there are none.
func (h histogram) quantile(q float64) time.Duration {
	var all int64
	keys := make([]int, 0, len(h))
	for b, n := range h {
		all += n
		keys = append(keys, b)
	}
	slices.Sort(keys)
	var sum int64
	for _, b := range keys {
		if sum += h[b]; float64(sum) >= q*float64(all) {
			return lowest(b)
		}
	}
	return 0
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}
