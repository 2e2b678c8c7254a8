package names

import (
	"regexp"
	"strings"
)

// A Side is the purpose of a key or Redis channel beside an object's main key.
type Side int

// The sides of objects, Redisson's and latchkey's own.
const (
	NoSide      Side = iota // no side key: perhaps a main key, perhaps a foreign key
	SideToken               // fencing token counter, which outlives the lock
	SideQueue               // queue of a fair lock, or one of its companions
	SideTimeout             // permits that are out, or the lease of a reader
	SideNote                // a label, a claim and such, which exist only with an object
	SideRun                 // a run of a job, or the list of its runs
	SideMemo                // what came of a call that is made once for many
	SideWakeUps             // Redis channel
)

// sides are the prefixes of keys and channels that Prefixed builds.
var sides = []struct {
	prefix string
	side   Side
	tail   *regexp.Regexp // what may follow the name
}{
	{"redisson_lock_token", SideToken, nil},
	{"redisson_lock_queue", SideQueue, nil},
	{"redisson_lock_timeout", SideQueue, nil},
	{"latchkey_queue", SideQueue, nil},
	{"latchkey_next", SideNote, nil},
	{"latchkey_writer", SideNote, nil},
	{"latchkey_label", SideNote, labelTail},
	{"latchkey_group", SideNote, groupTail},
	{"latchkey_waits", SideNote, holderTail},
	{"latchkey_claim", SideNote, holderTail},
	{"latchkey_ended", SideNote, nil},
	{"redisson_lock__channel", SideWakeUps, clientTail},
	{"redisson_rwlock", SideWakeUps, nil},
	{"redisson_sc", SideWakeUps, nil},
	{"latchkey_latch_channel", SideWakeUps, nil},
}

var (
	// holderTail matches ":" and a holder, of a client with any id.
	holderTail = regexp.MustCompile(`:[^:{}]+:\d+(:write)?$`)
	// labelTail matches ":" and a holder, or the id of a permit.
	labelTail = regexp.MustCompile(`:([^:{}]+:\d+(:write)?|[0-9a-f]{32})$`)
	// groupTail matches ":", a holder of a multi-lock on a group, and a set of
	// values.
	groupTail = regexp.MustCompile(`:[^:{}]+:\d+:[^:{}]+$`)
	// clientTail matches ":" and the client id or holder of a fair lock's
	// waiter, or the inbox of a client.
	clientTail = regexp.MustCompile(`:([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:\d+)?|[A-Z2-7]{26})$`)
	// runTail matches what follows the name in the keys of a job's runs.
	runTail = regexp.MustCompile(`:latchkey_run(s(\{\})?|(\{\})?:\d+)$`)
	// fireTail matches what follows the name in the names of a job's locks.
	fireTail = regexp.MustCompile(`:latchkey_once(\{\})?(:\d+)?$`)
	// leaderTail matches what follows the name in the key of an election's record, and
	// in its Redis channel.
	leaderTail = regexp.MustCompile(`:latchkey_leader(\{\})?$`)
	// memoTail matches what follows the name in the keys of what came of a call.
	memoTail = regexp.MustCompile(`:latchkey_(?:flight|idem)_(?:call|value)(\{\})?$`)
	// readerTail matches what follows the name in the key of a reader's lease.
	readerTail = regexp.MustCompile(`:[^:{}]+:\d+:rwlock_timeout:\d+$`)
)

// Owner returns the name of the object to which a side key or Redis channel
// belongs, and its purpose. If the key's name does not look like a side key,
// Owner returns NoSide and an empty name. Redisson's side keys of "{x}" are
// those of "x", which Owner returns for them.
func Owner(key string) (name string, side Side) {
	if rest, ok := strings.CutPrefix(key, latchChannel); ok && strings.HasSuffix(rest, "}") {
		return rest[:len(rest)-1], SideWakeUps
	}
	if at := leaderTail.FindStringSubmatchIndex(key); at != nil && strings.Contains(key[:at[0]], "{") {
		name, _ := strings.CutPrefix(key[:at[0]], "redisson_lock__channel:")
		if at[2] >= 0 {
			return name, SideNote // the election "{x}"
		}
		return unwrapped(name), SideNote
	}
	for _, s := range sides {
		rest, ok := strings.CutPrefix(key, s.prefix+":")
		if !ok || rest == "" {
			continue
		}
		if s.tail != nil {
			if at := s.tail.FindStringIndex(rest); at != nil && at[0] > 0 {
				rest = rest[:at[0]]
			}
		}
		return unwrapped(rest), s.side
	}
	if at := readerTail.FindStringIndex(key); at != nil && at[0] > 0 {
		return unwrapped(key[:at[0]]), SideTimeout
	}
	if at := runTail.FindStringSubmatchIndex(key); at != nil && strings.Contains(key[:at[0]], "{") {
		return job(key[:at[0]], at[4] >= 0 || at[6] >= 0), SideRun
	}
	if at := memoTail.FindStringSubmatchIndex(key); at != nil && strings.Contains(key[:at[0]], "{") {
		return job(key[:at[0]], at[2] >= 0), SideMemo
	}
	// A name without braces may end like this too. Only "{name}" is meant.
	if rest, ok := strings.CutSuffix(key, ":timeout"); ok && strings.Contains(rest, "{") {
		return unwrapped(rest), SideTimeout
	}
	return "", NoSide
}

// Job returns the job whose list of runs is the key runs. ok is false if it is not that
// of any job.
func Job(runs string) (name string, ok bool) {
	name, side := Owner(runs)
	return name, side == SideRun && Runs(name) == runs
}

// Elected returns the election whose leader's record is the key record. ok is false if it
// is not that of any election.
func Elected(record string) (name string, ok bool) {
	name, side := Owner(record)
	return name, side == SideNote && Leader(name) == record
}

// JobOf returns the job and the fire to which a lock belongs; the fire is empty if it is
// the lock for all fires. ok is false if it is not that of any job.
func JobOf(lock string) (name, fire string, ok bool) {
	at := fireTail.FindStringSubmatchIndex(lock)
	if at == nil {
		return "", "", false
	}
	name = job(lock[:at[0]], at[2] >= 0)
	if at[4] >= 0 {
		fire = lock[at[4]+1 : at[5]]
	}
	return name, fire, name != "" && Fire(name, fire) == lock
}

// job returns the name of a job, which Suffixed may have put into braces. twin is set
// if it has braces of its own.
func job(tagged string, twin bool) string {
	if !twin && Twin(tagged) {
		return tagged[1 : len(tagged)-1]
	}
	return tagged
}

// unwrapped removes the braces that Prefixed, Suffixed and Ours have added.
func unwrapped(tagged string) string {
	if Twin(tagged) {
		return tagged[1 : len(tagged)-1]
	}
	if name, ok := strings.CutSuffix(tagged, "{}"); ok && Twin(name) {
		return name
	}
	return tagged
}
