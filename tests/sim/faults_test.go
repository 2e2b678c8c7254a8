package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// faults are the faults of a run, and the time of the last one.
type faults struct {
	w     *world
	rand  *rand.Rand
	done  map[string]int
	until atomic.Int64 // when the last one will be over, ms
	loss  bool         // the server may forget everything
}

// link is the connection of one client to the server.
type link struct {
	rdb    *redis.Client
	proxy  *redistest.Proxy
	refuse atomic.Bool // dials fail
	acts   *rand.Rand  // only in OnCommand
}

var storm = []redistest.Act{
	redistest.LoseRST, redistest.LoseFIN, redistest.Swallow, redistest.RefuseRST, redistest.Drop, redistest.Twice, redistest.Late,
}

// faultKinds are the kinds of fault. Each breaks something, for d if it lasts,
// and returns a function that repairs it.
var faultKinds = []struct {
	name string
	do   func(f *faults, l *link, d time.Duration) (mend func())
}{
	{"cut", func(_ *faults, l *link, _ time.Duration) func() {
		l.proxy.CutAll()
		return nil
	}},
	{"storm", func(f *faults, l *link, d time.Duration) func() {
		share := 1 + f.rand.IntN(10)
		l.proxy.HoldFor(time.Duration(f.rand.Int64N(int64(d))))
		l.proxy.OnCommand(func([]string) redistest.Act {
			if l.acts.IntN(share) > 0 {
				return redistest.Pass
			}
			return storm[l.acts.IntN(len(storm))]
		})
		return func() { l.proxy.OnCommand(nil) }
	}},
	{"silence", func(_ *faults, l *link, _ time.Duration) func() {
		l.proxy.Mute(true)
		return func() { l.proxy.Mute(false) }
	}},
	{"stall", func(_ *faults, l *link, _ time.Duration) func() {
		l.proxy.Stall(true)
		return func() { l.proxy.Stall(false) }
	}},
	{"delay", func(f *faults, l *link, _ time.Duration) func() {
		l.proxy.Delay(time.Duration(1+f.rand.IntN(800)) * time.Millisecond)
		return func() { l.proxy.Delay(0) }
	}},
	{"no dial", func(_ *faults, l *link, _ time.Duration) func() {
		l.refuse.Store(true)
		l.proxy.CutAll()
		return func() { l.refuse.Store(false) }
	}},
	{"deaf", func(_ *faults, l *link, _ time.Duration) func() {
		l.proxy.OnMessage(func(kind, _, _ string) bool { return kind != "message" })
		return func() { l.proxy.OnMessage(nil) }
	}},
	{"loading", func(f *faults, _ *link, _ time.Duration) func() {
		f.w.env.Mini.SetError("LOADING Redis is loading the dataset in memory")
		return func() { f.w.env.Mini.SetError("") }
	}},
	{"script flush", func(f *faults, _ *link, _ time.Duration) func() {
		_ = f.w.env.Redis.ScriptFlush(f.w.t.Context())
		return nil
	}},
	{"restart", func(f *faults, _ *link, _ time.Duration) func() {
		for _, l := range f.w.links {
			l.refuse.Store(true)
			l.proxy.CutAll()
		}
		if f.loss {
			time.Sleep(100 * time.Millisecond) // until who was granted something knows
			f.w.ledger.forget()
			f.w.env.Mini.FlushAll()
		}
		return func() {
			for _, l := range f.w.links {
				l.refuse.Store(false)
			}
		}
	}},
}

// dialer makes dials of l fail while they are to be refused.
func (l *link) dialer(o *redis.Options) {
	// In these two go-redis sleeps or waits for an answer with a mutex that others
	// wait for: in a bubble time stands still then.
	o.DialerRetries = 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if l.refuse.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return dial(ctx, network, addr)
	}
}

// run breaks one thing after another, with calm periods between, until end.
func (f *faults) run(end time.Time) {
	for n := 0; *faultsFlag < 0 || n < *faultsFlag; n++ {
		time.Sleep(time.Duration(20+f.rand.IntN(240)) * time.Second)
		if time.Until(end) < 0 {
			return
		}
		kind, l := faultKinds[f.rand.IntN(len(faultKinds))], f.w.links[f.rand.IntN(len(f.w.links))]
		d := time.Duration(1+f.rand.IntN(3000)) * 10 * time.Millisecond
		if f.rand.IntN(4) == 0 {
			d += 30 * time.Second // longer than a lease
		}
		f.done[kind.name]++
		f.until.Store(time.Now().Add(d).UnixMilli())
		if mend := kind.do(f, l, d); mend != nil {
			time.Sleep(d)
			mend()
		}
	}
}

// calm reports whether there was no fault for the time d.
func (f *faults) calm(d time.Duration) bool {
	return time.Now().UnixMilli() > f.until.Load()+d.Milliseconds()
}
