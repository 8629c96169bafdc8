package history_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

var update = flag.Bool("update", false, "write the golden files and the table of CHECKS.md anew")

// golden holds a text against a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestReportsArePlain has whole reports, as `make chaos` prints them.
func TestReportsArePlain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		history func() history.History
		needs   history.Needs
		want    history.Verdict
	}{
		{"valid", story, needs(), history.Valid},
		{"inconclusive", with(brief(nil), func(h *history.History) {
			h.Faults = []history.Fault{{ID: "F16", Kind: history.LostReplies, Node: "n1", From: at(2), To: at(3)}}
		}),
			history.Full(), history.Inconclusive},
		{"invalid", spoilt(func(h *history.History) {
			linesOf(h, "tries", 25, func(l *history.Line) { moved(l, 3) })
			h.Statuses[30].ShardsOwned = 255
		}), needs(), history.Invalid},
		{"fenced", frozen, history.Needs{}, history.Valid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := tt.history()
			j := h.Judge(tt.needs)
			if j.Verdict != tt.want {
				t.Errorf("it is %s, want %s", j.Verdict, tt.want)
			}
			golden(t, "report-"+tt.name+".txt", h.Report(j))
		})
	}
}

// TestTimelinesFitOnAPage has the page that each kind of finding leads to.
func TestTimelinesFitOnAPage(t *testing.T) {
	t.Parallel()
	wanted := map[string]string{ // the defects with a golden file
		"C02/tried again where one attempt is all":                 "retried",
		"C05/a start while the job is paused":                      "paused",
		"C06/two commands of one job at a time":                    "overlap",
		"C08/a stale effect is accepted":                           "stale",
		"C12/called lost before it was surely dead":                "lost",
		"C15/no dispatcher R after the last fault":                 "dispatcher",
		"C01/a skip for an overlap with an attempt that had ended": "skip",
	}
	found := 0
	for _, d := range defects() {
		h := d.history()
		page := h.Timeline(h.Judge(history.Needs{}))
		if n := strings.Count(page, "\n"); n > 60 || n < 5 {
			t.Errorf("%s/%s: the timeline has %d lines:\n%s", d.check, d.name, n, page)
		}
		if !strings.HasPrefix(page, "C") || !strings.Contains(page, "expected:") || !strings.Contains(page, "against it:") {
			t.Errorf("%s/%s: the timeline does not say what it is about:\n%s", d.check, d.name, page)
		}
		if name := wanted[d.check+"/"+d.name]; name != "" {
			found++
			golden(t, "timeline-"+name+".txt", page)
		}
	}
	if found != len(wanted) {
		t.Errorf("%d of %d defects with a golden file are there", found, len(wanted))
	}
}

func TestAValidHistoryHasNoTimeline(t *testing.T) {
	t.Parallel()
	h := story()
	if page := h.Timeline(h.Judge(history.Needs{})); page != "" {
		t.Errorf("got a timeline:\n%s", page)
	}
}

// TestTheTableOfChecksIsComplete keeps CHECKS.md what the code is.
func TestTheTableOfChecksIsComplete(t *testing.T) {
	t.Parallel()
	const path, mark = "../CHECKS.md", "<!-- table -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no %q", path, mark)
	}
	table := checksTable()
	if *update {
		if err := os.WriteFile(path, []byte(before+mark+table), 0o600); err != nil {
			t.Fatal(err)
		}
		after = table
	}
	if diff := cmp.Diff(table, after); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func checksTable() string {
	spoilt, right := map[string][]string{}, map[string][]string{}
	for _, d := range defects() {
		spoilt[d.check] = append(spoilt[d.check], d.name)
	}
	for _, l := range lookalikes() {
		right[l.check] = append(right[l.check], l.name)
	}
	var b strings.Builder
	b.WriteString("\n| check | what must hold | guarantee | evidence | fails on | does not fail on |\n|---|---|---|---|---|---|\n")
	for _, c := range history.Checks() {
		fmt.Fprintf(&b, "| %s %s | %s | %s | %s | %s | %s |\n", c.ID, c.Name, c.Says, c.Guarantee, c.Evidence,
			strings.Join(spoilt[c.ID], "; "), strings.Join(right[c.ID], "; "))
	}
	return b.String()
}
