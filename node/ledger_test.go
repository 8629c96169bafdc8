package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// ledger reads every transaction that etcd commits and holds each against what is promised, by the
// stored values alone: it shares no code with what it judges but the timetable.
//
//   - Each write of a state accounts for exactly the instants that its cursor passes under the definition
//     that was in force, and for the triggers that it takes: none is left out, none counted twice.
//   - What leaves the state is counted as its record says.
//   - An attempt is granted under the definition in force, of a job that is neither paused nor deleted,
//     when it is due and not past its start deadline, and beside no other; again only after a LOST one.
//   - A verdict, once recorded, never changes.
type ledger struct {
	mu       sync.Mutex // guards all below
	jobs     map[string]*book
	waiting  map[string]time.Time // triggers, by job and id
	heard    map[string]bool      // triggers and definitions: what was ever put, by job and id or revision
	instants int64                // of jobs that are gone
	problems []string
	granted  map[string]int64  // tokens, by uid, firing and attempt
	verdicts map[string]string // by the same
	killed   map[string]bool   // those whose own member killed them for their lock
}

// book is one job, by its uid.
type book struct {
	name     string
	uid      string
	def      *storedv1.Job
	table    *cron.Timetable
	state    *storedv1.State
	slots    map[string]*storedv1.Run
	instants int64 // accounted for
}

func newLedger(etcd *memetcd.Store) *ledger {
	l := &ledger{
		jobs: map[string]*book{}, waiting: map[string]time.Time{}, heard: map[string]bool{},
		granted: map[string]int64{}, verdicts: map[string]string{}, killed: map[string]bool{},
	}
	etcd.OnCommit(l.commit)
	return l
}

// wrong notes a breach; the first hundred are enough.
func (l *ledger) wrong(r memetcd.Revision, format string, a ...any) {
	if len(l.problems) < 100 {
		l.problems = append(l.problems, fmt.Sprintf("revision %d at %s: ", r.Rev, r.At.UTC().Format(time.RFC3339Nano))+fmt.Sprintf(format, a...))
	}
}

// commit takes in one transaction, which may be a group of many jobs' operations.
func (l *ledger) commit(r memetcd.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := map[string]int{} // triggers, by job
	for _, e := range r.Events {
		folder, name, id := split(string(e.Kv.Key))
		if folder != "triggers" {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			delete(l.waiting, name+"/"+id)
			taken[name]++
		} else {
			l.waiting[name+"/"+id] = r.At
			l.heard[name+"/"+id] = true
		}
	}
	for _, folder := range []string{"runs", "locks", "state", "jobs"} { // what is judged before what judges it
		for _, e := range r.Events {
			if f, name, id := split(string(e.Kv.Key)); f == folder {
				l.take(r, e, f, name, id, taken)
			}
		}
	}
}

// split takes a key apart: jobs, state and triggers by the job's name, locks and runs by the uid.
func split(key string) (folder, name, id string) {
	parts := strings.Split(strings.TrimPrefix(key, "/quorumcron/"), "/")
	switch {
	case (parts[0] == "jobs" || parts[0] == "state") && len(parts) == 4:
		return parts[0], parts[2] + "/" + parts[3], ""
	case parts[0] == "triggers" && len(parts) == 5:
		return parts[0], parts[2] + "/" + parts[3], parts[4]
	case (parts[0] == "locks" || parts[0] == "runs") && len(parts) >= 3:
		return parts[0], parts[1], parts[2]
	}
	return "", "", ""
}

func (l *ledger) take(r memetcd.Revision, e *clientv3.Event, folder, name, id string, taken map[string]int) {
	gone := e.Type == clientv3.EventTypeDelete
	switch {
	case folder == "jobs" && gone:
		l.settled(r, l.jobs[name], taken[name])
		delete(l.jobs, name)
	case folder == "jobs":
		l.define(r, name, e.Kv.Value)
	case folder == "state" && !gone:
		l.account(r, name, e.Kv.Value, taken[name])
	case folder == "locks" && !gone:
		l.grant(r, e, name, id)
	case folder == "runs" && !gone:
		l.record(r, name, id, e.Kv.Value)
	}
}

