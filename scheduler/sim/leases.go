package sim

import (
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// lease is a lease in etcd. What hangs on it goes when it ends.
type lease struct {
	owner *member
	what  string // member or locks, for the trace
	ends  time.Duration
	dead  bool
	locks []*lock
}

type memberKey struct {
	member scheduler.Member
	lease  *lease
}

func (e *etcd) grantLease(owner *member, what string) *lease {
	e.rev++
	l := &lease{owner: owner, what: what, ends: e.world.now + e.world.ttl}
	e.leases = append(e.leases, l)
	e.watchLease(l)
	return l
}

// keepAlive pushes the end of a lease on; false means that it is gone.
func (e *etcd) keepAlive(l *lease) bool {
	if !l.dead {
		l.ends = e.world.now + e.world.ttl
	}
	return !l.dead
}

// watchLease ends a lease when its time has come. While etcd has no leader no lease ends.
func (e *etcd) watchLease(l *lease) {
	if l.dead {
		return
	}
	if e.down {
		e.world.after(e.world.ttl, func() { e.watchLease(l) })
		return
	}
	if wait := l.ends - e.world.now; wait > 0 {
		e.world.after(wait, func() { e.watchLease(l) })
		return
	}
	e.world.tell("etcd", "the %s lease of %s ends", l.what, l.owner.name)
	e.world.count("ended lease")
	e.revoke(l)
}

// recover gives every lease its whole time again, as a new leader does.
func (e *etcd) recover() {
	e.down = false
	for _, l := range e.leases {
		l.ends = e.world.now + e.world.ttl
	}
}

// revoke ends a lease, and everything under it.
func (e *etcd) revoke(l *lease) {
	if l.dead {
		return
	}
	l.dead = true
	e.leases = slices.DeleteFunc(e.leases, func(o *lease) bool { return o == l })
	e.rev++
	for _, held := range slices.Clone(l.locks) {
		e.world.tell("etcd", "the lock of %s #%d goes with its lease", e.world.trace.short(held.firing), held.attempt)
		e.world.count("lost lock")
		e.world.oracle.lockGone(held)
		e.unlock(held)
	}
	if i := slices.IndexFunc(e.members, func(k memberKey) bool { return k.lease == l }); i >= 0 {
		e.world.tell("etcd", "%s is no member any more", e.members[i].member.ID())
		e.members = slices.Delete(slices.Clone(e.members), i, i+1)
		e.membersChanged()
	}
}

// joining is the answer to a process that puts its member key.
type joining struct {
	incarnation int64 // the key's create revision; 0 while the name is another process's
	leaseGone   bool
}

// join puts a member key, if there is none of this name. Asked again, it answers the same.
func (e *etcd) join(m *member, l *lease) joining {
	if l.dead {
		return joining{leaseGone: true}
	}
	for _, k := range e.members {
		if k.member.Name == m.name {
			if k.lease == l {
				return joining{incarnation: k.member.Incarnation}
			}
			return joining{}
		}
	}
	e.rev++
	k := memberKey{scheduler.Member{Name: m.name, Incarnation: e.rev, CreateRevision: e.rev}, l}
	e.members = append(slices.Clone(e.members), k)
	e.world.tell(m.name, "joins as %s", k.member.ID())
	e.membersChanged()
	return joining{incarnation: e.rev}
}

// drain marks a member as one that wants to own nothing.
func (e *etcd) drain(incarnation int64) bool {
	i := slices.IndexFunc(e.members, func(k memberKey) bool { return k.member.Incarnation == incarnation })
	if i < 0 {
		return false
	}
	e.rev++
	e.members = slices.Clone(e.members)
	e.members[i].member.Draining = true
	e.membersChanged()
	return true
}

func (e *etcd) membersChanged() {
	list, rev := e.members, e.rev
	for _, m := range e.world.members {
		m.hear(nil, func() { m.takeMembers(list, rev) })
	}
}

// publish puts an assignment, if whoever sends it is the dispatcher still, and decided it under the rules
// that are in force.
func (e *etcd) publish(incarnation, rulesRev int64, next scheduler.Assignment) bool {
	if len(e.members) == 0 || e.members[0].member.Incarnation != incarnation || e.rules.rev != rulesRev {
		return false
	}
	e.rev++
	e.rules = rules{rev: e.rev, version: e.rules.version + 1, assignment: next, calendars: e.rules.calendars}
	e.world.tell(e.members[0].member.Name, "assigns the shards to %v", next.Members)
	e.world.count("assignment")
	r := e.rules
	for _, m := range e.world.members {
		m.watch(nil, func() { m.takeRules(r) })
	}
	return true
}

// changed tells the members that a definition or the triggers of a job changed.
func (e *etcd) changed(r *record) {
	e.marks[r.job.shard] = e.rev
	shown := e.show(r)
	for _, m := range e.world.members {
		if !m.mine[r.job.shard] {
			continue // it does not follow the shard; when it gains it, it reads it
		}
		m.watch(r.job, func() { m.takeShown(shown, r.job) })
	}
}

// shown is what a watch or a listing tells of a job: the definition and the triggers. The state comes
// only with a read.
type shown struct {
	rec      *record
	rev      int64 // of etcd
	def      *scheduler.Job
	defRev   int64
	table    *cron.Timetable
	triggers []scheduler.Trigger
	gone     bool
	state    *scheduler.State // nil when it came by a watch
	stateRev int64
}

func (e *etcd) show(r *record) shown {
	return shown{rec: r, rev: e.rev, def: r.def, defRev: r.defRev, table: r.table, triggers: r.triggers, gone: r.job.rec != r}
}

// read reads all there is of a job.
func (e *etcd) read(j *job) shown {
	if j.rec == nil {
		return shown{rev: e.rev, gone: true}
	}
	s := e.show(j.rec)
	s.state, s.stateRev = j.rec.filled, j.rec.stateRev
	return s
}

// look reads lock and slot of an entry in one transaction, and tells later when the lock goes (rule 12).
func (e *etcd) look(r *record, x scheduler.Entry, gone func()) fact {
	f := r.fact(x)
	if f.lock != 0 {
		l := r.lock(x.Firing)
		l.follow = append(l.follow, gone)
	}
	return f
}

// locksOf lists what hangs on a lease: the live locks, as they are at that moment.
func (e *etcd) locksOf(l *lease) []*lock { return slices.Clone(l.locks) }

func (e *etcd) dropCancel(member string, f scheduler.Firing) {
	e.cancels = slices.DeleteFunc(e.cancels, func(c cancelKey) bool { return c.member == member && c.firing == f })
}
