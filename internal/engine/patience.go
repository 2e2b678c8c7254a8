package engine

import "time"

// AnswerTimeout is for how long a call asks a server that does not answer, unless the
// client says otherwise.
const AnswerTimeout = 3 * time.Second

// waiterPatience is for how long a caller that waits already goes on without an
// answer: it outlives a failover. One that asks first has the answer timeout.
const waiterPatience = 30 * time.Second

// AnswerTimeout returns for how long a call asks a server that does not answer.
func (e *Engine) AnswerTimeout() time.Duration { return e.cfg.AnswerTimeout }
