package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestHardlyAnythingCanBeLostOrChanged takes the story and drops, copies or changes one thing after the
// other, every line and every write: the judgement must be invalid, but for what nothing depends on.
func TestHardlyAnythingCanBeLostOrChanged(t *testing.T) {
	t.Parallel()
	whole := story()
	mutations := map[string]func(h *history.History, i int) bool{ // false: not applicable
		"drop a line": func(h *history.History, i int) bool {
			if l := h.Lines[i]; l.Event == history.Beat || l.Event == history.Done {
				return false // beats show life, and an answer may be lost with its command
			}
			h.Lines = slices.Delete(slices.Clone(h.Lines), i, i+1)
			return true
		},
		"start it again": func(h *history.History, i int) bool {
			l := h.Lines[i]
			if l.Event != history.Start {
				return false
			}
			l.Nonce = "again"
			h.Lines = append(slices.Clone(h.Lines), l)
			return true
		},
		"change the node": func(h *history.History, i int) bool {
			if h.Lines[i].Event != history.Start {
				return false
			}
			h.Lines = slices.Clone(h.Lines)
			h.Lines[i].Node = "n9"
			return true
		},
		"change the token": func(h *history.History, i int) bool {
			if h.Lines[i].Event != history.Start {
				return false
			}
			h.Lines = slices.Clone(h.Lines)
			h.Lines[i].Token += "7"
			return true
		},
		"start it a minute earlier": func(h *history.History, i int) bool {
			if h.Lines[i].Event != history.Start {
				return false
			}
			h.Lines = slices.Clone(h.Lines)
			moved(&h.Lines[i], -60)
			return true
		},
	}
	for name, mutate := range mutations {
		for i := range whole.Lines {
			h := whole
			if mutate(&h, i) {
				mustFail(t, h, fmt.Sprintf("%s: %+v", name, whole.Lines[i]))
			}
		}
	}
	last := map[string]int{}
	for i, e := range whole.Etcd.Events {
		last[e.Key] = i
	}
	for i, e := range whole.Etcd.Events {
		if last[e.Key] == i && strings.HasPrefix(e.Key, "state/") {
			continue // the last fold: what is shown counts what it counts anyway
		}
		h := whole
		log := *h.Etcd
		log.Events = slices.Delete(slices.Clone(log.Events), i, i+1)
		h.Etcd = &log
		if j := h.Judge(history.Needs{}); j.Verdict == history.Valid { // its evidence may be too weak: then it says so
			t.Errorf("drop the write of %s at revision %d, and it is valid", e.Key, e.Revision)
		}
	}
	for i, e := range whole.Effects {
		if e.Ledger == history.Plain {
			h := whole
			h.Effects = slices.Delete(slices.Clone(h.Effects), i, i+1)
			mustFail(t, h, fmt.Sprintf("drop the effect %+v", e))
		}
	}
	for i, r := range whole.Runs {
		h := whole
		h.Runs = slices.Delete(slices.Clone(h.Runs), i, i+1)
		mustFail(t, h, "drop the run "+r.Firing)
		h = whole
		h.Runs = slices.Clone(h.Runs)
		h.Runs[i].Verdict = "CANCELED"
		mustFail(t, h, "change the verdict of "+r.Firing)
	}
}

func mustFail(t *testing.T, h history.History, what string) {
	t.Helper()
	if j := h.Judge(history.Needs{}); j.Verdict != history.Invalid {
		t.Errorf("%s, and it is %s %s", what, j.Verdict, strings.Join(j.Doubts, "; "))
	}
}
