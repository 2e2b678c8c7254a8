// Command matrix plays each kind of fault against each primitive and prints what
// was seen, row by row. It fails when a cell is wrong.
//
//	go run ./cmd/matrix [-fast] [-row REGEXP] [-parallel N] [-json FILE] [-write FILE]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/chaos/matrix"
	"github.com/latchkey-go/latchkey/chaos/report"
)

// silent is a logger for go-redis.
type silent struct{}

// Printf says nothing.
func (silent) Printf(context.Context, string, ...any) {}

func main() {
	matrix.Child()
	redis.SetLogger(silent{}) // that servers are away is what this is about
	fast := flag.Bool("fast", false, "play the short rows only")
	row := flag.String("row", "", "play only rows whose name matches")
	parallel := flag.Int("parallel", 4, "how many rows at a time")
	asJSON := flag.String("json", "", "write the cells to this file")
	document := flag.String("write", "", "document to write the table into")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := play(ctx, *fast, *row, *parallel, *asJSON, *document); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context, fast bool, row string, parallel int, asJSON, document string) error {
	pattern, err := regexp.Compile(row)
	if err != nil {
		return err
	}
	cells := matrix.Play(ctx, matrix.Options{Fast: fast, Match: pattern.MatchString, AtOnce: parallel, Tell: tell})
	sum := matrix.Summarize(cells)
	fmt.Println(sum)
	if asJSON != "" {
		if err := matrix.WriteJSON(asJSON, cells); err != nil {
			return err
		}
	}
	if document != "" {
		if err := report.Insert(document, "matrix", "matrix", matrix.Markdown(cells)); err != nil {
			return err
		}
	}
	if sum.Wrong > 0 {
		// Once more at the end, where a log that was cut has them.
		tell("", slices.DeleteFunc(cells, func(c matrix.Cell) bool { return c.Result != matrix.Wrong }))
		return fmt.Errorf("%d cells are wrong", sum.Wrong)
	}
	return nil
}

func tell(_ string, cells []matrix.Cell) {
	for i, c := range cells {
		if i == 0 || c.Row != cells[i-1].Row {
			fmt.Printf("%s %s (%d times, %.1fs)\n", c.Row, c.Fault, c.Proof, c.Seconds)
		}
		fmt.Printf("    %-10s %-16s %s\n", c.Result, c.Primitive, c.Seen)
		if c.Why != "" {
			fmt.Printf("               %s\n", c.Why)
		}
	}
}
