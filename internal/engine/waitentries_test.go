package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/run"
)

// stand returns what is known to be in the list of k, or may be.
func (l *waitlist) stand() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, x := range l.m["k"] {
		all = append(all, x.entry)
	}
	return all
}

// An entry is forgotten when it is proved gone, and not before: whatever the order in
// which the answers to the requests come that put it in and take it out.
func TestListedUntilProvedGone(t *testing.T) {
	const mine, other = "c:1 30000 I 1-a", "c:2 30000 I 2-b"
	bubble.Test(t, func(t *testing.T) {
		put := func(l *waitlist) waitlistChange { return l.begin("k", "c:1", mine, "") }
		take := func(l *waitlist) waitlistChange { return l.begin("k", "c:9", "", "") }
		end := func(l *waitlist, r waitlistChange, o outcome) { l.end(&r, o, time.Now().Add(time.Second)) }
		in := func() *waitlist {
			l := new(waitlist)
			end(l, put(l), listEntered)
			return l
		}
		for name, f := range map[string]struct {
			left bool
			do   func() *waitlist
		}{
			"refused, and put in": {true, in},
			"taken out": {false, func() *waitlist {
				l := in()
				end(l, take(l), listCleared)
				return l
			}},
			"granted": {false, func() *waitlist {
				l := in()
				end(l, put(l), listCleared)
				return l
			}},
			"granted at once": {false, func() *waitlist {
				l := new(waitlist)
				end(l, put(l), listCleared)
				return l
			}},
			"never sent": {false, func() *waitlist {
				l := new(waitlist)
				end(l, put(l), listSame)
				return l
			}},
			"never sent again": {true, func() *waitlist {
				l := in()
				end(l, put(l), listSame)
				return l
			}},
			"asked again before it was taken out, and answered before": {true, func() *waitlist {
				l := in()
				p, q := put(l), take(l)
				end(l, p, listEntered)
				end(l, q, listCleared)
				return l
			}},
			"asked again before it was taken out, and answered after": {true, func() *waitlist {
				l := in()
				p, q := put(l), take(l)
				end(l, q, listCleared)
				end(l, p, listEntered)
				return l
			}},
			"asked again after it was taken out, and answered before": {true, func() *waitlist {
				l := in()
				q := take(l)
				end(l, put(l), listEntered)
				end(l, q, listCleared)
				return l
			}},
			"asked again after it was taken out, and answered after": {true, func() *waitlist {
				l := in()
				q := take(l)
				p := put(l)
				end(l, q, listCleared)
				end(l, p, listEntered)
				return l
			}},
			"not known when it was taken out": {true, func() *waitlist {
				l := new(waitlist)
				end(l, l.begin("k", "c:2", other, ""), listEntered)
				q := take(l)
				end(l, put(l), listEntered)
				end(l, q, listCleared)
				return l
			}},
			"without an answer": {true, func() *waitlist {
				l := new(waitlist)
				end(l, put(l), listUnknown)
				end(l, take(l), listCleared)
				return l
			}},
			"without an answer, and past it": {false, func() *waitlist {
				l := new(waitlist)
				end(l, put(l), listUnknown)
				time.Sleep(time.Second)
				end(l, take(l), listCleared)
				return l
			}},
			"taken out without an answer": {true, func() *waitlist {
				l := in()
				end(l, take(l), listUnknown)
				return l
			}},
			"given": {false, func() *waitlist {
				l := in()
				l.popped("k", "1-a")
				return l
			}},
			"given, and asking": {true, func() *waitlist {
				l := in()
				put(l)
				l.popped("k", "1-a")
				return l
			}},
			"another one's nonce": {true, func() *waitlist {
				l := in()
				l.popped("k", "2-b")
				l.popped("k", "")
				l.popped("l", "1-a")
				return l
			}},
			"another holder's taken out": {true, func() *waitlist {
				l := in()
				end(l, l.begin("k", "c:2", "", "c:2"), listCleared)
				return l
			}},
			"its holder's taken out": {false, func() *waitlist {
				l := in()
				end(l, l.begin("k", "c:1", "", "c:1"), listCleared)
				return l
			}},
			"another one's put in": {false, func() *waitlist {
				l := in()
				r := l.begin("k", "c:2", other, "")
				require.Equal(t, []string{mine}, r.takes)
				end(l, r, listEntered)
				require.Equal(t, []string{other}, l.stand())
				l.popped("k", "2-b")
				return l
			}},
			"of a handle with tokens": {false, func() *waitlist {
				l := new(waitlist)
				end(l, l.begin("k", "c:1", mine+" f", ""), listEntered)
				l.popped("k", "1-a")
				return l
			}},
			"lapsed": {false, func() *waitlist {
				l := in()
				time.Sleep(listKept + run.ClockSlack + time.Millisecond)
				take(l)
				return l
			}},
		} {
			l := f.do()
			require.Equal(t, f.left, len(l.stand()) > 0, name)
			require.Equal(t, f.left, l.has("k", "c:1"), name)
			require.Equal(t, f.left, l.n.Load() > 0, name)
		}
	})
}

// What has lapsed takes no room, though nobody asks for its lock again.
func TestListedIsTidied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l waitlist
		for i := range 10 * listedRoom {
			if i%listedRoom == 0 {
				time.Sleep(listKept + 2*run.ClockSlack)
			}
			r := l.begin(fmt.Sprint(i), "c:1", "c:1 30000 I 1-a", "")
			l.end(&r, listEntered, time.Time{})
			require.LessOrEqual(t, len(l.m), 2*listedRoom+1)
		}
	})
}
