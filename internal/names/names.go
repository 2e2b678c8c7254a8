// Package names builds the names of keys and Redis channels, computes their
// hash slots in a Redis Cluster, and checks the names and ids that users give.
package names

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names are built as Redisson builds them. A side key or Redis channel of the
// object foo is "prefix:{foo}" or "{foo}:suffix", so that all of them are in
// the hash slot of foo. A name that contains a "{" is taken to have a hash tag
// of its own and is not wrapped.

// Prefixed returns the side key or Redis channel "prefix:{name}".
func Prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// Twin reports whether key is a name in braces of its own, such as "{x}".
// Redisson gives it the side keys and Redis channels of "x".
func Twin(key string) bool {
	n := len(key)
	return n > 2 && key[0] == '{' && key[n-1] == '}' && !strings.Contains(key[1:], "{")
}

// Ours returns a side key "prefix:{name}" that Redisson does not know. Unlike
// Redisson's side keys, those of "x" and "{x}" differ: the key for "{x}" has
// "{}" appended and is in the same slot.
func Ours(prefix, name string) string {
	if Twin(name) {
		return Prefixed(prefix, name) + "{}"
	}
	return Prefixed(prefix, name)
}

// Suffixed returns the side key "{name}:suffix".
func Suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// Label returns the key of a holder's label. Redisson does not know it.
func Label(key, holder string) string {
	return Ours("latchkey_label", key) + ":" + holder
}

// PermitLabel returns the key of the label of the permit with the given id.
func PermitLabel(key, id string) string { return Label(key, hex.EncodeToString([]byte(id))) }

// Waits returns the key of what a holder waits for. It stands beside the object that the
// holder has.
func Waits(key, holder string) string { return Ours("latchkey_waits", key) + ":" + holder }

// The keys of a job and of an election are built from the key that its name is mapped
// to, and are in one slot.

// Fire returns the key of the lock of a job for a fire, or for all fires if fire is empty.
func Fire(job, fire string) string {
	if fire != "" {
		fire = ":" + fire
	}
	return Suffixed(job, "latchkey_once") + twin(job) + fire
}

// Run returns the key of the run of a fire of a job, beside the lock of Fire.
func Run(job, fire string) string { return Suffixed(job, "latchkey_run") + twin(job) + ":" + fire }

// Runs returns the key of the list of a job's runs.
func Runs(job string) string { return Suffixed(job, "latchkey_runs") + twin(job) }

// RunsLike returns the pattern, for SCAN, of the keys of Runs for the jobs that match a
// pattern, empty for all. More keys may match it.
func RunsLike(pattern string) string { return "*" + pattern + "*:latchkey_runs*" }

// Election returns the key of the lock of an election.
func Election(name string) string { return Suffixed(name, "latchkey_elect") + twin(name) }

// Leader returns the key of the record of an election's leader.
func Leader(name string) string { return Suffixed(name, "latchkey_leader") + twin(name) }

// LeaderLike returns the pattern, for SCAN, of the keys of Leader for the elections that
// match a pattern, empty for all. More keys may match it.
func LeaderLike(pattern string) string { return "*" + pattern + "*:latchkey_leader*" }

// LeaderChannel returns the Redis channel on which is told that the record of an election
// has changed, whose key is record. Any user that may wait for locks of that name may use it.
func LeaderChannel(record string) string { return Prefixed("redisson_lock__channel", record) }

// Memo returns the keys of what came of a call under key, for one kind of call: its lock,
// the note of the call, and the value.
func Memo(kind, key string) (lock, note, value string) {
	lock = Suffixed(key, "latchkey_"+kind)
	return lock + twin(key), lock + "_call" + twin(key), lock + "_value" + twin(key)
}

// History returns the key of the history of the clients with a key prefix.
func History(prefix string) string {
	const history = "latchkey_history"
	if prefix == "" {
		return history
	}
	return Suffixed(prefix, history) + twin(prefix)
}

// twin distinguishes the keys of "{x}" from those of "x".
func twin(name string) string {
	if Twin(name) {
		return "{}"
	}
	return ""
}

// Token returns the key of the fencing token counter of a lock.
func Token(key string) string { return Prefixed("redisson_lock_token", key) }

// Claim returns the key that counts the requests of a ticket for an object.
func Claim(key, ticket string) string { return Ours("latchkey_claim", key) + ":" + ticket }

const latchChannel = "redisson_countdownlatch__channel__{"

// LatchChannel returns the Redis channel of a latch. Redisson puts braces
// around every name there, even one that has braces. In a cluster such a latch
// does not work for Redisson, because its scripts may not publish on that
// channel. latchkey uses a channel of its own there.
func LatchChannel(key string, cluster bool) string {
	channel := latchChannel + key + "}"
	if cluster && Slot(key) != Slot(channel) {
		return Prefixed("latchkey_latch_channel", key)
	}
	return channel
}

// ClientOf returns the client id of a holder.
func ClientOf(holder string) string {
	if i := strings.LastIndexByte(holder, ':'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// Check returns an error that says what is wrong with the name of an object, or
// nil. Any bytes are allowed, but at least one.
func Check(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	return nil
}

// maxID is the most bytes of a client id.
const maxID = 256

// CheckID returns an error that says what is wrong with a client id, or nil.
// Spaces are not allowed because a space follows the holder in entries and
// messages. Colons are: the last ':' of a holder precedes its number.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is empty")
	case len(id) > maxID:
		return fmt.Errorf("the id has %d bytes, the most is %d", len(id), maxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("the id %q is not UTF-8", id)
	}
	for _, r := range id {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return fmt.Errorf("the id %q has %q in it: it may have letters, digits, punctuation and symbols, and no spaces", id, r)
		}
	}
	return nil
}

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// Slot returns the Redis Cluster hash slot of key.
func Slot(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 is CRC-16/XMODEM, the hash of Redis Cluster.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// CheckSlots returns an error if keys of one object are in different slots,
// which happens for names whose braces are no hash tag ("a{b", "a}b", "{}a").
func CheckSlots(name string, keys []string) error {
	for _, k := range keys[1:] {
		if Slot(k) != Slot(keys[0]) {
			return fmt.Errorf("the name %q cannot be used in a Redis Cluster: "+
				"its braces do not make a hash tag, so that %q and %q lie in different slots", name, keys[0], k)
		}
	}
	return nil
}
