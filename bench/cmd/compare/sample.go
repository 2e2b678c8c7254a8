package main

import (
	"reflect"
	"strings"
	"time"
)

// A sample is what one side's turn has cost. Where a side cannot tell, a field
// is -1. "Per op" is per operation counted in Rate.
type sample struct {
	Rate        float64 // a second; hand-overs, where all want the same thing
	P50         float64 // ms
	P99         float64 // ms
	Max         float64 // ms
	Sent        float64 // commands per op
	Executed    float64 // per op, in Redis, with what scripts call
	BytesIn     float64 // per op, to Redis
	BytesOut    float64 // per op, from Redis
	ClientCPU   float64 // µs per op
	RedisCPU    float64 // µs per op
	Cores       float64 // in use, of clients and Redis together
	Connections float64 // to Redis
	Goroutines  float64
	Heap        float64 // MB, with stacks; where many wait, what they have added
	Allocs      float64 // per op
	Poorest     float64 // process, as a share of their mean
	Richest     float64
	Stuck       float64 // waiters that had not come back after 10 s
	Overlaps    float64 // were inside together with too many others
	Extra       map[string]float64
}

// newSample sums up what the processes of a turn, and the servers, have told.
func newSample(side string, outcomes []*outcome, before, after used) *sample {
	times := histogram{}
	s := &sample{Extra: map[string]float64{}}
	var ops, changed, allocs float64
	var cpu, elapsed, longest time.Duration
	least, most := outcomes[0].Ops, outcomes[0].Ops
	open := 0.0
	for _, o := range outcomes {
		times.merge(o.Times)
		ops, changed, allocs = ops+float64(o.Ops), changed+float64(o.Changed), allocs+float64(o.Allocs)
		s.Sent += float64(o.Sent)
		cpu += o.CPU
		elapsed, longest = max(elapsed, o.Elapsed), max(longest, o.Max)
		least, most = min(least, o.Ops), max(most, o.Ops)
		open += float64(o.Open)
		s.Goroutines += float64(o.Routines)
		s.Heap += float64(o.Heap) / 1e6
		s.Stuck += float64(o.Stuck)
		s.Overlaps += float64(o.Overlaps)
		for name, x := range o.Extra {
			s.Extra[name] += x
		}
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	s.P50, s.P99, s.Max = ms(times.quantile(0.5)), ms(times.quantile(0.99)), ms(longest)
	s.Rate = changed / elapsed.Seconds()
	redis := after.cpu - before.cpu
	s.Cores = (cpu + redis).Seconds() / elapsed.Seconds()
	each := func(x float64) float64 { return x / max(changed, 1) }
	s.Connections = open
	switch {
	case outcomes[0].Sent == unknown: // not from here
		s.Sent = -1
	case outcomes[0].Sent == askServer:
		s.Sent, s.Connections = each(float64(after.sent(side)-before.sent(side))), float64(after.connections)
	default:
		s.Sent = each(s.Sent)
	}
	s.Executed = each(float64(after.executed - before.executed))
	s.BytesIn = each(float64(after.in - before.in))
	s.BytesOut = each(float64(after.out - before.out - before.answers))
	s.ClientCPU, s.RedisCPU = each(float64(cpu.Microseconds())), each(float64(redis.Microseconds()))
	s.Allocs = each(allocs)
	if outcomes[0].Sent == unknown {
		s.Executed, s.BytesIn, s.BytesOut, s.RedisCPU, s.Connections = -1, -1, -1, -1, -1
	}
	if n := float64(len(outcomes)); n > 1 && ops > 0 {
		s.Poorest, s.Richest = float64(least)*n/ops, float64(most)*n/ops
	}
	return s
}

// What an outcome says in Sent where the process does not count.
const (
	unknown   = -1 // nobody knows
	askServer = -2
)

// medians returns the median of each field.
func medians(all []*sample) *sample {
	m := &sample{Extra: map[string]float64{}}
	to := reflect.ValueOf(m).Elem()
	for i := range to.NumField() {
		if to.Field(i).Kind() != reflect.Float64 {
			continue
		}
		var xs []float64
		for _, s := range all {
			xs = append(xs, reflect.ValueOf(s).Elem().Field(i).Float())
		}
		to.Field(i).SetFloat(median(xs))
	}
	for name := range all[0].Extra {
		var xs []float64
		for _, s := range all {
			xs = append(xs, s.Extra[name])
		}
		m.Extra[name] = median(xs)
	}
	return m
}

// A row is a side in a scenario.
type row struct {
	Side      string
	Error     string  `json:",omitempty"` // why there are no figures
	Ratio     float64 // to the floor, median over the rounds; 0 without one
	TailRatio float64 // of p99
	sample
	samples []*sample
}

// ours reports whether a failure of the side is one of this project.
func (r *row) ours() bool {
	return strings.HasPrefix(r.Side, "latchkey") || strings.HasPrefix(r.Side, "floor")
}

// A result is a scenario with its rows.
type result struct {
	scenario
	Rows []*row
}

func lines(all []string) string { return strings.Join(all, "\n") }
