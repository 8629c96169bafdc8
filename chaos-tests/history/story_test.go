package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

const (
	skipped = storedv1.Verdict_VERDICT_SKIPPED
	missed  = storedv1.Verdict_VERDICT_MISSED
	overlap = storedv1.Reason_REASON_OVERLAP
	catchUp = storedv1.Reason_REASON_CATCH_UP
)

// story is a run of 40 s at which nothing is wrong, with all evidence: three nodes, of which n2 is killed
// at 5.5 and never comes back. Its leases end at 8.5, n1 has its shards from 13.0 on, and what was in
// flight there is called lost at 23.0, when it is surely dead.
//
//	loses   1 s  ok 1-3, FAILED 4, LOST 5 on n2, MISSED 6-7, SKIPPED(overlap) 8-22, ok 23-25
//	tries   5 s  attempt 1 of 5 LOST on n2, attempt 2 on n1 at 23; SKIPPED(overlap) 10-20, ok 25
//	edited  2 s  ok 2-8, paused over 10, ok 12-14, edited to 5 s, ok 15, triggered at 16.2, ok 20, deleted
//	edited  1 s  made again at 22.4: ok 23-25
func story() history.History {
	r := newRecording()
	end := at(26)
	loses := r.apply(0.3, nil, "loses", history.Spec{Period: time.Second, End: end, Kept: 10, CatchUp: "none"})
	tries := r.apply(0.35, nil, "tries", history.Spec{Period: 5 * time.Second, End: end, Kept: 10, OnLost: "retry"})
	edited := r.apply(0.4, nil, "edited", history.Spec{Period: 2 * time.Second, End: end, Kept: 10, Version: 1})
	runs := func(j *recordedJob, node string, instant int, exit int) {
		r.begin(float64(instant)+0.05, j, node, instant, "")
		r.end(float64(instant)+0.25, j, exit)
	}
	for second := 1; second <= 4; second++ {
		runs(loses, "n2", second, map[bool]int{true: 3}[second == 4])
		if second%2 == 0 {
			runs(edited, "n3", second, 0)
		}
	}
	r.begin(5.05, loses, "n2", 5, "")
	r.begin(5.06, tries, "n2", 5, "")
	for _, j := range []*recordedJob{loses, tries} {
		r.line(5.3, *j.running, history.Beat, 0)
		r.line(5.51, *j.running, history.Beat, 0) // one was on its way when the node died
	}
	runs(edited, "n3", 6, 0)
	runs(edited, "n3", 8, 0)
	r.lockEnds(8.5, loses)
	r.lockEnds(8.51, tries)
	r.edit(8.6, edited, history.Pause)
	r.edit(11.5, edited, history.Resume)
	runs(edited, "n3", 12, 0)
	r.skip(13.0, loses, missed, catchUp, 6, 7)
	for second := 8; second <= 13; second++ {
		r.skip(13.0+float64(second)/1000, loses, skipped, overlap, second)
	}
	r.skip(13.02, tries, skipped, overlap, 10)
	for second := 14; second <= 22; second++ {
		r.skip(float64(second)+0.05, loses, skipped, overlap, second)
		switch second {
		case 14:
			runs(edited, "n3", 14, 0)
			edited = r.apply(14.6, edited, "edited", history.Spec{Period: 5 * time.Second, End: end, Kept: 10, Version: 2})
		case 15, 20:
			r.skip(float64(second)+0.06, tries, skipped, overlap, second)
			runs(edited, "n3", second, 0)
		case 16:
			id := r.trigger(16.2, edited)
			r.begin(16.25, edited, "n3", 0, id)
			r.end(16.4, edited, 0)
		}
	}
	r.foldAlone(20.4, edited)
	r.edit(20.5, edited, history.Delete)
	again := r.apply(22.4, edited, "edited", history.Spec{Period: time.Second, End: end, Kept: 10, Version: 3})
	r.lose(23.01, loses, false)
	r.lose(23.02, tries, true)
	r.begin(23.03, tries, "n1", 5, "")
	for second := 23; second <= 25; second++ {
		runs(loses, "n1", second, 0)
		runs(again, "n3", second, 0)
		if second == 24 {
			r.end(24.5, tries, 0)
			r.foldAlone(24.9, tries)
		}
	}
	runs(tries, "n1", 25, 0)
	for i, j := range []*recordedJob{loses, tries, again} {
		r.foldAlone(35.3+float64(i)/100, j)
	}
	h := r.taken(40)
	witnessed(&h)
	return h
}

