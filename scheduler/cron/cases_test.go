package cron

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A caseLine is one line of a case file: an expression with its next instants, or the kind of its
// refusal. The instants were computed by two other methods that had to agree.
type caseLine struct {
	ID      string
	Class   string
	Expr    string
	TZ      string
	Anchor  string
	After   string
	Expect  []string
	Error   string
	Dialect string
	Note    string
}

func readCases(t *testing.T, path string) []caseLine {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []caseLine
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c caseLine
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v: %s", path, err, lines.Bytes())
		}
		list = append(list, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCasesNameTheirInstants runs set-a.jsonl, made from public bug reports, and more.jsonl, made for
// zones and refusals that are not in it.
func TestCasesNameTheirInstants(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{"testdata/set-a.jsonl": 170, "testdata/more.jsonl": 125} {
		list := readCases(t, path)
		if len(list) < want {
			t.Errorf("%s has %d cases, want at least %d", path, len(list), want)
		}
		for _, c := range list {
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				runCase(t, c)
			})
		}
	}
}

func runCase(t *testing.T, c caseLine) {
	t.Helper()
	after := parseTime(t, c.After)
	anchor := after
	if c.Anchor != "" {
		anchor = parseTime(t, c.Anchor)
	}
	spec, err := SpecOf(c.Expr, c.TZ, anchor)
	var table *Timetable
	if err == nil {
		table, err = Compile(spec)
	}
	if c.Error != "" {
		var wrong *FieldError
		if !errors.As(err, &wrong) {
			t.Fatalf("%q in %q: got error %v, want kind %q (%s)", c.Expr, c.TZ, err, c.Error, c.Note)
		}
		if wrong.Kind != c.Error {
			t.Errorf("%q in %q: got kind %q, want %q (%s)", c.Expr, c.TZ, wrong.Kind, c.Error, c.Note)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q in %q: refused: %v (%s)", c.Expr, c.TZ, err, c.Note)
	}
	var got, want []string
	from := after
	for _, text := range c.Expect {
		want = append(want, parseTime(t, text).Format(time.RFC3339))
		from = table.Next(from)
		got = append(got, from.Format(time.RFC3339))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q in %q after %s (%s): -want +got:\n%s", c.Expr, c.TZ, c.After, c.Note, diff)
	}
	if n := table.Count(after, from); n != int64(len(want)) {
		t.Errorf("%q in %q: Count(%s, %s) = %d, want %d", c.Expr, c.TZ, c.After, from, n, len(want))
	}
	if newest := table.Last(after, from); !newest.Equal(from) {
		t.Errorf("%q in %q: Last(%s, %s) = %s, want %[4]s", c.Expr, c.TZ, c.After, from, newest)
	}
}

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}
