package engine

import "time"

// AnswerTimeout is the default of how long a call asks a server that does not
// answer.
const AnswerTimeout = 3 * time.Second

// waiterPatience is how long a waiting caller continues without a reply. It
// outlives a failover. The first request of a call has the answer timeout.
const waiterPatience = 30 * time.Second

// AnswerTimeout returns how long a call asks a server that does not answer.
func (e *Engine) AnswerTimeout() time.Duration { return e.cfg.AnswerTimeout }
