package inspect

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
)

// The kinds that keys distinguish. The root's Kind has the same.
const (
	KindFree      = ""
	KindLock      = "lock"
	KindFair      = "fair"
	KindReadWrite = "readwrite"
	KindMulti     = "multilock"
	KindSemaphore = "semaphore"
	KindPermits   = "permitsemaphore"
	KindLatch     = "latch"
	KindCounter   = "counter"
)

// object returns the object that the keys form. It returns an error if neither
// Redisson nor latchkey makes such keys.
func (s *seen) object(key string) (Object, error) {
	in := Object{At: s.now, Left: millisLeft(s.left), Listeners: -1}
	in.Token, _ = strconv.ParseInt(s.token, 10, 64)
	s.waiters(&in)
	for _, n := range s.listeners {
		if n > 0 || in.Listeners < 0 {
			in.Listeners = max(in.Listeners, 0) + int(n)
		}
	}
	switch s.kind {
	case "none":
		switch {
		case len(s.permits) > 0:
			in.Kind = KindPermits
			s.holdPermits(key, &in)
		case len(in.Waiters) > 0:
			in.Kind = KindFair
		}
	case "hash":
		if !s.holders(key, &in) {
			return in, fmt.Errorf("%w: a hash that is no lock", engine.ErrKeyConflict)
		}
	case "string":
		n, err := strconv.ParseInt(s.value, 10, 64)
		if err != nil {
			return in, fmt.Errorf("%w: a string that is no integer", engine.ErrKeyConflict)
		}
		in.Count = n
		s.counter(key, &in)
	default:
		return in, fmt.Errorf("%w: a %s", engine.ErrKeyConflict, s.kind)
	}
	return in, nil
}

// waiters reads the queue of a fair lock.
func (s *seen) waiters(in *Object) {
	for i := 0; i+1 < len(s.queue); i += 2 {
		w := Waiter{ID: s.queue[i]}
		// For a latchkey waiter the life of its client counts, not its score.
		// The proof follows the ms.
		until, _, _ := strings.Cut(s.clients[names.ClientOf(w.ID)], " ")
		if until == "" {
			until = s.queue[i+1]
		}
		if ms, ok := parseMs(until); ok {
			w.Deadline = time.UnixMilli(ms)
		}
		in.Waiters = append(in.Waiters, w)
	}
}

// holders reads the holders of a hash and reports whether it is a lock.
func (s *seen) holders(key string, in *Object) bool {
	if s.foreign || len(s.fields) == 0 {
		return false
	}
	if mode, ok := s.fields["mode"]; ok && (mode == "read" || mode == "write") {
		in.Kind = KindReadWrite
		delete(s.fields, "mode")
		return s.countedHolders(key, in)
	}
	if s.isGroup() {
		in.Kind = KindMulti
		s.groupHolders(key, in)
		return true
	}
	in.Kind = KindLock
	if len(in.Waiters) > 0 {
		in.Kind = KindFair
	}
	return s.countedHolders(key, in)
}

// mostCounted is the number of holds of one reader whose leases are read.
const mostCounted = 100

// countedHolders reads fields of holder and hold count. It returns false if a
// field is anything else.
func (s *seen) countedHolders(key string, in *Object) bool {
	for _, id := range slices.Sorted(maps.Keys(s.fields)) {
		count, err := strconv.Atoi(s.fields[id])
		if err != nil || count < 1 || !strings.Contains(id, ":") {
			return false
		}
		h := Holder{ID: id, Count: count, Lease: in.Left, sides: []string{names.Label(key, id)}}
		if in.Kind == KindReadWrite {
			h.Mode = "write"
			if !strings.HasSuffix(id, ":write") {
				// Each hold of a reader has a key that keeps it alive.
				h.Mode, h.Lease = "read", 0
				for n := count; n > max(0, count-mostCounted); n-- {
					h.sides = append(h.sides, names.Suffixed(key, id)+":rwlock_timeout:"+strconv.Itoa(n))
				}
			}
		}
		in.Holders = append(in.Holders, h)
	}
	return true
}

// Suffixes of the fields of a multi-lock on a group, after value and owner.
const (
	groupEnds  = ":expire_time"
	groupCount = ":lock_count"
)

// isGroup reports whether the fields are those of a multi-lock on a group: value
// -> owner, value:owner:expire_time -> ms, value:owner:lock_count -> hold count.
func (s *seen) isGroup() bool {
	for f, v := range s.fields {
		if strings.Contains(f, ":") {
			if !strings.HasSuffix(f, groupEnds) && !strings.HasSuffix(f, groupCount) {
				return false
			}
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return false
			}
		} else if _, ok := s.fields[f+":"+v+groupCount]; !ok {
			return false
		}
	}
	return true
}

// groupHolders reads the holders of a group, except those whose lease is over.
func (s *seen) groupHolders(key string, in *Object) {
	for _, value := range slices.Sorted(maps.Keys(s.fields)) {
		if strings.Contains(value, ":") {
			continue
		}
		owner := s.fields[value]
		h := Holder{ID: owner, Value: value, sides: []string{names.Label(key, owner)}}
		h.Count, _ = strconv.Atoi(s.fields[value+":"+owner+groupCount])
		if ends, ok := parseMs(s.fields[value+":"+owner+groupEnds]); ok {
			h.Lease = time.UnixMilli(ends).Sub(s.now)
		}
		if h.Lease > 0 {
			in.Holders = append(in.Holders, h)
		}
	}
}

// counter determines the kind of an object whose key is an integer.
func (s *seen) counter(key string, in *Object) {
	switch {
	case len(s.permits) > 0:
		in.Kind = KindPermits
		s.holdPermits(key, in)
	case s.ended != "" || s.listeners[3] > 0:
		in.Kind = KindLatch
	case s.listeners[2] > 0:
		in.Kind = KindSemaphore
	default:
		in.Kind = KindCounter
	}
}

// forever is the score of a permit without a lease.
const forever = 922337203685477

// holdPermits reads the permits that are out. Those whose lease is over count
// as available.
func (s *seen) holdPermits(key string, in *Object) {
	for i := 0; i+1 < len(s.permits); i += 2 {
		id := s.permits[i]
		if len(id) != 32 { // Redisson before 3.17 writes the id as text
			id = hex.EncodeToString([]byte(id))
		}
		ms, ok := parseMs(s.permits[i+1])
		h := Holder{ID: id, Count: 1, Lease: -1, sides: []string{names.Label(key, id)}}
		switch left := time.UnixMilli(ms).Sub(s.now); {
		case !ok || ms == forever:
		case left <= 0:
			in.Count++
			continue
		default:
			h.Lease = left
		}
		in.Holders = append(in.Holders, h)
	}
}

// parseMs parses ms since the epoch, which Redis may print as a float.
func parseMs(text string) (int64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f <= 0 || f > forever {
		return 0, false
	}
	return int64(f), true
}
