package demo

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/rwlock"
)

var rwlockScenarios = []scenario{{"rwlock", playReadWrite}}

// writers sets which workers write: one in writers. The others read.
const writers = 4

// playReadWrite shows that a writer is alone and that readers share the lock. A
// writer ends every other turn by reading what it has written, with no writer
// in between.
func playReadWrite(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	locks := make([]*rwlock.RWLock, len(cs))
	for i, c := range cs {
		locks[i] = rwlock.New(c, "readwrite")
	}
	st.Used(st.Key("readwrite"))
	p := page{section: newSection(st)}
	err = st.Compete(ctx, func(ctx context.Context, worker int) error {
		rw := locks[worker%len(locks)]
		if worker%writers != 0 {
			return p.read(ctx, rw)
		}
		return p.write(ctx, rw)
	})
	p.settle()
	return err
}

// A page is a section that several readers may be in at once.
type page struct {
	*section
	readers atomic.Int64
}

func (p *page) read(ctx context.Context, rw *rwlock.RWLock) error {
	h, err := p.st.Lock(ctx, rw.ReadLock())
	if err != nil {
		return err
	}
	p.look()
	return h.Unlock(ctx)
}

// look is a visit by a reader.
func (p *page) look() {
	p.readers.Add(1)
	p.st.Violated(p.inside.Load() == nil)
	p.work()
	p.st.Violated(p.inside.Load() == nil)
	p.readers.Add(-1)
}

func (p *page) write(ctx context.Context, rw *rwlock.RWLock) error {
	h, err := p.st.Lock(ctx, rw.WriteLock())
	if err != nil {
		return err
	}
	v := p.enter()
	p.st.Violated(p.readers.Load() == 0)
	p.work()
	p.st.Violated(p.readers.Load() == 0)
	p.leave(v)
	written := p.count.Load()
	if written%2 == 0 {
		return h.Unlock(ctx)
	}
	r, err := rw.Downgrade(ctx, h)
	if err != nil {
		return errors.Join(err, unlocked(ctx, h))
	}
	p.look()
	p.st.Violated(p.count.Load() == written)
	return r.Unlock(ctx)
}

// unlocked releases a hold that may have been released already.
func unlocked(ctx context.Context, h *latchkey.Hold) error {
	if err := h.Unlock(ctx); err != nil && !errors.Is(err, latchkey.ErrNotHeld) {
		return err
	}
	return nil
}
