package stage

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations in buckets whose width is at most a sixteenth of
// their value. It is safe for concurrent use. The zero value is empty.
type histogram struct {
	buckets [buckets]atomic.Uint64
	count   atomic.Uint64
	longest atomic.Int64
}

const (
	halves  = 4 // significant bits of a duration, besides the first
	buckets = (64 - halves) << halves
)

// bucket returns the bucket of d.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 1<<halves {
		return int(n)
	}
	shift := bits.Len64(n) - halves - 1
	return shift<<halves + int(n>>shift)
}

// upper returns the longest duration of a bucket.
func upper(b int) time.Duration {
	if b < 1<<halves {
		return time.Duration(b)
	}
	shift := b>>halves - 1
	return time.Duration((uint64(b&(1<<halves-1)|1<<halves)+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucket(d)].Add(1)
	h.count.Add(1)
	for {
		old := h.longest.Load()
		if int64(d) <= old || h.longest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// quantile returns the duration that a fraction q of the durations does not
// exceed, or 0 if the histogram is empty.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.count.Load()))
	var seen uint64
	for b := range h.buckets {
		n := h.buckets[b].Load()
		if seen += n; n > 0 && seen > rank {
			return min(upper(b), h.max())
		}
	}
	return h.max()
}

func (h *histogram) max() time.Duration { return time.Duration(h.longest.Load()) }
