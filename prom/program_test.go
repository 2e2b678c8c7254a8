package prom_test

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/prom"
	"github.com/latchkey-go/latchkey/rlock"
)

// programAddr says, in the environment of this very binary, that it shall be the
// program below, and where Redis is.
const programAddr = "LATCHKEY_PROM_TEST_REDIS"

// program has some locks, serves its metrics, says where, and ends with its
// standard input.
func program(addr string) int {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	metrics := prom.New(prom.Classes(func(string, string) string { return "jobs" }))
	observer, slow := metrics.Observer(), make(chan struct{})
	counted, told := observer.SlowWait, sync.OnceFunc(func() { close(slow) })
	observer.SlowWait = func(w latchkey.SlowWait) {
		counted(w)
		told()
	}
	c := latchkey.New(rdb, latchkey.WithObserver(observer), latchkey.WithSlowWait(10*time.Millisecond))
	defer c.Close()
	if err := work(c, slow); err != nil {
		fmt.Println(err)
		return 1
	}
	r := prometheus.NewRegistry()
	r.MustRegister(metrics)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	fmt.Println("serving", l.Addr())
	go func() { _ = http.Serve(l, promhttp.HandlerFor(r, promhttp.HandlerOpts{})) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// work is one free acquire, one that had to wait until slow is closed, one refusal, one loss, and one
// hold that lasts.
func work(c *latchkey.Client, slow <-chan struct{}) error {
	ctx := context.Background()
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := l.TryLock(ctx); !errors.Is(err, latchkey.ErrNotAcquired) {
		return err
	}
	second := l.LockAsync(ctx)
	<-slow
	if err := h.Unlock(ctx); err != nil {
		return err
	}
	got := <-second
	if got.Err != nil {
		return got.Err
	}
	if _, err := l.ForceUnlock(ctx); err != nil {
		return err
	}
	if err := got.Value.Unlock(ctx); !errors.Is(err, latchkey.ErrLeaseLost) {
		return fmt.Errorf("no loss: %w", err)
	}
	_, err = l.Lock(ctx)
	return err
}

// scrape runs the program and returns what it serves.
func scrape(t *testing.T) (text string, families map[string]*dto.MetricFamily) {
	t.Helper()
	s := redistest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), programAddr+"="+s.Addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = in.Close()
		require.NoError(t, cmd.Wait())
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "serving ")
	require.True(t, ok, line)
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true //nolint:errcheck // it is one
	res, err := http.Get("http://" + addr + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(strings.NewReader(string(body)))
	require.NoError(t, err)
	return string(body), families
}

//go:embed dashboard.json
var dashboard []byte

func TestScrapeOfAProgram(t *testing.T) {
	text, families := scrape(t)
	all := slices.Collect(maps.Values(families))
	for name, want := range map[string]map[string]float64{
		"latchkey_wait_seconds":    {"jobs rlock acquired": 3, "jobs rlock refused": 1},
		"latchkey_hold_seconds":    {"jobs rlock": 2},
		"latchkey_holds":           {"jobs rlock": 1},
		"latchkey_waiting":         {"jobs rlock": 0},
		"latchkey_contended_total": {"jobs rlock": 1},
		"latchkey_lost_total":      {"jobs rlock expired": 0, "jobs rlock taken": 1, "jobs rlock limit": 0},
	} {
		require.Equal(t, want, values(t, all, name), name)
	}
	require.Positive(t, values(t, all, "latchkey_slow_waits_total")["jobs rlock"])
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)

	t.Run("dashboard", func(t *testing.T) {
		names := map[string]bool{}
		for name, f := range families {
			names[name] = true
			if f.GetType() == dto.MetricType_HISTOGRAM {
				names[name+"_bucket"], names[name+"_count"], names[name+"_sum"] = true, true, true
			}
		}
		used := map[string]bool{}
		for _, expr := range expressions(t) {
			for _, name := range regexp.MustCompile(`latchkey_\w+`).FindAllString(expr, -1) {
				require.True(t, names[name], "the dashboard asks for %s, which there is not", name)
				used[regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")] = true
			}
		}
		for name := range families {
			require.True(t, used[name], "the dashboard does not show %s", name)
		}
	})
}

// expressions returns what the dashboard asks Prometheus for.
func expressions(t *testing.T) (exprs []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Type  string
				Query any
			}
		}
	}
	require.NoError(t, json.Unmarshal(dashboard, &d))
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			exprs = append(exprs, fmt.Sprint(v.Query))
		}
	}
	require.NotEmpty(t, exprs)
	return exprs
}