func (l *ledger) define(r memetcd.Revision, name string, value []byte) {
	var def storedv1.Job
	if err := proto.Unmarshal(value, &def); err != nil {
		l.wrong(r, "definition of %s: %v", name, err)
		return
	}
	b := l.jobs[name]
	if b == nil || b.uid != def.GetUid() {
		l.wrong(r, "definition of %s without a state of its uid", name)
		return
	}
	l.heard[fmt.Sprintf("%s/%d", name, r.Rev)] = true
	b.def = &def
	b.table = l.compile(r, &def)
}

// compile makes the timetable of a definition; of a tombstone there is none.
func (l *ledger) compile(r memetcd.Revision, def *storedv1.Job) *cron.Timetable {
	s := def.GetSchedule()
	spec := cron.Spec{Cron: s.GetCron(), Every: s.GetEvery().AsDuration(), TimeZone: s.GetTimeZone()}
	for to, from := range map[*time.Time]*timestamppb.Timestamp{&spec.Origin: s.GetOrigin(), &spec.Start: s.GetStart(), &spec.End: s.GetEnd()} {
		if from != nil {
			*to = from.AsTime()
		}
	}
	for _, at := range s.GetAt() {
		spec.At = append(spec.At, at.AsTime())
	}
	table, err := cron.Compile(spec)
	if err != nil {
		l.wrong(r, "schedule of %s: %v", def.GetName(), err)
	}
	return table
}

// firingsIn is how many firings a state has decided about, or holds.
func firingsIn(s *storedv1.State) (n int64) {
	for _, c := range s.GetCounters() {
		n += c.GetCount()
	}
	return n + int64(len(s.GetEntries())+len(s.GetRetries())) + s.GetBacklog().GetCount()
}

func counts(s *storedv1.State) map[string]int64 {
	by := map[string]int64{}
	for _, c := range s.GetCounters() {
		by[c.GetVerdict().String()] += c.GetCount()
	}
	return by
}

// account holds a state against the one before it.
func (l *ledger) account(r memetcd.Revision, name string, value []byte, taken int) {
	next := &storedv1.State{}
	if err := proto.Unmarshal(value, next); err != nil {
		l.wrong(r, "state of %s: %v", name, err)
		return
	}
	var begun *storedv1.Entry
	for _, e := range next.GetEntries() {
		if e.GetToken() == 0 {
			e.Token, begun = r.Rev, e
		}
	}
	b := l.jobs[name]
	if b == nil || b.uid != next.GetUid() { // created, or applied anew over a tombstone
		if b != nil {
			l.settled(r, b, taken)
		}
		l.jobs[name] = &book{name: name, uid: next.GetUid(), state: next, slots: map[string]*storedv1.Run{}}
		if n := firingsIn(next); n != 0 {
			l.wrong(r, "new job %s begins with %d firings", name, n)
		}
		return
	}
	was := b.state
	passed := b.table.Count(was.GetCursor().AsTime(), next.GetCursor().AsTime())
	if next.GetCursor().AsTime().Before(was.GetCursor().AsTime()) {
		l.wrong(r, "cursor of %s moved back from %s to %s", name, was.GetCursor().AsTime(), next.GetCursor().AsTime())
	}
	if more := firingsIn(next) - firingsIn(was); more != passed+int64(taken) {
		l.wrong(r, "%s: the cursor passed %d instants and %d triggers were taken, but %d more firings are accounted:\n  %v\n  %v",
			name, passed, taken, more, was, next)
	}
	if len(next.GetEntries())+len(next.GetRetries()) > 1 {
		l.wrong(r, "%s: %d attempts in flight and %d owed", name, len(next.GetEntries()), len(next.GetRetries()))
	}
	if begun != nil {
		l.begun(r, b, begun)
	}
	l.fold(r, b, was, next)
	b.state, b.instants = next, b.instants+passed
}

