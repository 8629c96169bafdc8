package node

import (
	"context"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
	"github.com/quorumcron/quorumcron/store"
)

// view is what this member knows: the jobs of the shards it owns. Only the loop touches it.
type view struct {
	jobs map[scheduler.JobName]*tracked
	// byShard are the same jobs, so that a snapshot costs what its shard holds.
	byShard map[scheduler.Shard]map[scheduler.JobName]*tracked
	shards  map[scheduler.Shard]*followed
	agenda  *scheduler.Agenda
	room    *room
	// fenced are jobs whose claim was refused because the rules had moved; they are planned again
	// when the watch has caught up.
	fenced map[scheduler.JobName]struct{}

	rulesRevision int64
	stopRules     context.CancelFunc // ends the follower of the rules
	owned         map[poolShard]bool
	versions      map[string]int64 // of the assignments that owned was made from, by pool
	calendars     *scheduler.Calendars
}

// poolShard is what an assignment gives to a member.
type poolShard struct {
	pool  string
	shard scheduler.Shard
}

// followed is a shard that is being followed.
type followed struct {
	stop   context.CancelFunc
	loaded bool  // its first snapshot has come
	edits  int64 // of its definitions, as far as they were delivered
}

// tracked is what the loop knows of one job it owns.
type tracked struct {
	job       scheduler.Job
	shard     scheduler.Shard
	pool      string
	timetable *cron.Timetable
	excluded  *scheduler.Exclusion // shared by all jobs that name the same calendars
	triggers  []scheduler.Trigger
	strange   map[string]bool // ids of triggers that cannot be read; nil for nearly every job

	state         scheduler.State
	stateRevision int64 // 0: not known yet, nothing is planned
	facts         map[scheduler.Firing]scheduler.Fact
	// follows are the followers of attempts in flight that this process does not hold.
	follows map[scheduler.Firing]follower

	// busy says that a write of the state is on its way; there is at most one.
	busy     bool
	reloaded time.Duration // elapsed clock at the last reload, 0 for never
	// unreadable is why the job cannot be planned; it is reported, and every other job goes on. reported
	// is what was said of it last, so that looking again says nothing twice.
	unreadable, reported string
	// shut says that a calendar is why, and nothing else: the rules can bring the job back. Until then it
	// makes no claims.
	shut bool
}

func newView() *view {
	return &view{
		jobs:      map[scheduler.JobName]*tracked{},
		byShard:   map[scheduler.Shard]map[scheduler.JobName]*tracked{},
		shards:    map[scheduler.Shard]*followed{},
		agenda:    scheduler.NewAgenda(),
		room:      newRoom(),
		fenced:    map[scheduler.JobName]struct{}{},
		owned:     map[poolShard]bool{},
		calendars: scheduler.NewCalendars(),
	}
}

// follower is what looks after one attempt in flight. It stays when it has ended, for then there is
// nothing more to learn of that attempt.
type follower struct {
	token int64 // the attempt's
	stop  context.CancelFunc
}

// define takes in a definition. It says whether the job is ours to plan.
func (v *view) define(shard scheduler.Shard, job scheduler.Job) (*tracked, bool) {
	pool := scheduler.PoolOf(job).ID
	if !v.owned[poolShard{pool, shard}] {
		v.forget(job.Name)
		return nil, false
	}
	t := v.jobs[job.Name]
	if t != nil && t.job.UID != job.UID {
		// The name was deleted and applied again. What is still on its way for the former job ends there.
		v.forget(job.Name)
		t = nil
	}
	if t == nil {
		t = &tracked{facts: map[scheduler.Firing]scheduler.Fact{}, follows: map[scheduler.Firing]follower{}}
		v.jobs[job.Name] = t
		if v.byShard[shard] == nil {
			v.byShard[shard] = map[scheduler.JobName]*tracked{}
		}
		v.byShard[shard][job.Name] = t
	}
	t.job, t.shard, t.pool, t.unreadable, t.shut = job, shard, pool, "", false
	t.timetable, t.excluded = nil, nil
	if !job.Tombstone() {
		table, err := cron.Compile(job.Schedule.Spec())
		if err != nil { // stored by a newer version, or by hand: apply refuses these
			t.unreadable = err.Error()
		}
		t.timetable = table
		v.exclude(t)
	}
	return t, true
}

// exclude looks up what the calendars exclude that the job names. Without one of them the job is put aside
// but for its ends, until the rules bring it: what it excludes must not run meanwhile.
func (v *view) exclude(t *tracked) {
	excluded, err := v.calendars.Of(t.job)
	switch {
	case err != nil && t.unreadable == "":
		t.unreadable, t.shut = err.Error(), true
	case err == nil && t.shut:
		t.unreadable, t.shut = "", false
	}
	t.excluded = excluded
}

