package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// A demoView shows how the demo goes on: on a terminal a line for each scenario
// that changes in place, elsewhere a line for each that is over.
type demoView struct {
	out    io.Writer
	live   bool
	colour bool
	quiet  bool // says nothing when a scenario is over
}

func newDemoView(out io.Writer) *demoView {
	live := isTerminal(out)
	return &demoView{out: out, live: live, colour: live && os.Getenv("NO_COLOR") == ""}
}

// follow shows a scenario until the function it returns is called with the
// result.
func (v *demoView) follow(st *stage) (done func(*demoResult)) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	if v.live {
		wg.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				fmt.Fprintf(v.out, "\r%-16s %9s acquired %7s waiting %6.1fs\x1b[K", st.name,
					grouped(st.waits.count.Load()), grouped(uint64(max(st.waiting.Load(), 0))), st.elapsed().Seconds())
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
	}
	return func(r *demoResult) {
		close(stop)
		wg.Wait()
		if v.quiet {
			return
		}
		start, end := "", ""
		if v.live {
			start, end = "\r", "\x1b[K"
		}
		fmt.Fprintf(v.out, "%s%-16s %9s acquired in %5.1fs  %s%s\n", start, st.name,
			grouped(r.acquisitions), r.elapsed.Seconds(), v.mark(r), end)
	}
}

// mark says in a word how a scenario went.
func (v *demoView) mark(r *demoResult) string {
	switch {
	case r.err != nil:
		return v.paint("31", "failed: "+harmless(r.err.Error()))
	case r.violations > 0:
		return v.paint("31", fmt.Sprintf("%d violations", r.violations))
	}
	return v.paint("32", "ok")
}

func (v *demoView) paint(colour, text string) string {
	if !v.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// table shows the results.
func (v *demoView) table(results []*demoResult) {
	fmt.Fprintln(v.out)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scenario\tworkers\tacquisitions\tper second\twait p50\tp99\tmax\tviolations\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t\n", r.name, r.workers, grouped(r.acquisitions),
			grouped(uint64(float64(r.acquisitions)/max(r.elapsed.Seconds(), 1e-9))),
			short(r.p50), short(r.p99), short(r.max), r.violations)
	}
	_ = w.Flush()
	fmt.Fprintln(v.out, b.String())
}

// grouped writes a number with a comma for each thousand.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
