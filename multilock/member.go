package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// A member is one of the locks that a Lock consists of.
type member struct {
	locker latchkey.Locker
	engine *engine.Engine // nil for a Lock, and for a Locker from elsewhere
	spec   *engine.Spec
	made   *Lock // the locker, if it is itself a Lock
	id     string
}

func membersOf(constructor string, locks []latchkey.Locker) []member {
	if len(locks) == 0 {
		panic("multilock: " + constructor + ": there are no locks")
	}
	members := make([]member, len(locks))
	for i, locker := range locks {
		if locker == nil {
			panic(fmt.Sprintf("multilock: %s: lock %d is nil", constructor, i+1))
		}
		m := member{locker: locker}
		if made, ok := locker.(*Lock); ok {
			m.made, m.id = made, made.id
		} else if m.engine, m.spec = engine.LockOf(locker); m.engine != nil {
			m.id = m.engine.ID() + " " + m.spec.Key + " " + m.spec.Suffix
		} else {
			m.id = "named " + locker.Name()
		}
		members[i] = m
	}
	return members
}

// flattened replaces each member that is a Lock from New by the members of that
// Lock.
func flattened(members []member) []member {
	var flat []member
	for _, m := range members {
		if m.made != nil && !m.made.red {
			flat = append(flat, m.made.members...)
		} else {
			flat = append(flat, m)
		}
	}
	return flat
}

// inOrder returns the members in the order in which they are taken, without
// duplicates. The order is the same in every process, except for locks with one
// name on different servers, so two multi-locks do not wait for each other.
func inOrder(members []member) []member {
	slices.SortStableFunc(members, func(a, b member) int {
		x, y := a.first(), b.first()
		return cmp.Or(cmp.Compare(x.key(), y.key()), cmp.Compare(y.suffix(), x.suffix()), cmp.Compare(a.id, b.id))
	})
	return slices.CompactFunc(members, func(a, b member) bool {
		known := a.engine != nil || a.made != nil
		return a.id == b.id && a.engine == b.engine && known
	})
}

// first returns the member of m, or m itself, that determines m's place in the
// order.
func (m member) first() member {
	for m.made != nil {
		m = slices.MinFunc(m.made.members, func(a, b member) int { return cmp.Compare(a.first().key(), b.first().key()) })
	}
	return m
}

func (m member) key() string {
	if m.spec == nil {
		return m.locker.Name()
	}
	return m.spec.Key
}

// suffix orders the halves of a read-write lock: the write half comes first,
// because a holder of the read half may not take it.
func (m member) suffix() string {
	if m.spec == nil {
		return ""
	}
	return m.spec.Suffix
}

// leaves returns the members, and members of members, that are not Locks of
// this package.
func (l *Lock) leaves() iter.Seq[member] {
	return func(yield func(member) bool) {
		for _, m := range l.members {
			if m.made == nil {
				if !yield(m) {
					return
				}
				continue
			}
			for leaf := range m.made.leaves() {
				if !yield(leaf) {
					return
				}
			}
		}
	}
}

// apart panics if it can tell that two members are on one server.
func apart(members []member) {
	clients, addresses := map[*engine.Engine]int{}, map[string]int{}
	for i, m := range members {
		one := Lock{members: []member{m}}
		for leaf := range one.leaves() {
			if leaf.engine == nil {
				continue
			}
			if j, seen := clients[leaf.engine]; seen && j != i {
				panic(fmt.Sprintf("multilock: NewRed: locks %d and %d are on the same client", j+1, i+1))
			}
			clients[leaf.engine] = i
			addr := leaf.engine.Addr()
			if j, seen := addresses[addr]; addr != "" && seen && j != i {
				panic(fmt.Sprintf("multilock: NewRed: locks %d and %d are both on %s", j+1, i+1, addr))
			}
			addresses[addr] = i
		}
	}
}

// refusal returns err, with which m has refused, or the same with who has it.
// Unless tell is set, that is for the lock of which this one is a part.
func (m member) refusal(ctx context.Context, err error, tell bool) error {
	var e *latchkey.Error
	var taken *latchkey.TakenError
	if !tell || m.engine == nil || !errors.As(err, &e) || e.MaybeApplied() || !errors.As(err, &taken) {
		return err
	}
	return m.engine.Refused(ctx, e.Op, m.spec, taken.Lease)
}
