package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParserCountsRequestsHoweverTheyAreCut(t *testing.T) {
	const stream = "*1\r\n$4\r\nPING\r\n" + "*3\r\n$3\r\nSET\r\n$5\r\n*2\r\n$\r\n$0\r\n\r\n" + "*2\r\n$3\r\nGET\r\n$12\r\n123456789012\r\n"
	for size := 1; size <= len(stream); size++ {
		var p parser
		var n int64
		for part := range slices.Chunk([]byte(stream), size) {
			n += p.feed(part)
		}
		if n != 3 {
			t.Errorf("in pieces of %d: %d requests, not 3", size, n)
		}
	}
}

func TestHistogram(t *testing.T) {
	h := histogram{}
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		want := time.Duration(q*1000) * time.Millisecond
		if got := h.quantile(q); got > want || float64(got) < 0.96*float64(want) {
			t.Errorf("quantile %v is %v, not about %v", q, got, want)
		}
	}
	for _, ns := range []int64{0, 63, 64, 127, 128, 1 << 40} {
		if got := int64(lowest(bucket(ns))); got > ns || float64(got) < 0.96*float64(ns) {
			t.Errorf("the bucket of %d begins at %d", ns, got)
		}
	}
}

func TestBetween(t *testing.T) {
	const page = "a\n<!-- compare:x -->\nold\n<!-- /compare:x -->\nb\n"
	once, err := between(page, "x", "new\n")
	if err != nil || !strings.Contains(once, "new") || strings.Contains(once, "old") {
		t.Fatal(once, err)
	}
	if twice, _ := between(once, "x", "new\n"); twice != once {
		t.Errorf("a second time it changes:\n%s", twice)
	}
	if _, err := between(page, "y", ""); err == nil {
		t.Error("no mark, and no error")
	}
}

func TestMediansAndRatios(t *testing.T) {
	res := &result{scenario: scenario{Floor: "floor-set"}, Rows: []*row{{Side: "floor-set"}, {Side: "latchkey"}}}
	for _, x := range []float64{1, 10, 4} {
		res.Rows[0].samples = append(res.Rows[0].samples, &sample{Rate: x, P99: 1})
		res.Rows[1].samples = append(res.Rows[1].samples, &sample{Rate: 2 * x, P99: 3})
	}
	res.sum()
	if r := res.Rows[1]; r.Rate != 8 || r.Ratio != 2 || r.TailRatio != 3 {
		t.Errorf("rate %v, ratio %v, of p99 %v", r.Rate, r.Ratio, r.TailRatio)
	}
}

var widths = regexp.MustCompile(`width="(\d+)" height="12"`)

// Longer is better, also where what was measured is a time.
func TestLongerBarsAreBetter(t *testing.T) {
	rows := func(ratios ...float64) (all []*row) {
		for i, side := range []string{"floor-set", "latchkey", "redsync", "redislock", "etcd"} {
			all = append(all, &row{Side: side, Ratio: ratios[i]})
		}
		return all
	}
	rates := &result{scenario: scenario{Title: "rates", Floor: "floor-set"}, Rows: rows(1, 10, 0.5, 0.25, 1000)}
	times := &result{scenario: scenario{Title: "times", Floor: "floor-set", Slowness: true}, Rows: rows(1, 0.1, 2, 4, 0.001)}
	for _, res := range []*result{rates, times} {
		s := (&report{Results: []*result{res}}).bars()
		var got []string
		for _, m := range widths.FindAllStringSubmatch(s, -1) {
			got = append(got, m[1])
		}
		if want := "140 210 118 97 280"; strings.Join(got, " ") != want {
			t.Errorf("%s: bars of %v, want %v", res.Title, got, want)
		}
		if !strings.HasSuffix(s, "</svg>\n") || !strings.Contains(s, "1 × floor") {
			t.Error(s)
		}
	}
	few := &result{scenario: scenario{Floor: "floor-set"}, Rows: rows(1, 10, 0.5, 0, 0)[:3]}
	if s := (&report{Results: []*result{few}}).bars(); s != "" {
		t.Error("a picture of too little: ", s)
	}
}
