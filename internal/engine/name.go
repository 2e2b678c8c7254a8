package engine

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names are built as Redisson builds them: a side key or Redis channel of the
// object foo is "prefix:{foo}" or "{foo}:suffix", so that all of them lie in the
// hash slot of foo. The only test is whether the name contains a "{": then it is
// taken to carry a hash tag of its own and is not wrapped.

// Mapped returns the main key of an object: the client's key prefix and the
// name, as with Redisson's NameMapper.
func (e *Engine) Mapped(name string) string { return e.cfg.KeyPrefix + name }

// Prefixed returns the side key or Redis channel "prefix:{name}".
func Prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// Twin reports whether key is a name in braces of its own, as "{x}": Redisson gives it the
// side keys and Redis channels of "x".
func Twin(key string) bool {
	n := len(key)
	return n > 2 && key[0] == '{' && key[n-1] == '}' && !strings.Contains(key[1:], "{")
}

// Ours returns the side key "prefix:{name}" that Redisson does not know. No two names have
// the same one: that of "{x}" has "{}" behind, in the same slot.
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

// LabelKey returns the key of a holder's label, ours beside Redisson's.
func LabelKey(key, holder string) string {
	return Ours("latchkey_label", key) + ":" + holder
}

// TokenKey returns the key of the fencing token counter of a lock.
func TokenKey(key string) string { return Prefixed("redisson_lock_token", key) }

// LatchChannel returns the Redis channel of a latch. Redisson puts braces around
// any name there, even one that has some. In a cluster it cannot use such a latch:
// its channel is none that the scripts may publish on. Ours is.
func (e *Engine) LatchChannel(key string) string {
	channel := latchChannel + key + "}"
	if !e.Together(key, channel) {
		channel = Prefixed("latchkey_latch_channel", key)
	}
	return channel
}

// CheckName returns an error that says what is wrong with the name of an
// object, or nil. Any bytes will do, but not none.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	return nil
}

// maxID is how many bytes the id of a client may have.
const maxID = 256

// CheckID returns an error that says what is wrong with the id of a client, or nil. A
// space stands behind a holder in entries and messages; the last ':' is before its number.
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

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// Slot returns the Redis Cluster hash slot of key.
func Slot(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	return int(crc16(key)) % slots
}

// crc16 is CRC-16/XMODEM, which Redis Cluster hashes with.
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

// Together reports whether a script may name both keys or Redis channels: they
// lie in one slot, or there are no slots.
func (e *Engine) Together(a, b string) bool { return !e.cluster || Slot(a) == Slot(b) }

// checkSlots returns an error when keys of one object lie in different slots,
// which happens with names whose braces are no hash tag ("a{b", "a}b", "{}a").
func checkSlots(name string, keys []string) error {
	for _, k := range keys[1:] {
		if Slot(k) != Slot(keys[0]) {
			return fmt.Errorf("the name %q cannot be used in a Redis Cluster: "+
				"its braces do not make a hash tag, so that %q and %q lie in different slots", name, keys[0], k)
		}
	}
	return nil
}
