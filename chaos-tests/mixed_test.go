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
	mixedFor    = flag.Duration("duration", 4*time.Minute, "of the mixed run, from its first job to its report; at least 2m")
	mixedKeep   = flag.String("keep", "", "folder for the history of the mixed run; go run ./chaos-tests/rejudge reads it")
	mixedFaults = flag.String("faults", "", "names of the faults that the mixed run draws from, with commas; empty is all")
)

// Parts of a mixed run besides the faults: how long it goes on calmly before and after, and how long
// it waits at most until all is counted.
const (
	calmBefore = 15 * time.Second
	calmAfter  = busyRecovery + 5*time.Second
	lastRound  = 20 * time.Second // before that: what one round may take
	settling   = busyRecovery + foldAlone
)

// TestMixedFaults is the run. One that showed nothing, because etcd's disk was too slow or a fault did not take
// hold, is repeated once.
func TestMixedFaults(t *testing.T) {
	if *mixedKeep != "" { // a folder that cannot be made is told before the run, not after it
		if err := os.MkdirAll(*mixedKeep, 0o755); err != nil {
			t.Fatalf("-keep: %v", err)
		}
	}
	names := strings.FieldsFunc(*mixedFaults, func(r rune) bool { return r == ',' })
	for _, lasts := range []time.Duration{*mixedFor, shortest} {
		verdict := history.Invalid // of a run that was given up
		t.Run(fmt.Sprintf("seed=%d", *mixedSeed), func(t *testing.T) {
			t.Logf("again: go test -v -count 1 -timeout 1h -run MixedFaults ./chaos-tests -seed %d -duration %s", *mixedSeed, lasts)
			m := newMixed(t, *mixedSeed, lasts, names)
			m.run()
			verdict = m.judge(m.collect())
		})
		if verdict != history.Inconclusive {
			return
		}
	}
	t.Errorf("inconclusive twice: the report above says what is in doubt")
}

// shortest is the shortest run: the one that is repeated has no more time.
const shortest = 2 * time.Minute

// mixed is a run under way.
type mixed struct {
	*bed
	seed       uint64
	begin, end time.Time // of the schedules
	cards      []card
	crowd      *crowd
	observer   *observer
	phases     []history.Phase
	slept      bool // the card that makes effects come late was dealt
}

func newMixed(t *testing.T, seed uint64, lasts time.Duration, names []string) *mixed {
	t.Helper()
	if lasts < shortest {
		t.Fatalf("-duration %s: must be %s at least", lasts, shortest)
	}
	b := newBed(t, map[string]any{"QuotaBytes": quota, "Compact": -1})
	cards := deck(b)
	if len(names) > 0 {
		var known []string
		for _, c := range cards {
			known = append(known, c.name)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Fatalf("-faults: there is no %q; there are %s", name, strings.Join(known, ", "))
			}
		}
		cards = slices.DeleteFunc(cards, func(c card) bool { return !slices.Contains(names, c.name) })
	} else if lasts < sleepCardFrom {
		cards = slices.DeleteFunc(cards, func(c card) bool { return c.name == sleepCard })
	}
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
	faultsFrom, faultsTo := m.begin.Add(calmBefore), m.end.Add(-calmAfter-lastRound)
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
	p := &pile{cards: m.cards, r: rand.New(rand.NewPCG(m.seed, 0))}
	for _, name := range []string{"node-freeze-long", sleepCard} { // first of all those that last long enough for everybody to see
		if i := slices.IndexFunc(m.cards, func(c card) bool { return c.name == name }); i >= 0 {
			p.left = append(p.left, m.cards[i])
		}
	}
	d := &dealer{b: m.bed, r: p.r, seen: m.watch.Seen, away: map[string]bool{}}
	var beside besides
	inTime := func(c card) bool { return c.name != churnCard || time.Until(until) > patience } // which its proof may take
	for ; time.Now().Before(until); d.turn++ {
		d.took = map[string]bool{}
		beside.attend(d)
		first, ok := p.next(func(c card) bool {
			return (c.place != aside || beside.fits(until)) && (c.name != sleepCard || !m.slept || time.Until(until) > busyRecovery) && inTime(c)
		})
		if !ok {
			time.Sleep(time.Second) // only what takes longer than there is time
			continue
		}
		if first.place == aside {
			beside.begin(d, first.deal(d))
			continue
		}
		m.slept = m.slept || first.name == sleepCard
		round := []breakage{first.deal(d)}
		if first.place != everywhere && d.r.IntN(3) == 0 {
			second, ok := p.next(func(c card) bool { return c.place < everywhere && c.place != first.place && inTime(c) })
			if ok {
				round = append(round, second.deal(d))
			}
		}
		m.suffer(round...)
		m.recovers(d.away)
		time.Sleep(d.between(time.Second, 3*time.Second))
	}
	beside.close(d)
}

// pile are the cards that have not been dealt yet.
type pile struct {
	cards, left []card
	r           *rand.Rand
}

// next takes the first card that fits; when few are left, the whole deck is shuffled and laid below.
func (p *pile) next(fits func(card) bool) (card, bool) {
	for range 2 {
		if i := slices.IndexFunc(p.left, fits); i >= 0 {
			c := p.left[i]
			p.left = slices.Delete(p.left, i, i+1)
			return c, true
		}
		more := slices.Clone(p.cards)
		p.r.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		p.left = append(p.left, more...)
	}
	return card{}, false
}

// besides is a breakage that goes on while rounds do, if there is one: a clock that has stepped. Its node
// is left alone until its clock is believed again.
type besides struct {
	f      *breakage
	healed bool
}

// longestAside is how long such a breakage can keep its node away.
const longestAside = 25*time.Second + time.Minute + recovery

func (s *besides) fits(until time.Time) bool {
	return s.f == nil && time.Until(until) > longestAside
}

func (s *besides) begin(d *dealer, f breakage) {
	s.f, s.healed = &f, false
	d.b.begin(s.f)
	d.b.prove(s.f)
	d.away[f.Node] = true
}

// attend heals it when its time has come, and gives its node back when that can do its work.
func (s *besides) attend(d *dealer) {
	switch {
	case s.f == nil:
	case !s.healed && time.Since(s.f.From) > s.f.lasts:
		s.healed = true
		d.b.end(s.f)
	case s.healed && time.Since(s.f.To) > s.f.away+time.Second:
		delete(d.away, s.f.Node)
		s.f = nil
		d.b.recovers(d.away)
	}
}

// close ends it now, and waits for its node.
func (s *besides) close(d *dealer) {
	for ; s.f != nil; time.Sleep(100 * time.Millisecond) {
		s.attend(d)
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
		Spaces: m.observer.spaces, Phases: m.phases, FsyncP99: m.observer.slowest(m.faults), Taken: time.Now(), Effects: m.received(),
	}
	for name := range m.wires {
		h.Members = append(h.Members, history.Member{Name: name, Labels: map[string]string{"zone": zoneOf(name)}})
	}
	return h
}

// judge reports, and fails the test if something is wrong.
func (m *mixed) judge(h history.History) history.Verdict {
	m.t.Helper()
	m.keep(h)
	results := map[string]int{}
	for _, c := range h.Changes {
		results[c.Op+" "+c.Result]++
	}
	needs := history.Full()
	if m.slept {
		needs.Refused = 1
	}
	j := h.Judge(needs)
	m.t.Logf("calls of users: %v\n%s", results, h.Report(j))
	if j.Verdict == history.Invalid {
		m.t.Errorf("%s", j.Verdict)
	}
	return j.Verdict
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