// fold holds what left the state against the records.
func (l *ledger) fold(r memetcd.Revision, b *book, was, next *storedv1.State) {
	want := counts(was)
	for _, e := range was.GetEntries() {
		if l.holds(next, e.GetFiring(), e.GetAttempt()) {
			continue
		}
		run := b.slots[fmt.Sprintf("%03d", e.GetSlot())]
		last := lastOf(run)
		if key(run.GetFiring()) != key(e.GetFiring()) || last.GetNumber() != e.GetAttempt() || last.GetToken() != e.GetToken() {
			l.wrong(r, "%s: attempt %d of %s left the state without its record: slot %d holds %v", b.name, e.GetAttempt(), key(e.GetFiring()), e.GetSlot(), run)
			continue
		}
		if !l.holds(next, e.GetFiring(), e.GetAttempt()+1) { // else it is tried again
			want[last.GetVerdict().String()]++
		}
	}
	for _, p := range was.GetRetries() {
		if !l.holds(next, p.GetFiring(), p.GetAttempt()) {
			want[lastOf(b.slots[fmt.Sprintf("%03d", p.GetSlot())]).GetVerdict().String()]++
		}
	}
	got := counts(next)
	for _, v := range []storedv1.Verdict{storedv1.Verdict_VERDICT_SUCCEEDED, storedv1.Verdict_VERDICT_FAILED,
		storedv1.Verdict_VERDICT_TIMED_OUT, storedv1.Verdict_VERDICT_CANCELED, storedv1.Verdict_VERDICT_LOST} {
		if got[v.String()] != want[v.String()] {
			l.wrong(r, "%s: %d %s are counted, the records say %d", b.name, got[v.String()], v, want[v.String()])
		}
	}
}

// holds says whether that attempt is in flight or owed.
func (l *ledger) holds(s *storedv1.State, f *storedv1.Firing, attempt int32) bool {
	return slices.ContainsFunc(s.GetEntries(), func(e *storedv1.Entry) bool {
		return key(e.GetFiring()) == key(f) && e.GetAttempt() == attempt
	}) || slices.ContainsFunc(s.GetRetries(), func(p *storedv1.PendingRetry) bool {
		return key(p.GetFiring()) == key(f) && p.GetAttempt() == attempt
	})
}

func lastOf(r *storedv1.Run) *storedv1.Attempt {
	if n := len(r.GetAttempts()); n > 0 {
		return r.GetAttempts()[n-1]
	}
	return nil
}

func key(f *storedv1.Firing) string {
	if f.GetTrigger() != "" {
		return "+" + f.GetTrigger()
	}
	return "@" + time.Unix(f.GetScheduled(), 0).UTC().Format(time.RFC3339)
}

// settled holds a job that is gone against what it leaves.
func (l *ledger) settled(r memetcd.Revision, b *book, taken int) {
	if taken > 0 {
		l.wrong(r, "%s is gone with %d triggers that have no verdict", b.name, taken)
	}
	l.instants += b.instants
	if len(b.state.GetEntries())+len(b.state.GetRetries()) > 0 || b.state.GetBacklog() != nil {
		l.wrong(r, "%s is gone with firings that have no verdict: %v", b.name, b.state)
	}
}

// grant notes a lock that was put. The state that is written with it is judged by begun.
func (l *ledger) grant(r memetcd.Revision, e *clientv3.Event, uid, firing string) {
	var lock storedv1.Lock
	if err := proto.Unmarshal(e.Kv.Value, &lock); err != nil {
		l.wrong(r, "lock of %s: %v", firing, err)
		return
	}
	attempt := fmt.Sprintf("%s%s/%d", uid, firing, lock.GetAttempt())
	if v := l.verdicts[attempt]; v != "" {
		l.wrong(r, "%s: granted, though that attempt ended %s", attempt, v)
	}
	if before := l.granted[attempt]; before != 0 {
		l.wrong(r, "%s: granted again, after token %d", attempt, before)
	}
	l.granted[attempt] = r.Rev
}

