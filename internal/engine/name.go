package engine

import "github.com/latchkey-go/latchkey/internal/names"

// LatchChannel returns the Redis channel of a latch.
func (e *Engine) LatchChannel(key string) string { return names.LatchChannel(key, e.cluster) }
