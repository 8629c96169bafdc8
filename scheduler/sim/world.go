package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Defaults of a world; its script can change them (see the command world).
const (
	defaultTTL   = 10 * time.Second
	defaultGrace = 5 * time.Second
	defaultLag   = 5 * time.Millisecond
)

// defaultEpoch is when a history begins unless its script says otherwise: a quiet Sunday.
var defaultEpoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// world is everything there is in a history. One event happens at a time.
type world struct {
	epoch          time.Time // when the members begin to come up: bootTime before the script begins
	seed           uint64
	lagFrom, lagTo time.Duration
	ttl, grace     time.Duration
	without        Cut

	now    time.Duration // since epoch
	events queue
	made   int // events made so far

	jobs       []*job // in the order of their first apply
	byName     map[scheduler.JobName]*job
	members    []*member
	etcd       *etcd
	oracle     *oracle
	trace      trace
	counts     map[string]int
	behaviours map[string]behaviour // by payload
	latest     time.Duration        // how late an instant was decided at most
	troubled   time.Duration        // until then a fault may still have consequences that no bound forbids
	patient    bool                 // goes on after a violation
}

// job is a name that was applied at some time: what the world knows of it beside what lies in etcd.
type job struct {
	index int // in world.jobs
	name  scheduler.JobName
	shard scheduler.Shard
	uids  int     // how many uids the name has had
	rec   *record // what etcd holds; nil after a sweep
}

func newWorld() *world {
	w := &world{
		epoch: defaultEpoch.Add(-bootTime), seed: 1, lagFrom: defaultLag, lagTo: defaultLag, ttl: defaultTTL, grace: defaultGrace,
		byName: map[scheduler.JobName]*job{}, counts: map[string]int{},
		behaviours: map[string]behaviour{},
	}
	w.trace.world = w
	w.etcd = newEtcd(w)
	w.oracle = newOracle(w)
	w.after(bootTime, func() { w.every(time.Minute, w.oracle.audit) })
	return w
}

// after makes something happen a while from now.
func (w *world) after(d time.Duration, happen func()) {
	w.made++
	w.events.push(event{at: w.now + max(d, 0), order: w.made, happen: happen})
}

// every makes something happen again and again.
func (w *world) every(d time.Duration, happen func()) {
	w.after(d, func() {
		happen()
		w.every(d, happen)
	})
}

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end && !w.stopped() {
		e := w.events.pop()
		w.now = e.at
		if e.turn != nil {
			e.turn.woken(e.at)
		} else {
			e.happen()
		}
	}
	if !w.stopped() {
		w.now = end
	}
}

// stopped says whether the history has ended with a broken promise.
func (w *world) stopped() bool { return !w.patient && len(w.oracle.violations) > 0 }

// wall is the true time. Only the checks see it; members have clocks of their own.
func (w *world) wall() time.Time { return w.epoch.Add(w.now) }

func (w *world) count(what string) { w.counts[what]++ }

func (w *world) countBy(what string, n int) { w.counts[what] += n }

// find returns the job of a name, as scripts write it.
func (w *world) find(name string) *job {
	return w.byName[scheduler.JobName{Namespace: "default", Name: name}]
}

// named returns the job of a name, which is made if it is new.
func (w *world) named(name string) *job {
	n := scheduler.JobName{Namespace: "default", Name: name}
	j := w.byName[n]
	if j == nil {
		j = &job{index: len(w.jobs), name: n, shard: scheduler.ShardOf(n)}
		w.jobs = append(w.jobs, j)
		w.byName[n] = j
	}
	return j
}

func (w *world) member(name string) *member {
	for _, m := range w.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// recovery is how long after the end of a fault everything is as if it had not been: R of the design,
// with two seconds for the dispatcher's election and two for messages.
func (w *world) recovery() time.Duration { return 2*w.ttl + 4*time.Second }

// late notes how late an instant was decided.
func (w *world) late(d time.Duration) { w.latest = max(w.latest, d) }

// trouble notes that until a while from now a fault goes on.
func (w *world) trouble(d time.Duration) { w.troubled = max(w.troubled, w.now+d) }

// agreed says whether all clocks are about right.
func (w *world) agreed() bool {
	for _, m := range w.members {
		if m.skew.Abs() > time.Second {
			return false
		}
	}
	return true
}

// calm is for how long nothing has been wrong in the world.
func (w *world) calm() time.Duration {
	if w.etcd.down || !slices.ContainsFunc(w.members, func(m *member) bool { return m.up }) {
		return 0
	}
	for _, m := range w.members {
		if m.ailing() {
			return 0
		}
	}
	return max(w.now-w.troubled, 0)
}

// tell adds a line to the history that happens too seldom to be fast.
func (w *world) tell(who, format string, args ...any) {
	w.trace.add(line{at: w.now, verb: free, who: who, text: fmt.Sprintf(format, args...)})
}