// begun judges a new entry: an attempt that was granted by this transaction.
func (l *ledger) begun(r memetcd.Revision, b *book, e *storedv1.Entry) {
	attempt := fmt.Sprintf("%s%s/%d", b.uid, key(e.GetFiring()), e.GetAttempt())
	due, granted, policy := e.GetDue().AsTime(), e.GetGranted().AsTime(), b.def.GetPolicy()
	switch {
	case l.granted[attempt] != r.Rev:
		l.wrong(r, "%s: in flight without a lock of the same transaction", attempt)
	case b.def.GetPaused() || b.def.GetDeleted() != nil:
		l.wrong(r, "%s: granted while its job %s is paused or deleted", attempt, b.name)
	case e.GetGeneration() != b.def.GetGeneration():
		l.wrong(r, "%s: granted under generation %d, %d is in force", attempt, e.GetGeneration(), b.def.GetGeneration())
	case due.After(r.At):
		l.wrong(r, "%s: granted %s before it is due", attempt, due.Sub(r.At))
	case policy.GetStartDeadline() != nil && granted.After(due.Add(policy.GetStartDeadline().AsDuration())):
		l.wrong(r, "%s: granted at %s, past its start deadline", attempt, granted)
	}
	if n := e.GetAttempt(); n > 1 {
		before := fmt.Sprintf("%s%s/%d", b.uid, key(e.GetFiring()), n-1)
		v := l.verdicts[before]
		lost := v == storedv1.Verdict_VERDICT_LOST.String() || l.killed[before]
		if !lost || policy.GetOnLost() != storedv1.OnLost_ON_LOST_RETRY {
			l.wrong(r, "%s: granted after an attempt that ended %q, with %s", attempt, v, policy.GetOnLost())
		}
	}
}

// record notes the end of an attempt, and that no earlier one is told otherwise than before.
func (l *ledger) record(r memetcd.Revision, uid, slot string, value []byte) {
	run := &storedv1.Run{}
	if err := proto.Unmarshal(value, run); err != nil {
		l.wrong(r, "record of %s: %v", uid, err)
		return
	}
	for _, a := range run.GetAttempts() {
		attempt := fmt.Sprintf("%s%s/%d", uid, key(run.GetFiring()), a.GetNumber())
		v := a.GetVerdict().String()
		if old := l.verdicts[attempt]; old != "" && old != v {
			l.wrong(r, "%s: recorded as %s after %s", attempt, v, old)
		}
		if l.granted[attempt] != a.GetToken() {
			l.wrong(r, "%s: recorded with token %d, granted with %d", attempt, a.GetToken(), l.granted[attempt])
		}
		l.verdicts[attempt] = v
		if a.GetReason() == storedv1.Reason_REASON_LOCK_LOST {
			l.killed[attempt] = true
		}
	}
	if b := l.jobs[run.GetNamespace()+"/"+run.GetName()]; b != nil && b.uid == uid {
		b.slots[slot] = run
	} else {
		l.wrong(r, "record of %s: its job is gone", uid)
	}
}

// judge says everything that was wrong, and what is not settled though nothing has been in the way for a
// while. It returns how many instants were accounted for.
func (l *ledger) judge(now time.Time) (instants int64, problems []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	problems, instants = slices.Clone(l.problems), l.instants
	for name, b := range l.jobs {
		instants += b.instants
		if b.def.GetPaused() || b.def.GetDeleted() != nil {
			continue
		}
		lag := b.def.GetSchedule().GetJitter().AsDuration() + 10*time.Second
		if n := b.table.Count(b.state.GetCursor().AsTime(), now.Add(-lag)); n > 0 {
			problems = append(problems, fmt.Sprintf("%s: %d instants are not decided, the cursor is at %s", name, n, b.state.GetCursor().AsTime()))
		}
	}
	for trigger, put := range l.waiting {
		if now.Sub(put) > 10*time.Second {
			problems = append(problems, fmt.Sprintf("trigger %s waits since %s", trigger, put.UTC()))
		}
	}
	return instants, problems
}

// allowed says whether a start is that of a grant.
func (l *ledger) allowed(id executor.Identity) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted[fmt.Sprintf("%s/%d", id.Firing, id.Attempt)] == id.Token
}

// defined says whether a definition was committed at the revision; asked, whether a trigger was ever put.
func (l *ledger) defined(job string, revision int64) bool { return l.asked(job, fmt.Sprint(revision)) }

func (l *ledger) asked(job, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[job+"/"+id]
}
