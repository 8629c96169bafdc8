package chaos

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// The mixed run: a load under every policy, users who change it, and faults drawn from a seed, one or
// two at a time. Afterwards everything is judged.
var (
	mixedSeed   = flag.Uint64("seed", 1, "of the mixed run")
	mixedFor    = flag.Duration("duration", 230*time.Second, "of the mixed run, from its first job to its report; at least 2m")
	mixedKeep   = flag.String("keep", "", "folder for the history of the mixed run; go run ./chaos-tests/rejudge reads it")
	mixedFaults = flag.String("faults", "", "names of the faults that the mixed run draws from, with commas; empty is all")
)

// Parts of a mixed run besides the faults: how long it goes on calmly before and after, and how long
// it waits at most until all is counted.
const (
	calmBefore = 15 * time.Second
	calmAfter  = busyRecovery + 5*time.Second
	settling   = busyRecovery + foldAlone
)

// TestMixedFaults is the run.
func TestMixedFaults(t *testing.T) {
	t.Logf("seed %d, %s: go test -v -count 1 -run MixedFaults ./chaos-tests -seed %d -duration %s", *mixedSeed, *mixedFor, *mixedSeed, *mixedFor)
	m := newMixed(t, *mixedSeed, *mixedFor, strings.FieldsFunc(*mixedFaults, func(r rune) bool { return r == ',' }))
	m.run()
	h := m.collect()
	m.judge(h)
}

// mixed is a run under way.
type mixed struct {
	*bed
	seed       uint64
	begin, end time.Time // of the schedules
	cards      []card
	crowd      *crowd
	observer   *observer
	phases     []history.Phase
}

func newMixed(t *testing.T, seed uint64, lasts time.Duration, names []string) *mixed {
	t.Helper()
	cards := deck()
	if len(names) > 0 {
		cards = slices.DeleteFunc(cards, func(c card) bool { return !slices.Contains(names, c.name) })
		if len(cards) != len(names) {
			t.Fatalf("not all of %v are faults", names)
		}
	}
	b := newBed(t, map[string]any{"QuotaBytes": quota, "Compact": -1})
	m := &mixed{bed: b, seed: seed, cards: cards, crowd: newCrowd(b), observer: observe(b)}
	m.begin = time.Now()
	m.end = m.begin.Add(lasts - settling).Truncate(time.Second)
	return m
}

// run plays the whole schedule.
func (m *mixed) run() {
	m.t.Helper()
	for _, w := range append(mixedLoad(m.end), usersLoad(m.end)...) {
		if h := m.crowd.apply("n1", w); h.Result != history.OK {
			m.t.Fatalf("apply %s: %s", w.name, h.Error)
		}
	}
	stop := make(chan struct{})
	wait := m.crowd.work(m.seed, m.end, stop)
	faultsFrom, faultsTo := m.begin.Add(calmBefore), m.end.Add(-calmAfter)
	sleepUntil(faultsFrom)
	m.rounds(faultsTo)
	calm := time.Now()
	sleepUntil(m.end)
	close(stop)
	wait()
	m.quiet()
	m.phases = append(m.phases,
		history.Phase{Name: history.Before, From: m.begin, To: faultsFrom},
		history.Phase{Name: history.During, From: faultsFrom, To: calm},
		history.Phase{Name: history.After, From: calm, To: time.Now()})
}

