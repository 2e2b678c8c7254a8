package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/force"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// An Op is what somebody wants to do.
type Op string

// What there is to do.
const (
	OpLook        Op = "look"         // see a page; Name is set if it is that of one object
	OpForceUnlock Op = "force-unlock" // take Name from Holder
	OpSetPermits  Op = "set-permits"  // bring the number of permits of Name to N
	OpSetCount    Op = "set-count"    // begin a count of N of the latch Name
	OpDeleteLatch Op = "delete-latch" // end the count of the latch Name
)

// An Action is what somebody does to an object.
type Action struct {
	Op     Op
	Name   string
	Holder string // as Info has it
	N      int64
}

// LogValue returns the Action for a log.
func (a Action) LogValue() slog.Value {
	all := []slog.Attr{slog.String("op", string(a.Op)), slog.String("name", a.Name)}
	if a.Holder != "" {
		all = append(all, slog.String("holder", a.Holder))
	}
	if a.Op == OpSetPermits || a.Op == OpSetCount {
		all = append(all, slog.Int64("n", a.N))
	}
	return slog.GroupValue(all...)
}

const (
	mostForm  = 64 << 10
	actWithin = 10 * time.Second
)

// action does what a form asks for.
func (h *Handler) action(w http.ResponseWriter, r *http.Request) {
	if err := h.cross.Check(r); err != nil {
		http.Error(w, "this does not come from this page", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form makes no sense", http.StatusBadRequest)
		return
	}
	form := r.PostForm
	a := Action{Op: Op(form.Get("op")), Name: form.Get("name"), Holder: form.Get("holder")}
	q := &query{lang: language(r).tag, Name: a.Name}
	n, err := parsed(&a, form.Get("n"))
	if err != nil {
		h.refuse(w, q, http.StatusBadRequest, err.Error())
		return
	}
	a.N = n
	if err := h.may(r, a); err != nil {
		h.refuse(w, q, http.StatusForbidden, err.Error())
		return
	}
	if typed := form.Get("confirm"); typed != a.Name && typed != text.Phrase(a.Name) {
		h.refuse(w, q, http.StatusBadRequest, "the name that was typed is another one")
		return
	}
	// The one who asked may leave; then it is done all the same, and audited.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actWithin)
	defer cancel()
	err = h.do(ctx, a)
	h.audit(r, a, err)
	h.mu.Lock()
	h.renew()
	h.mu.Unlock()
	switch {
	case errors.Is(err, errChanged):
		h.refuse(w, q, http.StatusConflict, err.Error())
	case err != nil:
		h.refuse(w, q, http.StatusBadGateway, err.Error())
	default:
		// http.Redirect would make it a path, which lacks what http.StripPrefix took.
		w.Header().Set("Location", lockLink(a.Name))
		w.WriteHeader(http.StatusSeeOther)
	}
}

// parsed checks an action, and returns its number.
func parsed(a *Action, text string) (n int64, err error) {
	least, most := int64(0), int64(object.MaxPermits)
	switch a.Op {
	case OpForceUnlock:
		if a.Holder == "" {
			return 0, errors.New("the holder is missing")
		}
		return 0, nil
	case OpDeleteLatch:
		return 0, nil
	case OpSetCount:
		least, most = 1, engine.MaxCount
	case OpSetPermits:
	default:
		return 0, errors.New("there is no such action")
	}
	if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < least || n > most {
		return 0, fmt.Errorf("the number must be between %d and %d", least, most)
	}
	return n, nil
}

// errChanged is why an action is refused: the page showed what is no more.
var errChanged = errors.New("nothing was done, because it has changed meanwhile")

func (h *Handler) do(ctx context.Context, a Action) error {
	if what := object.About(a.Name); what != "" {
		return fmt.Errorf("%s is %s", text.Name(a.Name), what)
	}
	switch a.Op {
	case OpForceUnlock:
		info, err := h.client.Info(ctx, a.Name)
		if err != nil {
			return err
		}
		if info.Kind != latchkey.KindFree && !force.Can(info.Kind) {
			return fmt.Errorf("a %s cannot be taken from one holder", info.Kind)
		}
		freed, err := force.Free(ctx, h.client, &info, a.Holder)
		if err == nil && !freed {
			err = fmt.Errorf("%w: %s does not hold it any more", errChanged, text.Name(a.Holder))
		}
		return err
	case OpSetPermits:
		return permitsemaphore.New(h.client, a.Name).SetPermits(ctx, int(a.N))
	case OpSetCount:
		set, err := countdownlatch.New(h.client, a.Name).TrySetCount(ctx, a.N)
		if err == nil && !set {
			err = fmt.Errorf("%w: a count is running", errChanged)
		}
		return err
	default: // OpDeleteLatch
		was, err := countdownlatch.New(h.client, a.Name).Delete(ctx)
		if err == nil && !was {
			err = fmt.Errorf("%w: no count is running", errChanged)
		}
		return err
	}
}

func (h *Handler) audit(r *http.Request, a Action, err error) {
	if h.opts.Audit != nil {
		h.opts.Audit(r, a, err)
		return
	}
	user, _, _ := r.BasicAuth()
	h.opts.Logger.Info("latchkey/ui: action", "action", a, "user", user, "from", r.RemoteAddr, "err", err)
}
