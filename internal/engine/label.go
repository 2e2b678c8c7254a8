package engine

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// The scripts of a lock write, keep and remove its label, except when a waiter
// leaves a queue without it. The label of a permit is written and renewed by
// commands of its own, so that permits without a label, and their scripts, are
// not affected; who gives the permit back removes it. Nothing depends on a label,
// so a failure to write one is not reported. A label expires with the lease at
// the latest.

// tag returns what a release says about the label: not empty if there may be
// one to remove. The caller has ops.
func (hd *holding) tag() string {
	if hd.tagged.Load() {
		return "?"
	}
	return ""
}

// writeLabels is writeTexts for labels.
func (e *Engine) writeLabels(ctx context.Context, opts run.Options, text string, keys []string, leases []time.Duration) {
	_ = e.writeTexts(ctx, opts, text, keys, leases)
}

// writeTexts runs label/write for keys of one slot. A lease of 0 removes the text.
func (e *Engine) writeTexts(ctx context.Context, opts run.Options, text string, keys []string, leases []time.Duration) error {
	opts.Within, opts.Replicas = returnBound, nil
	args := make([]any, run.Head, run.Head+1+2*len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	args = append(args, text)
	for _, d := range leases {
		args = append(args, d.Milliseconds())
	}
	_, err := e.Eval(ctx, opts, lua.LabelWrite, len(keys), args)
	return err
}

// A closing is what the label says of a lock that stays closed after the work.
type closing struct {
	label string // of the work; empty if it had none
	since time.Time
	until time.Time
}

// shown returns what Redis shows of a holder; see Spec.Shown.
func (s *Spec) shown(holder string) (who, field string) {
	if s.Shown == nil {
		return holder, holder
	}
	return s.Shown(holder)
}

// label returns the key of the label of a holder.
func (s *Spec) label(holder string) string {
	who, _ := s.shown(holder)
	return names.Label(s.Key, who)
}

// labelClosed writes the label of the holder in whose name ret keeps s closed,
// if the work had a label. The script finds out whether s is closed.
func (e *Engine) labelClosed(ctx context.Context, s *Spec, ret *Return) {
	c := ret.Closed
	left := time.Until(c.until)
	if c.label == "" || left < time.Millisecond {
		return
	}
	_, field := s.shown(ret.LingerAs)
	e.labelEnded(ctx, s.Key, s.label(ret.LingerAs), field, c.label, c.since, left)
}

// LabelKept writes the label of a permit of the semaphore with the given key that stays
// out for left after the work, if the work had a label.
func (e *Engine) LabelKept(ctx context.Context, key, id, label string, since time.Time, left time.Duration) {
	raw, err := hex.DecodeString(id)
	if err == nil && label != "" {
		e.labelEnded(ctx, names.Suffixed(key, "timeout"), names.Label(key, id), string(raw), label, since, left)
	}
}

// labelEnded writes the label of what stays closed after the work; see label/ended.
func (e *Engine) labelEnded(ctx context.Context, key, label, field, text string, since time.Time, left time.Duration) {
	who := e.who(text, since)
	who.Ended = e.Clock.At(time.Now())
	opts := run.CleanUp
	opts.Within = returnBound
	args := append(make([]any, run.Head, run.Head+5), key, label, field, left.Milliseconds(), who.String())
	_, _ = e.Eval(ctx, opts, lua.LabelEnded, 2, args)
}

// dropLabel removes the label that the holder of hd had for a hold that has ended.
// The caller has ops.
func (hd *holding) dropLabel(ctx context.Context, s *Spec) {
	hd.engine.writeLabels(ctx, run.CleanUp, "", []string{s.label(hd.field)}, []time.Duration{0})
}

// label writes the label of leases that end after d, and waits for that until
// ctx is done. A release of one of the leases also waits for it, because a
// label that is written later would stay.
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

// KeepLabels extends the labels of renewed permits, by one command for the
// batch, or by none if there are no labels.
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

// labelled reports whether l may have a label. One that is being written is there
// afterwards, so that a request sent from then on removes it.
func (l *Lease) labelled() bool {
	if l.cfg.Label == "" {
		return false
	}
	l.mu.Lock()
	written := l.written
	l.mu.Unlock()
	if written != nil {
		<-written
	}
	return true
}
