// Command sabotage shows that the tests can fail: it takes one protection after the other out of the
// program (internal/sabotage) and runs the test that must notice. A test that passes without the
// protection, or fails for another reason than the table says, proves nothing, and is what this command
// reports.
//
//	go run ./chaos-tests/sabotage                  all cuts, and each test with nothing cut
//	go run ./chaos-tests/sabotage -quick           without real processes: less than a minute
//	go run ./chaos-tests/sabotage -run '^late-'    some
//	go run ./chaos-tests/sabotage -markdown        as rows of the table in chaos-tests/SABOTAGE.md
//
// It builds each package's tests once, with the tag sabotage, and starts them as processes: what is
// taken out is told in the environment. It exits with 1 if a cut was not caught.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sabotage:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sabotage", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "leave out the tests of real processes")
	only := flags.String("run", "", "only cuts whose name matches this regular expression")
	markdown := flags.Bool("markdown", false, "print rows of the table for people")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	var rows []row
	for _, r := range table() {
		if wanted.MatchString(r.cut) && !(*quick && r.slow) {
			rows = append(rows, r)
		}
	}
	began := time.Now()
	b, err := build(ctx, rows)
	if err != nil {
		return err
	}
	defer b.remove()
	built := time.Since(began)
	if err := b.untouched(ctx, rows); err != nil {
		return err
	}
	whole := time.Since(began) - built
	missed := 0
	for _, r := range rows {
		took, err := b.caught(ctx, r)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			missed++
			fmt.Fprintf(out, "NOT CAUGHT  %s: %v\n", r.cut, err)
		case *markdown:
			fmt.Fprintln(out, r.markdown(took))
		default:
			fmt.Fprintf(out, "caught  %-20s %5.1f s  %s %s\n", r.cut, took.Seconds(), r.pkg, r.test)
		}
	}
	fmt.Fprintf(out, "%d of %d cuts caught in %.0f s: %.0f s to build, %.0f s for the tests with nothing cut\n",
		len(rows)-missed, len(rows), time.Since(began).Seconds(), built.Seconds(), whole.Seconds())
	if missed > 0 {
		return fmt.Errorf("%d cuts were not caught", missed)
	}
	return nil
}
