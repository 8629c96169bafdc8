package history_test

import (
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestLongRunsAreJudgedInSeconds: half an hour of a job a second, with a fault each minute, takes a moment,
// so that eight hours of sixty jobs take minutes and not days.
func TestLongRunsAreJudgedInSeconds(t *testing.T) {
	t.Parallel()
	const length = 1800
	r := newRecording()
	j := r.apply(0.3, nil, "one", history.Spec{Period: time.Second, End: at(length + 1), Kept: 10})
	for second := 1; second <= length; second++ {
		if second%10 == 0 && second < length { // the one before is still under way
			r.begin(float64(second)+0.05, j, "n1", second, "")
			r.skip(float64(second)+1.05, j, skipped, overlap, second+1)
			r.end(float64(second)+1.5, j, 0)
			continue
		}
		if second%10 != 1 || second == 1 {
			ran(second)(r, j)
		}
	}
	r.foldAlone(length+12, j)
	h := r.taken(length + 20)
	for minute := range length / 60 {
		h.Faults = append(h.Faults, befell(history.LostReplies, "n1", float64(minute*60), float64(minute*60+3)))
	}
	begin := time.Now()
	if got := h.Judge(history.Needs{Required: length}); got.Verdict != history.Valid {
		t.Errorf("%s: %q\n%s", got.Verdict, got.Doubts, h.Timeline(got))
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("judging half an hour of one job took %s", took)
	} else {
		t.Log(took)
	}
}