// witnessed adds what nodes say of themselves and of the cluster, and the fault of the story.
func witnessed(h *history.History) {
	h.Faults = []history.Fault{{ID: "F01", Kind: history.NodeKill, Node: "n2", From: at(5.5), Proof: "pid 4711 is gone", Detail: "signal KILL"}}
	h.Phases = []history.Phase{{Name: history.Before, From: at(0), To: at(5)}, {Name: history.During, From: at(5), To: at(15.5)}, {Name: history.After, From: at(15.5), To: at(40)}}
	h.FsyncP99 = 4 * time.Millisecond
	for second := 0; second < 40; second++ {
		members := []string{"n1", "n2", "n3"}
		if second > 8 {
			members = []string{"n1", "n3"}
		}
		status := history.Status{At: at(float64(second) + 0.5), Node: "n1", Dispatcher: "n1", ShardsOwned: 256, Ready: true}
		for _, m := range members {
			status.Members = append(status.Members, history.MemberStatus{Name: m, ShardsOwned: 85})
			if m == "n2" && second > 5 {
				continue
			}
			h.Samples = append(h.Samples, history.Sample{At: at(float64(second) + 0.5), Node: m, Ready: true, Metrics: map[string]float64{
				"go_goroutines": 100 + float64(second%7), "process_open_fds": 20, "process_resident_memory_bytes": 40 << 20,
			}})
		}
		h.Statuses = append(h.Statuses, status)
	}
	h.Spaces = []history.Space{
		{At: at(4), Leases: 6, Locks: 2, DatabaseBytes: 1 << 20, Members: 3}, {At: at(39), Leases: 4, DatabaseBytes: 2 << 20, Members: 2},
	}
	uid := func(n int) string { return fmt.Sprintf("01j%023d", n) }
	for _, x := range []struct {
		at         float64
		node, job  string
		uid        string
		generation int64
		paused     bool
	}{
		{1.5, "n1", "loses", uid(0), 1, false}, {7, "n3", "edited", uid(2), 1, false}, {9, "n1", "edited", uid(2), 2, true},
		{12.5, "n3", "edited", uid(2), 3, false}, {15.2, "n1", "edited", uid(2), 4, false}, {21, "n3", "edited", "", 0, false},
		{23, "n1", "edited", uid(3), 1, false},
	} {
		h.Reads = append(h.Reads, history.Read{Job: x.job, Node: x.node, Invoked: at(x.at), Returned: at(x.at + 0.01), Result: history.OK,
			Found: x.uid != "", UID: x.uid, Generation: x.generation, Paused: x.paused})
	}
	h.Previews = []history.Preview{
		{At: at(3.2), Node: "n1", Job: "loses", Next: []time.Time{at(4), at(5), at(6)}},
		{At: at(19.5), Node: "n3", Job: "edited", Next: []time.Time{at(20), at(25)}},
	}
	h.Members = []history.Member{{Name: "n1", Labels: map[string]string{"zone": "a"}}, {Name: "n2", Labels: map[string]string{"zone": "a"}}, {Name: "n3", Labels: map[string]string{"zone": "b"}}}
}

// needs is what the stories are long enough for.
func needs() history.Needs {
	n := history.Full()
	n.Required, n.InFaults = 30, 10
	return n
}

func TestAWholeStoryIsValid(t *testing.T) {
	t.Parallel()
	h := story()
	j := h.Judge(needs())
	if j.Verdict != history.Valid {
		t.Errorf("the story is %s\n%s", j.Verdict, h.Report(j))
	}
	if j.Required != 25+5+len([]int{2, 4, 6, 8, 12, 14, 15, 20})+3 || j.InFaults == 0 {
		t.Errorf("%d instants needed a verdict, %d of them under fault", j.Required, j.InFaults)
	}
	for _, c := range history.Checks() {
		if j.Looked[c.ID] == 0 {
			t.Errorf("%s %s had nothing to look at", c.ID, c.Name)
		}
	}
}

// find is the place of the first line that fits.
func find(h *history.History, job, event string, second float64) int {
	return slices.IndexFunc(h.Lines, func(l history.Line) bool {
		return l.Job == job && l.Event == event && !l.Wall().Before(at(second)) && l.Wall().Before(at(second+1))
	})
}
