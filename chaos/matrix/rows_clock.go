package matrix

import (
	"syscall"
	"time"

	"github.com/latchkey-go/latchkey/chaos/clock"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// clockRows are clocks that jump; package clock has how.
var clockRows = []*row{
	{
		id:      "D1",
		remarks: map[byte]string{'P': "as for locks"},
		lossy:   true,
		start:   func(r *rig) { r.skewable(func() { r.single() }) },
		fault: func(r *rig, begun func()) {
			r.skew(r.server, time.Minute)
			begun()
			r.sleep(300 * time.Millisecond)
		},
		want:   want{"l", "kra", "kla", "ed"},
		except: map[byte]want{'S': keeps, 'C': keeps, 'R': doubts},
	},
	{
		id:    "D2",
		start: func(r *rig) { r.skewable(func() { r.single() }) },
		fault: func(r *rig, begun func()) {
			r.skew(r.server, -time.Minute)
			begun()
			r.sleep(300 * time.Millisecond)
		},
		// Late is only the end of what nobody gives back.
		want: keeps,
	},
	{
		id:      "D3",
		remarks: map[byte]string{0: "the server's clock is an hour ahead of the client's"},
		fast:    true,
		start: func(r *rig) {
			r.skewable(func() { r.single() })
			r.skew(r.server, time.Hour) // which is as good as a client that is an hour behind
			r.proof.Store(0)
		},
		fault: func(r *rig, begun func()) {
			begun()
			now, err := r.admin.Time(r.ctx).Result()
			if err == nil && time.Until(now) > 59*time.Minute {
				r.happened(1)
			}
			r.sleep(r.lease) // it is renewed meanwhile
		},
		want: keeps,
	},
	{
		id:      "D4",
		remarks: map[byte]string{0: "the process is stopped, and its monotonic clock with it"},
		absent:  onlyWhere(clock.Movable, "the clocks of a process in Go can be moved on linux/amd64 only"),
		lease:   6 * time.Second, // no renewal is due before it looks at the clocks
		play:    func(r *rig, _ *row, columns []byte) map[byte]*sight { return slept(r, columns) },
		want:    want{"l", "", "l", "e"},
		except:  map[byte]want{'S': {"k", "", "k", "k"}, 'C': {"k", "", "k", "k"}},
	},
}

// onlyWhere is nil where something is possible, and says of all columns why not elsewhere.
func onlyWhere(possible bool, why string) map[byte]string {
	if possible {
		return nil
	}
	return map[byte]string{0: why}
}

// skewable runs start, which starts servers, so that their clocks can be moved.
func (r *rig) skewable(start func()) {
	if err := clock.Servers(start); err != nil {
		r.Fatal(err)
	}
}

// skew moves the clock of a server.
func (r *rig) skew(s *redistest.Server, d time.Duration) {
	if err := clock.Of(s).Wall(d); err != nil {
		r.Fatal(err)
	}
	rdb := s.Client(r)
	redistest.Until(r, "the clock to jump", func() bool {
		now, err := rdb.Time(r.ctx).Result()
		return err == nil && (time.Until(now)-d).Abs() < 10*time.Second
	})
	r.happened(1)
}

// slept has a child process sleep as if its machine did: it is stopped, and meanwhile
// its monotonic clock is, too. When it wakes up the server cannot be reached for a while.
func slept(r *rig, columns []byte) map[byte]*sight {
	skew, err := clock.NewFile(r.TempDir())
	if err != nil {
		r.Fatal(err)
	}
	var said map[string]told
	sights := heldByChild(r, columns, []string{skew.Env()}, func(c *child) map[string]told {
		asleep := r.lease + time.Second
		c.signal(r, syscall.SIGSTOP)
		r.proof.Store(0)
		r.sleep(asleep)
		if err := skew.Mono(-asleep); err != nil {
			r.Fatal(err)
		}
		r.server.Freeze() // so that only the clocks can tell
		_ = c.cmd.Process.Signal(syscall.SIGCONT)
		r.sleep(time.Second + slow) // it looks once in a second
		r.server.Thaw()
		said = c.ask(r, "give")
		for _, t := range said {
			if t.Apart > r.lease {
				r.happened(1)
			}
		}
		return said
	})
	for column, s := range sights {
		if t := said[string(column)]; s.hold == 'l' && t.Lost == 0 {
			s.fault("it was lost, and nobody had been told within %v", time.Second+slow)
		}
	}
	return sights
}
