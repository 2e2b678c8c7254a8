package names

// A SideName is what the tests outside see of a key beside an object.
type SideName struct {
	Prefix string
	Side   Side
}

// Sides returns all of them.
func Sides() (all []SideName) {
	for _, s := range sides {
		all = append(all, SideName{s.prefix, s.side})
	}
	return all
}

// LatchChannelPrefix is what the Redis channel of a latch begins with.
const LatchChannelPrefix = latchChannel
