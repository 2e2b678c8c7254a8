package names

// What the tests outside see.
var Sides = func() (all []struct {
	Prefix string
	Side   Side
}) {
	for _, s := range sides {
		all = append(all, struct {
			Prefix string
			Side   Side
		}{s.prefix, s.side})
	}
	return all
}()

// LatchChannelPrefix is what the Redis channel of a latch begins with.
const LatchChannelPrefix = latchChannel
