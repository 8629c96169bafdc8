package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// long is a job each second for so many seconds, every tenth of which is overlapped, with a fault each
// minute.
func long(seconds int) history.History {
	r := newRecording()
	j := r.apply(0.3, nil, "one", history.Spec{Period: time.Second, End: at(float64(seconds) + 1), Kept: 10})
	for second := 1; second <= seconds; second++ {
		switch {
		case second%10 == 0 && second < seconds: // still under way when the next is due
			r.begin(float64(second)+0.05, j, "n1", second, "")
			r.skip(float64(second)+1.05, j, skipped, overlap, second+1)
			r.end(float64(second)+1.5, j, 0)
		case second%10 != 1 || second == 1:
			ran(second)(r, j)
		}
	}
	r.foldAlone(float64(seconds)+12, j)
	h := r.taken(float64(seconds) + 20)
	for minute := range seconds / 60 {
		h.Faults = append(h.Faults, befell(history.LostReplies, "n1", float64(minute*60), float64(minute*60+3)))
	}
	return h
}

func TestALongRunIsValid(t *testing.T) {
	t.Parallel()
	h := long(600)
	if j := h.Judge(history.Needs{Required: 600, InFaults: 100}); j.Verdict != history.Valid {
		t.Errorf("%s: %q\n%s", j.Verdict, j.Doubts, h.Timeline(j))
	}
}

// BenchmarkJudge shows that judging takes time in proportion to the length of the run: eight hours of
// sixty jobs are minutes.
func BenchmarkJudge(b *testing.B) {
	for _, seconds := range []int{300, 600, 1200} {
		h := long(seconds)
		b.Run(fmt.Sprint(seconds), func(b *testing.B) {
			for b.Loop() {
				h.Judge(history.Needs{})
			}
		})
	}
}
