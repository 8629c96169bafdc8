package history_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// defect is a history that is spoilt in one way, and what must be found in it.
type defect struct {
	check, name string
	also        string // other checks that notice it as well
	history     func() history.History
}

// lookalike is a history that looks as if it were spoilt, and is not.
type lookalike struct {
	check, name string
	history     func() history.History
}

func defects() []defect {
	return slices.Concat(startDefects(), attemptDefects(), recordDefects(), stateDefects(), apiDefects(), clusterDefects())
}

func lookalikes() []lookalike {
	return slices.Concat(startLookalikes(), attemptLookalikes(), recordLookalikes(), stateLookalikes(), apiLookalikes(), clusterLookalikes())
}

// TestEachCheckFindsWhatItIsFor spoils a history in one way each: a checker that does not fail proves
// nothing when it passes.
func TestEachCheckFindsWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, d := range defects() {
		t.Run(d.check+"/"+d.name, func(t *testing.T) {
			t.Parallel()
			h := d.history()
			j := h.Judge(history.Needs{})
			got := map[string]bool{}
			for _, f := range j.Findings {
				got[f.Check] = true
			}
			want := append(strings.Fields(d.also), d.check)
			slices.Sort(want)
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" || j.Verdict != history.Invalid {
				t.Errorf("%s; checks (-want +got):\n%s%s", j.Verdict, diff, lines(j.Findings))
			}
		})
	}
}

// TestWhatOnlyLooksWrongPasses keeps each check from finding what is right.
func TestWhatOnlyLooksWrongPasses(t *testing.T) {
	t.Parallel()
	for _, l := range lookalikes() {
		t.Run(l.check+"/"+l.name, func(t *testing.T) {
			t.Parallel()
			h := l.history()
			if j := h.Judge(history.Needs{Checks: []string{l.check}}); j.Verdict != history.Valid {
				t.Errorf("%s: %q\n%s", j.Verdict, j.Doubts, lines(j.Findings))
			}
		})
	}
}

// TestEachCheckIsTried keeps the tables complete: two defects and a look-alike for each check at least.
func TestEachCheckIsTried(t *testing.T) {
	t.Parallel()
	spoilt, right := map[string]int{}, map[string]int{}
	for _, d := range defects() {
		spoilt[d.check]++
	}
	for _, l := range lookalikes() {
		right[l.check]++
	}
	for _, c := range history.Checks() {
		if spoilt[c.ID] < 2 || right[c.ID] < 1 {
			t.Errorf("%s %s is tried by %d defects and %d look-alikes; want 2 and 1 at least", c.ID, c.Name, spoilt[c.ID], right[c.ID])
		}
	}
}

func lines(found []history.Finding) string {
	var b strings.Builder
	for _, f := range found {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// spoilt is the story with something changed.
func spoilt(change func(h *history.History)) func() history.History {
	return func() history.History {
		h := story()
		change(&h)
		return h
	}
}

// second is what happens in one second of a brief history.
type second func(r *recording, j *recordedJob)

// brief is a run of one job, each second from 1 to 5, on n1; special seconds go another way.
func brief(special map[int]second) func() history.History {
	return briefly(history.Spec{Period: time.Second, End: at(6), Kept: 10}, special)
}

func briefly(spec history.Spec, special map[int]second) func() history.History {
	return func() history.History {
		r := newRecording()
		j := r.apply(0.3, nil, "one", spec)
		for s := 1; s <= 5; s++ {
			if special[s] != nil {
				special[s](r, j)
			} else {
				ran(s)(r, j)
			}
		}
		if special[6] != nil { // after the last
			special[6](r, j)
		}
		if j.def.Deleted == nil {
			r.foldAlone(15.3, j)
		}
		return r.taken(20)
	}
}

// ran is a second in which all goes well.
func ran(instant int) second {
	return func(r *recording, j *recordedJob) {
		r.begin(float64(instant)+0.05, j, "n1", instant, "")
		r.end(float64(instant)+0.25, j, 0)
	}
}

// nothing happens.
func nothing(*recording, *recordedJob) {}

// with changes the history that another makes.
func with(make func() history.History, change func(h *history.History)) func() history.History {
	return func() history.History {
		h := make()
		change(&h)
		return h
	}
}

// befell is a fault that took hold.
func befell(kind, node string, from, to float64) history.Fault {
	f := history.Fault{ID: "F00", Kind: kind, Node: node, From: at(from), Proof: "seen", Shown: "seen"}
	if to > 0 {
		f.To = at(to)
	}
	return f
}

// events are those of keys that begin so, in order.
func events(h *history.History, prefix string) []*history.EtcdEvent {
	var found []*history.EtcdEvent
	for i := range h.Etcd.Events {
		if strings.HasPrefix(h.Etcd.Events[i].Key, prefix) {
			found = append(found, &h.Etcd.Events[i])
		}
	}
	return found
}

// forget takes out all events of a key, as if it had never been written.
func forget(h *history.History, key string) {
	h.Etcd.Events = slices.DeleteFunc(h.Etcd.Events, func(e history.EtcdEvent) bool { return e.Key == key })
}

// rewrite changes the value of an event.
func rewrite[M proto.Message](e *history.EtcdEvent, into M, change func(M)) {
	if err := proto.Unmarshal(e.Value, into); err != nil {
		panic(err)
	}
	change(into)
	value, err := proto.Marshal(into)
	if err != nil {
		panic(err)
	}
	e.Value = value
}

// restate changes a state of a job, counted from 0; from says that all later ones change as well.
func restate(h *history.History, job string, number int, from bool, change func(s *storedv1.State)) {
	for i, e := range events(h, "state/0a/default/"+job) {
		if i == number || from && i > number {
			rewrite(e, new(storedv1.State), change)
		}
	}
}

// linesOf changes all lines of a job's firing of a second.
func linesOf(h *history.History, job string, second int, change func(l *history.Line)) {
	instant := at(float64(second)).Format(time.RFC3339)
	for i := range h.Lines {
		if h.Lines[i].Job == job && h.Lines[i].Instant == instant {
			change(&h.Lines[i])
		}
	}
}

// moved puts a line so much later.
func moved(l *history.Line, seconds float64) {
	l.WallNS += int64(seconds * 1e9)
	l.BootNS += int64(seconds * 1e9)
}
