package stage

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHistogram(t *testing.T) {
	var h histogram
	assert.Zero(t, h.quantile(0.5))
	assert.Zero(t, h.max())
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	assert.InEpsilon(t, 500*time.Millisecond, h.quantile(0.5), 1.0/16)
	assert.InEpsilon(t, 990*time.Millisecond, h.quantile(0.99), 1.0/16)
	assert.Equal(t, time.Second, h.quantile(1))
	assert.Equal(t, time.Second, h.max())

	last := -1
	for shift := range 63 {
		for _, d := range []time.Duration{1<<shift - 1, 1 << shift, 1<<shift + time.Duration(rand.Int64N(1<<shift))} {
			b := bucket(d)
			assert.GreaterOrEqual(t, b, last, d)
			assert.Less(t, b, buckets)
			assert.GreaterOrEqual(t, upper(b), d)
			assert.LessOrEqual(t, upper(b)-d, d/16, d)
			last = b
		}
	}
}
