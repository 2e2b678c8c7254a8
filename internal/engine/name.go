package engine

import "github.com/latchkey-go/latchkey/internal/names"

// Mapped returns the main key of an object: the client's key prefix followed by
// the name, as with Redisson's NameMapper.
func (e *Engine) Mapped(name string) string { return e.cfg.KeyPrefix + name }

// LatchChannel returns the Redis channel of a latch.
func (e *Engine) LatchChannel(key string) string { return names.LatchChannel(key, e.cluster) }
