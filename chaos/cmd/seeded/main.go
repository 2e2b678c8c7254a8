// Command seeded puts bugs into latchkey, one by one, and tells which test has
// found each. It fails when one was not found.
//
//	go run ./cmd/seeded [-run REGEXP] [-parallel N] [-json FILE] [-write FILE] [-bare] [-wide]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"

	"github.com/latchkey-go/latchkey/chaos/report"
	"github.com/latchkey-go/latchkey/chaos/seeded"
)

func main() {
	seeded.Cache()
	run := flag.String("run", "", "seed only bugs whose name matches")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "how many at a time")
	file := flag.String("json", "", "write the results to this file")
	document := flag.String("write", "", "document to write the table into")
	bare := flag.Bool("bare", false, "do not run the tests without a bug first")
	wide := flag.Bool("wide", false, "run all tests of the package, to see whether any finds a bug")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := seed(ctx, *run, *parallel, *file, *document, *bare, *wide); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

func seed(ctx context.Context, run string, parallel int, file, document string, bare, wide bool) error {
	pattern, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	root, err := seeded.Root(ctx)
	if err != nil {
		return err
	}
	var bugs []seeded.Bug
	for _, b := range seeded.Bugs() {
		if pattern.MatchString(b.Name) {
			if wide {
				b.Run = "."
			}
			bugs = append(bugs, b)
		}
	}
	if !bare {
		if err := seeded.Sound(ctx, root, bugs); err != nil {
			return err
		}
	}
	results := seeded.All(ctx, root, bugs, parallel, func(r seeded.Result) {
		by := r.FoundBy
		switch {
		case r.Err != "":
			by = "ERROR " + r.Err
		case by == "":
			by = "NOT FOUND"
		}
		fmt.Printf("%5.1fs  %-42s %s\n", r.Seconds, r.Bug, by)
	})
	if file != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			return err
		}
	}
	if document != "" {
		if err := report.Insert(document, "seeded", "seeded", seeded.Markdown(results)); err != nil {
			return err
		}
	}
	found := seeded.Count(results)
	fmt.Printf("%d of %d bugs found\n", found, len(results))
	if found != len(results) {
		return fmt.Errorf("%d bugs were not found", len(results)-found)
	}
	return nil
}