// takeCalendars takes in the calendars of the rules, and returns the jobs that another one of them matters to.
func (v *view) takeCalendars(r store.Rules) []*tracked {
	changed := v.calendars.Replace(r.Calendars, r.UnreadCalendars)
	if len(changed) == 0 {
		return nil
	}
	var jobs []*tracked
	for _, t := range v.jobs {
		if t.timetable != nil && t.job.NamesCalendar(changed) {
			v.exclude(t)
			jobs = append(jobs, t)
		}
	}
	return jobs
}

// retain drops the jobs and triggers of a shard that its new snapshot does not hold. (What it holds is
// taken in as any update is.)
func (v *view) retain(u store.ShardUpdate) {
	there := map[scheduler.JobName]bool{}
	for _, r := range u.Jobs {
		there[r.Job.Name] = true
	}
	for name, t := range v.byShard[u.Shard] {
		if t.triggers = nil; !there[name] {
			v.forget(name)
		}
	}
}

// forget drops a job: it is gone, or somebody else's.
func (v *view) forget(name scheduler.JobName) {
	if t := v.jobs[name]; t != nil {
		t.drop()
		delete(v.byShard[t.shard], name)
	}
	delete(v.jobs, name)
	v.room.forget(name)
	delete(v.fenced, name)
	v.agenda.Remove(name)
}

// settle takes in a state value, unless a newer one is known. It reports whether it was news.
func (t *tracked) settle(state scheduler.State, revision int64) bool {
	if revision <= t.stateRevision {
		return false
	}
	t.state, t.stateRevision = scheduler.Fill(state, revision), revision
	// What is known of a former attempt must not stand for the one in flight: nobody would look at it.
	inFlight := map[scheduler.Firing]scheduler.Entry{}
	for _, e := range t.state.Entries {
		inFlight[e.Firing] = e
	}
	for f, follows := range t.follows {
		if inFlight[f].Token != follows.token {
			follows.stop()
			delete(t.follows, f)
		}
	}
	for f, fact := range t.facts {
		if e, there := inFlight[f]; !there || !fact.Of(e) {
			delete(t.facts, f)
		}
	}
	return true
}

// learn takes in what was seen of the entry's attempt: the create revision of its lock (0: none), and
// the record in its slot if it holds the attempt's end. What is known only ever grows, in whichever
// order it is told: a lock that was seen gone never comes back, and looking again never restarts a
// hold; a record, once seen, stays seen.
func (t *tracked) learn(e scheduler.Entry, lock int64, record *scheduler.Run, now scheduler.Reading) {
	old := t.facts[e.Firing]
	known := old.Attempt == e.Attempt
	if record != nil && record.Output != nil { // it may be kept until the next instant, and nobody asks it for that
		lean := *record
		lean.Output = nil
		record = &lean
	}
	fact := scheduler.Fact{Attempt: e.Attempt, Lock: lock, Record: record}
	switch {
	case known && old.Record != nil:
		return
	case record != nil:
		fact.RecordedSince = now.Elapsed
	case known && old.Lock == 0:
		return
	case lock == 0:
		fact.GoneSince = now.Elapsed
	case known:
		fact.Ending, fact.EndingSince = old.Ending, old.EndingSince
	}
	t.facts[e.Firing] = fact
}

// ending notes that the attempt has ended here and its Finish is on its way.
func (t *tracked) ending(f scheduler.Firing, attempt int, now scheduler.Reading) {
	if fact, ok := t.facts[f]; ok && fact.Attempt == attempt && fact.Record == nil {
		fact.Ending, fact.EndingSince = true, now.Elapsed
		t.facts[f] = fact
	}
}

// entry returns the entry of f, if it is in flight.
func (t *tracked) entry(f scheduler.Firing) (scheduler.Entry, bool) {
	i := slices.IndexFunc(t.state.Entries, func(e scheduler.Entry) bool { return e.Firing == f })
	if i < 0 {
		return scheduler.Entry{}, false
	}
	return t.state.Entries[i], true
}

func (t *tracked) addTrigger(tr scheduler.Trigger) {
	i := slices.IndexFunc(t.triggers, func(o scheduler.Trigger) bool { return o.ID == tr.ID })
	if i >= 0 {
		t.triggers[i] = tr
		return
	}
	t.triggers = append(t.triggers, tr)
	slices.SortFunc(t.triggers, func(a, b scheduler.Trigger) int { return int(a.Revision - b.Revision) })
}

func (t *tracked) removeTrigger(id string) {
	t.triggers = slices.DeleteFunc(slices.Clone(t.triggers), func(o scheduler.Trigger) bool { return o.ID == id })
}

// drop ends the followers of a job that is no longer planned here.
func (t *tracked) drop() {
	for f, follows := range t.follows {
		follows.stop()
		delete(t.follows, f)
	}
	clear(t.facts)
}

// planning is the value PlanJob is asked with.
func (t *tracked) planning(room, endsOnly bool, notBeyond time.Time) scheduler.View {
	return scheduler.View{
		Job: t.job, Timetable: t.timetable, Excluded: t.excluded,
		State: t.state, StateRevision: t.stateRevision,
		Triggers: t.triggers, Facts: t.facts,
		Room: room, EndsOnly: endsOnly, NotBeyond: notBeyond,
	}
}
