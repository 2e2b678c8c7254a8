// Package seeded puts bugs into latchkey's own code, one by one, and runs the
// tests that must find them: what a suite does not notice, it does not test.
//
// A bug is a small edit of one file. The go command reads the edited file
// through -overlay, so the tree stays as it is, and several run side by side.
package seeded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Bug is one edit that the suite must notice.
type Bug struct {
	Name string // area/what
	What string // what is wrong with it, and who else has had it

	File string // below the root of the module
	Old  string // stands there exactly once
	New  string

	Package string // below the root; "" is the root package
	Run     string // for -run: of those tests at least one must fail
	Race    bool   // under the race detector
	Fast    bool   // part of the ordinary test
}

// A Result is what became of one.
type Result struct {
	Bug     string  `json:"bug"`
	What    string  `json:"what"`
	File    string  `json:"file"`
	FoundBy string  `json:"found_by,omitempty"` // empty: nothing has
	Seconds float64 `json:"seconds"`
	Err     string  `json:"error,omitempty"` // the run says nothing: it did not compile, say
}

// Found reports whether a test has noticed the bug.
func (r Result) Found() bool { return r.Err == "" && r.FoundBy != "" }

// Bugs returns all of them, in the order of their areas.
func Bugs() []Bug {
	return slices.Concat(lockBugs, endBugs, rwBugs, fairBugs, countBugs, multiBugs, onceBugs, electBugs, memoBugs, engineBugs, waitBugs, pubsubBugs, watchdogBugs)
}

// Root returns the directory of the library, in whose workspace this runs.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/latchkey-go/latchkey").Output()
	if err != nil {
		return "", fmt.Errorf("where the library is: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Edited returns the text of b's file with the bug in it.
func (b Bug) Edited(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, b.File))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), b.Old); n != 1 {
		return "", fmt.Errorf("%s: the old text stands %d times in %s", b.Name, n, b.File)
	}
	if b.Old == b.New {
		return "", fmt.Errorf("%s: old and new are the same", b.Name)
	}
	return strings.Replace(string(text), b.Old, b.New, 1), nil
}

// bound is how long one run may take: a bug may well make a test hang.
const bound = 90 * time.Second

// Seed puts b in and runs its tests.
func (b Bug) Seed(ctx context.Context, root string) Result {
	r := Result{Bug: b.Name, What: b.What, File: b.File}
	begin := time.Now()
	out, err := b.test(ctx, root)
	r.Seconds = time.Since(begin).Seconds()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.Err = ctx.Err().Error()
	case !errors.As(err, &exit):
		r.Err = err.Error()
	default:
		if r.FoundBy = failure(out); r.FoundBy == "" {
			r.Err = "the tests did not run: " + tail(out)
		}
	}
	return r
}

// test runs the tests of b under an overlay.
func (b Bug) test(ctx context.Context, root string) (string, error) {
	text, err := b.Edited(root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "seeded")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	edited := filepath.Join(dir, filepath.Base(b.File))
	if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	replace := map[string]map[string]string{"Replace": {filepath.Join(root, b.File): edited}}
	table, err := json.Marshal(replace)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, table, 0o600); err != nil {
		return "", err
	}
	args := []string{"-overlay", overlay}
	if b.Race {
		args = append(args, "-race")
	}
	return goTest(ctx, root, filepath.Join(dir, "cache"), b.Package, b.Run, bound, args...)
}

// goTest runs tests. What is compiled for them is kept in cache, if that is not empty,
// and in the ordinary build cache else.
func goTest(ctx context.Context, root, cache, pkg, run string, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit) // with the time to compile
	defer cancel()
	args = append([]string{"test", "-vet=off", "-count=1", "-failfast", "-v", "-timeout", limit.String(), "-run", run}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = root
	if cache != "" {
		if err := withCache(ctx, cmd, cache); err != nil {
			return "", err
		}
	}
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "\n--- PASS: ") {
		err = fmt.Errorf("no test of ./%s is named %s", pkg, run)
	}
	return string(out), err
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failure returns the test that failed, "" when none did: the deepest one of the
// first, or the one that was running when the whole run ended.
func failure(out string) string {
	var name string
	for _, m := range failed.FindAllStringSubmatch(out, -1) {
		if name == "" || strings.HasPrefix(m[1], name+"/") {
			name = m[1]
		}
	}
	if name != "" || !strings.Contains(out, "panic: ") && !strings.Contains(out, "goleak: ") && !strings.Contains(out, "fatal error: ") {
		return name
	}
	for line := range strings.Lines(out) {
		if test, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			name = strings.TrimSpace(test)
		}
	}
	return name
}

// tail returns the end of a text.
func tail(text string) string {
	const most = 600
	return strings.TrimSpace(text[max(0, len(text)-most):])
}

// Sound runs the tests of all bugs without any: a test that fails anyhow would
// find every one.
func Sound(ctx context.Context, root string, bugs []Bug) error {
	runs := map[string][]string{}
	for _, b := range bugs {
		if !slices.Contains(runs[b.Package], b.Run) {
			runs[b.Package] = append(runs[b.Package], b.Run)
		}
	}
	var errs []error
	for pkg, patterns := range runs {
		if out, err := goTest(ctx, root, "", pkg, strings.Join(patterns, "|"), 4*bound); err != nil {
			errs = append(errs, fmt.Errorf("without a bug in it, ./%s: %w: %s %s", pkg, err, failure(out), tail(out)))
		}
	}
	return errors.Join(errs...)
}

// All seeds bugs, so many at a time, and tells of each result as it comes. They
// are returned in order.
func All(ctx context.Context, root string, bugs []Bug, atOnce int, tell func(Result)) []Result {
	results := make([]Result, len(bugs))
	slots := make(chan struct{}, max(atOnce, 1))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, b := range bugs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := b.Seed(ctx, root)
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
			tell(r)
		})
	}
	wg.Wait()
	return results
}
