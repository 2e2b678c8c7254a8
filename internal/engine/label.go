package engine

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// The label of a lock is written, kept and removed by the scripts of the lock, but
// for one who leaves a queue without it. A permit's is not: it has commands of its own, so that permits without a label,
// and the scripts, have nothing to do with it. Nothing depends on a label, so what
// goes wrong with one is nobody's error; it expires with the lease at the latest.

// tag is what a release says for a label to be removed: not empty if there may be one.
// The caller has ops.
func (hd *holding) tag() string {
	if hd.tagged.Load() {
		return "?"
	}
	return ""
}

// writeLabels runs label/write. A lease of 0 removes the label.
func (e *Engine) writeLabels(ctx context.Context, opts run.Options, text string, keys []string, leases []time.Duration) {
	opts.Within, opts.Replicas = returnBound, nil
	args := make([]any, run.Head, run.Head+1+2*len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	args = append(args, text)
	for _, d := range leases {
		args = append(args, d.Milliseconds())
	}
	_, _ = e.Eval(ctx, opts, lua.LabelWrite, len(keys), args)
}

// label writes the label of leases that end after d, for a caller who waits for it as
// long as ctx lasts. Who gives one of them back waits for its end: a label that comes
// later would stay.
func (e *Engine) label(ctx context.Context, text string, d time.Duration, leases ...*Lease) {
	if text == "" || len(leases) == 0 || !e.gate.Enter() {
		return
	}
	written := make(chan struct{})
	keys, times := make([]string, len(leases)), make([]time.Duration, len(leases))
	for i, l := range leases {
		keys[i], times[i] = names.PermitLabel(l.spec.Key, l.id), d
		l.mu.Lock()
		l.written = written
		l.mu.Unlock()
	}
	text = e.who(text, leases[0].since).String()
	go func() {
		defer e.gate.Leave()
		defer close(written)
		e.writeLabels(context.WithoutCancel(ctx), run.Options{}, text, keys, times)
	}()
	select {
	case <-written:
	case <-ctx.Done():
	}
}

// KeepLabels keeps the labels of permits that were renewed, by one command for the
// whole batch; by none if there is no label among them.
func (e *Engine) KeepLabels(ctx context.Context, opts run.Options, batch []Renewal) {
	var keys []string
	var leases []time.Duration
	for _, r := range batch {
		if r.Label != "" {
			keys, leases = append(keys, names.PermitLabel(r.Key, r.Holder)), append(leases, r.Lease)
		}
	}
	if len(keys) > 0 {
		e.writeLabels(ctx, opts, "", keys, leases)
	}
}

// dropLabels removes the labels of what was given back, or may have been.
func (e *Engine) dropLabels(ctx context.Context, leases ...*Lease) {
	var keys []string
	for _, l := range leases {
		if l.cfg.Label == "" {
			continue
		}
		l.mu.Lock()
		written := l.written
		l.mu.Unlock()
		if written != nil {
			<-written
		}
		keys = append(keys, names.PermitLabel(l.spec.Key, l.id))
	}
	if len(keys) > 0 {
		e.writeLabels(ctx, run.CleanUp, "", keys, make([]time.Duration, len(keys)))
	}
}