// rounds deals one or two cards at a time until the time is up, and lets the cluster recover in between.
func (m *mixed) rounds(until time.Time) {
	m.t.Helper()
	r := rand.New(rand.NewPCG(m.seed, 0))
	var pile []card
	next := func(fits func(card) bool) (card, bool) {
		if len(pile) == 0 {
			pile = slices.Clone(m.cards)
			r.Shuffle(len(pile), func(i, j int) { pile[i], pile[j] = pile[j], pile[i] })
		}
		i := slices.IndexFunc(pile, fits)
		if i < 0 {
			return card{}, false
		}
		c := pile[i]
		pile = slices.Delete(pile, i, i+1)
		return c, true
	}
	for time.Now().Before(until) {
		d := &dealer{b: m.bed, r: r, seen: m.watch.Seen, away: map[string]bool{}, took: map[string]bool{}}
		first, _ := next(func(card) bool { return true })
		round := []breakage{first.deal(d)}
		if first.place != everywhere && r.IntN(3) == 0 {
			second, ok := next(func(c card) bool { return c.place != everywhere && c.place != first.place })
			if ok {
				round = append(round, second.deal(d))
			}
		}
		m.suffer(round...)
		m.recovers(nil)
		time.Sleep(d.between(time.Second, 3*time.Second))
	}
}

// quiet waits until nothing is due, running or uncounted.
func (m *mixed) quiet() {
	m.t.Helper()
	deadline := m.end.Add(settling)
	for ; time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		if m.stillBusy() == "" {
			break
		}
	}
	if busy := m.stillBusy(); busy != "" {
		m.t.Errorf("%s after everything should have ended, %s", settling, busy)
	}
	time.Sleep(2 * time.Second)
}

func (m *mixed) stillBusy() string {
	for _, j := range m.jobs() {
		if j.Backlog.Count > 0 {
			return fmt.Sprintf("%s has a backlog of %d", j.Name, j.Backlog.Count)
		}
	}
	for _, r := range m.runs() {
		if r.Verdict == "" {
			return fmt.Sprintf("%s of %s is running", r.Firing, r.Job)
		}
	}
	if s := m.status(); s.Unaccounted != "0" {
		return s.Unaccounted + " instants are unaccounted for"
	}
	return ""
}

// collect puts together all that is known.
func (m *mixed) collect() history.History {
	m.t.Helper()
	m.observer.end()
	ctx, cancel := soon(patience)
	defer cancel()
	h := history.History{
		Changes: m.crowd.changes, Faults: m.faults, Lines: m.lines(), Jobs: m.jobs(), Runs: m.runs(), Etcd: m.watch.Stop(ctx),
		Reads: m.crowd.reads, Previews: m.crowd.previews, Samples: m.observer.samples, Statuses: m.observer.statuses,
		Spaces: m.observer.spaces, Phases: m.phases, FsyncP99: m.observer.slowest(m.faults), Taken: time.Now(),
	}
	for _, n := range m.nodes {
		h.Members = append(h.Members, history.Member{Name: n.name, Labels: map[string]string{"zone": zones[n.name]}})
	}
	log, err := os.Open(m.effects)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	if h.Effects, err = history.ReadEffects(log); err != nil {
		m.t.Fatal(err)
	}
	return h
}

// judge reports, and fails the test unless all is well.
func (m *mixed) judge(h history.History) {
	m.t.Helper()
	results := map[string]int{}
	for _, c := range h.Changes {
		results[c.Op+" "+c.Result]++
	}
	m.t.Logf("%d lines, %d runs, %d effects, %d faults, etcd's fsync p99 %s, calls %v", len(h.Lines), len(h.Runs), len(h.Effects), len(h.Faults), h.FsyncP99, results)
	m.keep(h)
	m.t.Log(h.Lateness(func(l history.Line) bool { return !l.Due().IsZero() }))
	j := h.Judge(history.Full())
	m.t.Logf("%s: %d instants, %d of them under fault; looked at %v", j.Verdict, j.Required, j.InFaults, j.Looked)
	for _, doubt := range j.Doubts {
		m.t.Error("inconclusive: ", doubt)
	}
	m.noViolations(j.Findings)
}

// keep writes the history to a folder if one was named.
func (m *mixed) keep(h history.History) {
	m.t.Helper()
	if *mixedKeep == "" {
		return
	}
	path := filepath.Join(*mixedKeep, fmt.Sprintf("seed-%d.history", m.seed))
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(h.Write(f), f.Close())
	}
	if err != nil {
		m.t.Errorf("keep the history: %v", err)
		return
	}
	m.t.Logf("kept in %s", path)
}
