package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/latchkey-go/latchkey/internal/run"
)

// leases are the things that this client has leased one by one; see Leaser.
type leases struct {
	// mu guards the field below.
	mu sync.Mutex
	m  map[leaseKey]*Lease
}

type leaseKey struct{ key, id string }

func (ls *leases) init() { ls.m = make(map[leaseKey]*Lease) }

func (ls *leases) held() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.m)
}

// freeBatch is how many things Close gives back by one script.
const freeBatch = 100

// releaseAll gives back everything that is leased. It first ends every Context
// and then sends the requests.
func (ls *leases) releaseAll(ctx context.Context) error {
	ls.mu.Lock()
	all := make([]*Lease, 0, len(ls.m))
	for _, l := range ls.m {
		all = append(all, l)
	}
	ls.mu.Unlock()
	ids := map[*Spec][]*Lease{} // by one of the specs of the key
	specs := map[string]*Spec{}
	for _, l := range all {
		if !l.end(closed, run.ErrClosed, "") {
			continue
		}
		if specs[l.spec.Key] == nil {
			specs[l.spec.Key] = l.spec
		}
		s := specs[l.spec.Key]
		ids[s] = append(ids[s], l)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, releasers)
	for s, ids := range ids {
		e := all[0].engine
		for leases := range slices.Chunk(ids, freeBatch) {
			batch, labelled := make([]string, len(leases)), false
			for i, l := range leases {
				batch[i] = l.id
				labelled = l.labelled() || labelled
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				err := e.returned(ctx, func(ctx context.Context, opts run.Options, _ run.Deadline) (Status, error) {
					_, err := s.Renewer.(Leaser).Free(ctx, e, opts, batch, false, labelled)
					return Granted, err
				})
				if err != nil {
					mu.Lock()
					errs = append(errs, e.Wrap("close", s, err))
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
