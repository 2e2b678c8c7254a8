package history

import (
	"context"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// fields are those of an entry of the stream, in order. All entries have all of them, so
// that Redis keeps their names once. Times are ms since the epoch, durations µs; what is
// not known is empty. Later versions may add fields.
var fields = []string{"event", "kind", "name", "holder", "label", "host", "pid", "at", "wait", "held", "reason", "version"}

var fieldNames = strings.Join(fields, " ")

// append runs history/write. Only this file knows the order of KEYS and ARGV.
func (w *Writer) append(ctx context.Context, events []Event) error {
	args := append(make([]any, run.Head, run.Head+4+len(events)*len(fields)), w.key, w.kept, Kept.Milliseconds(), fieldNames)
	for _, ev := range events {
		pid, wait, held := "", "", ""
		if ev.PID != 0 {
			pid = strconv.Itoa(ev.PID)
		}
		switch ev.What {
		case engine.Acquired, engine.Late:
			wait = strconv.FormatInt(ev.Wait.Microseconds(), 10)
		case engine.Released, engine.Lost:
			held = strconv.FormatInt(ev.Held.Microseconds(), 10)
		}
		args = append(args, ev.What, ev.Kind, ev.Name, ev.Holder, ev.Label, ev.Host, pid, ev.At.UnixMilli(), wait, held, ev.Reason, version())
	}
	_, err := w.engine.Eval(ctx, run.Options{CleanUp: true, Once: true}, lua.HistoryWrite, 1, args)
	return err
}

const (
	// page is how many entries are read at a time, and mostRead in all.
	page     = 500
	mostRead = 20_000
)

// Read returns the newest events of the stream key that match, newest first and n at
// most, and none from before since. A nil match is for all. on is false if there is no
// stream, so that nobody with the key prefix writes a history. Entries that are none of
// ours are passed over, and fields that make no sense are empty. It looks at the newest
// 20,000 entries.
func Read(ctx context.Context, rdb redis.UniversalClient, key string, n int, since time.Time, match func(*Event) bool) (events []Event, on bool, err error) {
	end, oldest := "+", "-"
	if !since.IsZero() {
		oldest = strconv.FormatInt(since.UnixMilli(), 10) // an event is written after it has happened
	}
	for read := 0; read < mostRead; read += page {
		entries, err := rdb.XRevRangeN(ctx, key, end, oldest, page).Result()
		if err != nil {
			return nil, on, err
		}
		for _, m := range entries {
			on = true
			if ev, ok := parse(m.Values); ok && !ev.At.Before(since) && (match == nil || match(&ev)) {
				if events = append(events, ev); len(events) == n {
					return events, true, nil
				}
			}
		}
		if len(entries) < page {
			break
		}
		end = "(" + entries[len(entries)-1].ID
	}
	if !on && oldest != "-" {
		found, err := rdb.XRevRangeN(ctx, key, "+", "-", 1).Result()
		return nil, len(found) > 0, err
	}
	return events, on, nil
}

// parse returns the event of an entry. Anybody who may write the key may have written it.
func parse(values map[string]any) (ev Event, ok bool) {
	text := func(field string) string {
		s, _ := values[field].(string)
		return s
	}
	number := func(field string, most int64) int64 {
		n, err := strconv.ParseInt(text(field), 10, 64)
		if err != nil || n < 0 || n > most {
			return 0
		}
		return n
	}
	const maxDuration = int64(1<<63-1) / int64(time.Microsecond)
	ev = Event{
		What: text("event"), Kind: text("kind"), Name: text("name"), Holder: text("holder"), Label: text("label"), Host: text("host"),
		PID: int(number("pid", 1<<31-1)), At: time.UnixMilli(number("at", maxMillis)), Reason: text("reason"), Version: text("version"),
		Wait: time.Duration(number("wait", maxDuration)) * time.Microsecond,
		Held: time.Duration(number("held", maxDuration)) * time.Microsecond,
	}
	switch ev.What {
	case engine.Acquired, engine.Released, engine.Lost, engine.Forced, engine.Late:
		return ev, ev.Name != ""
	}
	return ev, false
}

// version returns that of this module in this program, or nothing where the program was
// built from its source.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/latchkey-go/latchkey" && m.Replace == nil && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
})

// maxMillis is the end of the year 9999.
const maxMillis = 253402300799999
