package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// This file is how scenes are watched and judged.

// sight is one start as the handler itself saw it.
type sight struct {
	id       executor.Identity
	at, done time.Time // done is zero while it runs
	cause    error
}

// grant is a lock as etcd committed it.
type grant struct {
	firing scheduler.Firing
	token  int64
	at     time.Time
	by     string // the member whose connection it came through
}

// alarm is a line of a log that a person is to read: a warning or an error.
type alarm struct {
	member, message string
	at              time.Time
}

// handle is the handler "seen": it notes its start at once, and runs for the duration in its payload. A
// payload may also say "stubborn" (it ignores its context) and "effects".
func (s *scene) handle(ctx context.Context, id executor.Identity) error {
	words := strings.Fields(id.Payload)
	d, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	me := &sight{id: id, at: s.wall()}
	s.mu.Lock()
	s.starts = append(s.starts, me)
	effect := s.effect
	s.mu.Unlock()
	end, beat := time.After(d), make(<-chan time.Time)
	if slices.Contains(words, "effects") {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		beat = ticker.C
	}
	stop := ctx.Done()
	if slices.Contains(words, "stubborn") {
		stop = nil
	}
	for err == nil {
		select {
		case <-stop:
			err = context.Cause(ctx)
		case <-beat:
			effect(id)
			continue
		case <-end:
		}
		break
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	me.done, me.cause = s.wall(), err
	return err
}

// committed is told by etcd of every transaction.
func (s *scene) committed(r memetcd.Revision) {
	for _, ev := range r.Events {
		path, ours := strings.CutPrefix(string(ev.Kv.Key), "/quorumcron/locks/")
		if !ours || ev.Type != clientv3.EventTypePut {
			continue
		}
		parts := strings.Split(path, "/")
		firing, err := scheduler.ParseFiring(parts[0] + parts[1])
		if err != nil {
			s.t.Errorf("lock of nothing: %s: %v", path, err)
		}
		s.mu.Lock()
		s.grants = append(s.grants, grant{firing: firing, token: ev.Kv.CreateRevision, at: r.At.Add(s.offset).UTC(), by: r.By})
		s.mu.Unlock()
	}
}

// begins matches what grants attempts; ends, what records their end.
func begins(c memetcd.Call) bool {
	return memetcd.WritesTo("/quorumcron/locks/")(c) && memetcd.WritesTo("/quorumcron/state/")(c)
}

func ends(c memetcd.Call) bool {
	return memetcd.WritesTo("/quorumcron/locks/")(c) && memetcd.WritesTo("/quorumcron/runs/")(c)
}

// granted returns a copy of what etcd granted to a job, in order.
func (s *scene) granted(job scheduler.Job) []grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.grants), func(g grant) bool { return g.firing.UID != job.UID })
}

// seen returns a copy of what the handlers saw of the jobs, or of all of them, in order of start.
func (s *scene) seen(jobs ...scheduler.Job) []sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []sight
	for _, one := range s.starts {
		if len(jobs) == 0 || slices.ContainsFunc(jobs, func(j scheduler.Job) bool { return j.UID == one.id.Firing.UID }) {
			all = append(all, *one)
		}
	}
	return all
}

// sightOf is what the first attempt of a firing saw.
func (s *scene) sightOf(f scheduler.Firing) sight {
	s.t.Helper()
	for _, one := range s.seen() {
		if one.id.Firing == f {
			return one
		}
	}
	s.t.Fatalf("%s never started", f)
	return sight{}
}

// between returns those that started in [from, to).
func between(seen []sight, from, to time.Time) []sight {
	return slices.DeleteFunc(slices.Clone(seen), func(one sight) bool { return one.at.Before(from) || !one.at.Before(to) })
}

// late is how long after its instant it started.
func (one sight) late() time.Duration { return one.at.Sub(one.id.Firing.Instant()) }

// latest is the greatest lateness of some starts.
func latest(seen []sight) time.Duration {
	var most time.Duration
	for _, one := range seen {
		most = max(most, one.late())
	}
	return most
}

