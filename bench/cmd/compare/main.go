// Command compare lets latchkey, other libraries and floors without any library
// do the same things in turn, against a redis-server that it starts itself, and
// prints what each costs.
//
//	go run ./cmd/compare                            # everything: three rounds of three seconds
//	go run ./cmd/compare -quick                     # every scenario once, very briefly
//	go run ./cmd/compare -run 'one name' -sides 'floor-blpop,latchkey,latchkey-off'
//	go run ./cmd/compare -json out.json -write ../docs/performance.md
//
// Each side of each scenario runs in processes of its own, which this program
// starts from itself; sides take turns within a round, and a ratio is that of two
// sides of one round. It needs redis-server, and Unix; the sides etcd and redisson
// are left out, with a message, where what they need is missing.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

func main() {
	var err error
	if text := os.Getenv(childVariable); text != "" {
		err = child(text)
	} else {
		err = compare(os.Args[1:])
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// A plan is what to run, and for how long.
type plan struct {
	rounds  int
	length  time.Duration // of a closed loop
	quick   bool
	growth  bool
	run     *regexp.Regexp
	sides   map[string]bool // nil: all
	interop string          // where the driver of Redisson is
}

func compare(args []string) error {
	p := plan{}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.IntVar(&p.rounds, "rounds", 3, "how often each side has its turn; medians are shown")
	f.DurationVar(&p.length, "time", 3*time.Second, "how long a turn lasts")
	f.BoolVar(&p.quick, "quick", false, "one round, 50 ms a turn, small crowds: only to see that everything works")
	f.BoolVar(&p.growth, "growth", true, "also how cost grows with waiters, holds, queue and processes")
	run := f.String("run", "", "only scenarios whose title matches this regular expression")
	sides := f.String("sides", "", "only these sides, with commas between them; default all: "+strings.Join(sideNames(), ","))
	f.StringVar(&p.interop, "interop", "../interop", "directory of the module that drives Redisson")
	jsonFile := f.String("json", "", "write the results to this file, as JSON; - is standard output")
	read := f.String("read", "", "run nothing: show the results in this JSON file")
	write := f.String("write", "", "put the tables into this Markdown file, between its markers, and the pictures beside it")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if p.rounds < 1 || p.length <= 0 {
		return errors.New("-rounds and -time must be positive")
	}
	if p.quick && *write != "" {
		return errors.New("-quick gives no figures to -write")
	}
	if p.quick {
		p.rounds, p.length = 1, 50*time.Millisecond
	}
	var err error
	if p.run, err = regexp.Compile(*run); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *sides != "" {
		p.sides = map[string]bool{}
		for _, name := range strings.Split(*sides, ",") {
			if !isSide(name) {
				return fmt.Errorf("-sides: there is no side %q, only %s", name, strings.Join(sideNames(), ", "))
			}
			p.sides[name] = true
		}
	}
	var r *report
	var failed error
	if *read != "" {
		text, err := os.ReadFile(*read)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("-read %s: %w", *read, err)
		}
	} else if r, failed = p.measure(); r == nil {
		return failed
	}
	if *jsonFile != "-" {
		r.print(os.Stdout)
	}
	if *jsonFile != "" {
		if err := r.save(*jsonFile); err != nil {
			return err
		}
	}
	if *write != "" && failed == nil {
		return r.rewrite(*write)
	}
	return failed
}
