package stage

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/text"
)

// A View shows progress: on a terminal, one line for each scenario that changes
// in place; elsewhere, one line for each finished scenario.
type View struct {
	out   terminal.Printer
	Live  bool // on a terminal
	Quiet bool // print nothing at the end of a scenario
}

// NewView returns a View that writes to out.
func NewView(out io.Writer) *View {
	v := &View{Live: terminal.IsTerminal(out)}
	v.out.To(out)
	return v
}

// Follow shows the progress of a scenario until done is called with the result.
func (v *View) Follow(st *Stage) (done func(*Result)) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	if v.Live {
		wg.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				v.out.Printf("\r%-16s %9s acquired %7s waiting %6.1fs\x1b[K", st.name,
					text.Grouped(st.waits.count.Load()), text.Grouped(uint64(max(st.waiting.Load(), 0))), st.elapsed().Seconds())
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
	}
	return func(r *Result) {
		close(stop)
		wg.Wait()
		if v.Quiet {
			return
		}
		start, end := "", ""
		if v.Live {
			start, end = "\r", "\x1b[K"
		}
		v.out.Printf("%s%-16s %9s acquired in %5.1fs  %s%s\n", start, st.name,
			text.Grouped(r.Acquisitions), r.Elapsed.Seconds(), v.mark(r), end)
	}
}

// mark describes the result of a scenario in one word.
func (v *View) mark(r *Result) string {
	switch {
	case r.Err != nil:
		return v.out.Paint("31", "failed: "+text.Harmless(r.Err.Error()))
	case r.Violations > 0:
		return v.out.Paint("31", fmt.Sprintf("%d violations", r.Violations))
	}
	return v.out.Paint("32", "ok")
}

// Table prints the results.
func (v *View) Table(results []*Result) {
	v.out.Printf("\n")
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scenario\tacquired\tper second\twait p50\tp99\tmax\tviolations\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", r.Name, text.Grouped(r.Acquisitions),
			text.Grouped(uint64(float64(r.Acquisitions)/max(r.Elapsed.Seconds(), 1e-9))),
			text.Short(r.P50), text.Short(r.P99), text.Short(r.Max), r.Violations)
	}
	_ = w.Flush()
	v.out.Printf("%s\n", b.String())
}
