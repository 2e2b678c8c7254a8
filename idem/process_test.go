package idem_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// machineConfig names the variable that makes of this program a machine of the tests.
const machineConfig = "LATCHKEY_IDEM_MACHINE"

// A machine is a process that serves payments and notes each in the list ran. It stops
// for good where it is to be killed, and says so.
type machine struct {
	Redis string
	Stop  string // a stage
}

// The stages of a request.
const (
	noStop      = ""
	beforeRun   = "before the handler"
	inRun       = "in the handler, before its effect"
	afterEffect = "in the handler, after its effect"
	beforeKeep  = "before the response is kept"
	afterKeep   = "before the response is sent"
)

func (m machine) stop(stage string) {
	if m.Stop == stage {
		fmt.Println("stopped")
		select {}
	}
}

// DialHook, ProcessHook and ProcessPipelineHook make m a redis.Hook that stops it around
// the script that keeps.
func (m machine) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m machine) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return m.around([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (m machine) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return m.around(cmds, func() error { return next(ctx, cmds) })
	}
}

func (m machine) around(cmds []redis.Cmder, send func() error) error {
	keeps := slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool {
		return slices.Contains(cmd.Args(), any("done")) // the state that memo/finish writes
	})
	if keeps {
		m.stop(beforeKeep)
	}
	err := send()
	failed := slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil })
	if keeps && err == nil && !failed {
		m.stop(afterKeep)
	}
	return err
}

// machineMain is the program of a machine.
func machineMain(text string) {
	var m machine
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	notes := redis.NewClient(&redis.Options{Addr: m.Redis})
	rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: m.Redis}))
	rdb.AddHook(m)
	c := latchkey.New(rdb, latchkey.WithWatchdogTimeout(time.Second))
	pay := func(w http.ResponseWriter, r *http.Request) {
		m.stop(inRun)
		n, err := notes.RPush(r.Context(), "ran", r.Header.Get("Idempotency-Key")).Result()
		if err != nil {
			panic(err)
		}
		m.stop(afterEffect)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "receipt %d", n)
	}
	guard := idem.Middleware(c, idem.Wait(time.Minute))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.stop(beforeRun)
		pay(w, r)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(l.Addr())
		err = http.Serve(l, guard)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A running is a machine that runs.
type running struct {
	*exec.Cmd
	said *bufio.Reader
	addr string
}

func (m machine) start(t *testing.T) *running {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	r := &running{Cmd: exec.CommandContext(t.Context(), self)}
	r.Env = append(os.Environ(), machineConfig+"="+string(text))
	r.Stderr = os.Stderr
	out, err := r.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.Start())
	t.Cleanup(func() { _ = r.Process.Kill(); _ = r.Wait() })
	r.said = bufio.NewReader(out)
	r.addr = r.line(t)
	return r
}

// line waits for the next line that the machine writes.
func (r *running) line(t *testing.T) string {
	t.Helper()
	line, err := r.said.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// pay sends a payment.
func (r *running) pay(ctx context.Context) (status int, body string, replayed bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+"/pay", strings.NewReader("100 EUR"))
	if err != nil {
		return 0, "", false, err
	}
	req.Close = true
	req.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", false, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header.Get("Idempotency-Replayed") == "true", err
}

// A process is killed in each stage of a request. Its client repeats the request at
// another one.
func TestKilled(t *testing.T) {
	for _, tt := range []struct {
		stage    string
		effects  int64 // in the end
		replayed bool  // the second process has not run it
	}{
		{beforeRun, 1, false},
		{inRun, 1, false},
		{afterEffect, 2, false},
		{beforeKeep, 2, false},
		{afterKeep, 1, true},
	} {
		t.Run(tt.stage, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			killed := machine{Redis: s.Addr, Stop: tt.stage}.start(t)
			other := machine{Redis: s.Addr}.start(t)
			ended := make(chan error)
			go func() {
				_, _, _, err := killed.pay(t.Context())
				ended <- err
			}()
			require.Equal(t, "stopped", killed.line(t))
			require.NoError(t, killed.Process.Kill())
			require.Error(t, <-ended, "the client has seen no response")
			for i := range 2 {
				status, body, replayed, err := other.pay(t.Context())
				require.NoError(t, err)
				require.Equal(t, http.StatusCreated, status)
				require.Equal(t, fmt.Sprint("receipt ", tt.effects), body)
				require.Equal(t, tt.replayed || i > 0, replayed)
			}
			require.Equal(t, tt.effects, s.Client(t).LLen(t.Context(), "ran").Val())
		})
	}
}