// checkStarts holds what the handlers saw against what etcd granted: every start has its own grant, no
// attempt started twice, nothing early, and no job overlapped itself.
func (s *scene) checkStarts() {
	s.t.Helper()
	s.mu.Lock()
	granted := map[int64]map[scheduler.Firing]grant{}
	for _, g := range s.grants {
		if granted[g.token] == nil { // a group grants many firings at one revision
			granted[g.token] = map[scheduler.Firing]grant{}
		}
		granted[g.token][g.firing] = g
	}
	s.mu.Unlock()
	type attempt struct {
		firing scheduler.Firing
		number int
	}
	started := map[attempt]sight{}
	last := map[scheduler.JobName]sight{}
	for _, one := range s.seen() {
		what := fmt.Sprintf("job %s, %s attempt %d on %s", one.id.Job, one.id.Firing.Key(), one.id.Attempt, one.id.Member)
		if g, ok := granted[one.id.Token][one.id.Firing]; !ok || g.by != one.id.Member {
			s.t.Errorf("%s: started with token %d, which etcd never granted to it: %+v", what, one.id.Token, g)
		}
		a := attempt{one.id.Firing, one.id.Attempt}
		if other, twice := started[a]; twice {
			s.t.Errorf("%s: started twice, at %s and at %s on %s", what, one.at, other.at, other.id.Member)
		}
		started[a] = one
		if at := one.id.Firing.Instant(); !at.IsZero() && one.at.Before(at.Add(-s.skew)) {
			s.t.Errorf("%s: started early, at %s", what, one.at)
		}
		before, some := last[one.id.Job]
		if some && (before.done.IsZero() || one.at.Before(before.done)) && !strings.Contains(before.id.Payload, "stubborn") {
			s.t.Errorf("%s: overlaps %s, which ended %s", what, before.id.Firing.Key(), before.done)
		}
		last[one.id.Job] = one
	}
}

// verdicts are the job's counters, as "SKIPPED(overlap)".
func (s *scene) verdicts(job scheduler.Job) map[string]int64 {
	s.t.Helper()
	view, err := s.any().Job(s.t.Context(), job.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, c := range view.State.Counters {
		sums[verdictName(c.Verdict, c.Reason)] += c.Count
	}
	return sums
}

// verdictName is a verdict with its reason.
func verdictName(v scheduler.Verdict, r scheduler.Reason) string {
	if r == "" {
		return string(v)
	}
	return string(v) + "(" + string(r) + ")"
}

// sum is how many firings the verdicts are of.
func sum(verdicts map[string]int64) int64 {
	var n int64
	for _, c := range verdicts {
		n += c
	}
	return n
}

// want fails the test unless these are all the verdicts of the job.
func (s *scene) want(job scheduler.Job, want map[string]int64) {
	s.t.Helper()
	if got := s.verdicts(job); !maps.Equal(got, want) {
		s.t.Errorf("job %s: verdicts %v, want %v", job.Name, got, want)
	}
}

// balance checks that every instant of a ticking job up to its cursor has one verdict or is in flight,
// and that the cursor has come to through. The instants are reckoned by plain arithmetic. It returns
// the verdicts.
func (s *scene) balance(job scheduler.Job, through time.Time) map[string]int64 {
	s.t.Helper()
	view, err := s.any().Job(s.t.Context(), job.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	period := int64(periodOf(job) / time.Second)
	if view.State.Cursor.Before(through.Add(-periodOf(job))) {
		s.t.Errorf("job %s: nothing after %s is decided, and it is %s", job.Name, view.State.Cursor, s.wall())
	}
	instants := view.State.Cursor.Unix()/period - view.Job.Created.Unix()/period
	open := int64(len(view.State.Entries) + len(view.State.Retries))
	if view.State.Backlog != nil {
		open += view.State.Backlog.Count
	}
	sums := s.verdicts(job)
	if sum(sums)+open != instants {
		s.t.Errorf("job %s: %d instants up to %s, but %d verdicts and %d open: %s",
			job.Name, instants, view.State.Cursor, sum(sums), open, describe(view.State))
	}
	return sums
}

// metric sums a counter over all members and lives; label is "" or a label's value.
func (s *scene) metric(name, label string) float64 {
	s.t.Helper()
	s.mu.Lock()
	registries := slices.Clone(s.gauges)
	s.mu.Unlock()
	sum := 0.0
	for _, r := range registries {
		families, err := r.Gather()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "quorumcron_"+name {
				continue
			}
			for _, m := range f.GetMetric() {
				if label == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

// alarmed counts the lines with this message that a person was to read.
func (s *scene) alarmed(message string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.alarms {
		if strings.Contains(a.message, message) {
			n++
		}
	}
	return n
}

// alarmLog keeps warnings and errors.
type alarmLog struct {
	scene  *scene
	member string
	next   *slog.Logger // nil unless the test's log is wanted
}

func (l *alarmLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || l.next != nil
}

func (l *alarmLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		l.scene.mu.Lock()
		l.scene.alarms = append(l.scene.alarms, alarm{member: l.member, message: r.Message, at: l.scene.wall()})
		l.scene.mu.Unlock()
	}
	if l.next != nil {
		return l.next.Handler().Handle(ctx, r)
	}
	return nil
}

func (l *alarmLog) WithAttrs(a []slog.Attr) slog.Handler {
	if l.next == nil {
		return l
	}
	return &alarmLog{scene: l.scene, member: l.member, next: slog.New(l.next.Handler().WithAttrs(a))}
}

func (l *alarmLog) WithGroup(string) slog.Handler { return l }
