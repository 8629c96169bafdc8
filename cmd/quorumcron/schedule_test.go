package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestScheduleNextKnowsTheCases runs the cases that scheduler/cron is proved by through the command line:
// the instants, or exit 2 with a reason and nothing on stdout.
func TestScheduleNextKnowsTheCases(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../scheduler/cron/testdata/set-a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran := 0
	for lines := bufio.NewScanner(f); lines.Scan(); ran++ {
		var c struct {
			ID, Expr, TZ, After, Anchor, Error, Note string
			Expect                                   []string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			args := []string{"schedule", "next", "--time-zone", c.TZ, "--after", c.After, "-n", strconv.Itoa(max(1, len(c.Expect))), "-o", "json"}
			if c.Anchor != "" {
				args = append(args, "--anchor", c.Anchor)
			}
			console := newTestConsole("")
			code := execute(context.Background(), append(args, "--", c.Expr), &console.console)
			if c.Error != "" {
				if code != exitUsage || console.stdout.Len() > 0 || !strings.HasPrefix(console.stderr.String(), "quorumcron: ") {
					t.Errorf("%q in %q: exit %d, stdout %q, stderr %q; want exit 2 and a reason (%s)", c.Expr, c.TZ, code, &console.stdout, &console.stderr, c.Note)
				}
				return
			}
			var got struct{ Instants []string }
			if err := json.Unmarshal(console.stdout.Bytes(), &got); code != exitDone || err != nil {
				t.Fatalf("%q in %q: exit %d, %v, stderr %q (%s)", c.Expr, c.TZ, code, err, &console.stderr, c.Note)
			}
			if diff := cmp.Diff(inUTC(t, c.Expect), got.Instants); diff != "" {
				t.Errorf("%q in %q after %s (%s): -want +got:\n%s", c.Expr, c.TZ, c.After, c.Note, diff)
			}
		})
	}
	if ran < 170 {
		t.Errorf("ran %d cases, want 170", ran)
	}
}

func inUTC(t *testing.T, texts []string) []string {
	t.Helper()
	out := []string{}
	for _, text := range texts {
		instant, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, instant.UTC().Format(time.RFC3339))
	}
	return out
}

// TestScheduleNextTakesEveryInstant: year 1 is no "not given", and what is centuries away is not now.
func TestScheduleNextTakesEveryInstant(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--after 0001-01-01T00:00:00Z":  "0001-01-02T00:00:00Z",
		"--after 1500-01-01T00:00:00Z":  "d ago",
		"--after 2900-01-01T00:00:00Z":  "in 3",
		"--anchor 0001-01-01T00:00:00Z": "must be later",
	} {
		console := newTestConsole("")
		got := console.run(append([]string{"schedule", "next", "@daily", "-n", "1"}, strings.Fields(args)...)...)
		if !strings.Contains(got, want) || strings.Contains(got, "0ms") || strings.Contains(got, "106751d") {
			t.Errorf("%s: got\n%s\nwant it to contain %q", args, got, want)
		}
	}
}
