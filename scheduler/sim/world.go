package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Config is one simulated history.
type Config struct {
	Seed    uint64
	Members int
	Jobs    int
	Span    time.Duration
	// FaultEvery is the mean time between two faults (crash, stalled process, cut link, stepped clock); 0
	// is none. UserEvery is the same for what users do (trigger, pause, resume, edit).
	FaultEvery, UserEvery time.Duration
	// Cut takes something out that the protocol rests on. Such a history ends with the first promise
	// that it breaks.
	Cut Cut
}

// Cut names what a sabotaged history goes without.
type Cut string

// What can be taken out. The first is the whole protocol.
const (
	CutNothing      Cut = ""
	CutStateCompare Cut = "state compare" // of every write of a state (rules 1, 5, 10)
	CutJobCompare   Cut = "job compare"   // of claims (rules 1, 10)
	CutRulesGuard   Cut = "rules guard"   // of claims (groups)
	CutFinish       Cut = "finish"        // the lock compare of Finish (rule 4)
	CutHold         Cut = "hold"          // the wait before an attempt is called lost (rule 5)
	CutKill         Cut = "kill"          // the member's own deadline for its attempts (§4)
	CutFence        Cut = "fence"         // the resolution of unknown claims (rule 2): taken for refused
)

// Report is what came of a history.
type Report struct {
	// Digest is a hash of every line of the history: equal digests are equal histories.
	Digest uint64
	Lines  int
	// Tail is the newest lines, for a reader of a failure.
	Tail []string
	// Violations are the promises that were broken, the first of each kind with its line.
	Violations []string
	// Count says how often each thing happened.
	Count map[string]int
}

// tailLines is how many lines of a history are kept.
const tailLines = 60

// epoch is when every history begins.
var epoch = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)

// settling is how long a history goes on without faults and users after its span, so that everything
// in flight can end: longer than the longest run, the longest outage and a hold together.
const settling = 30 * time.Minute

// Run plays the history of a Config from beginning to end.
func Run(cfg Config) Report {
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x51a))}
	w.report.Count = map[string]int{}
	w.ledger = newLedger(w)
	w.etcd = newEtcd(w)
	w.populate()
	for i := range cfg.Members {
		m := newMember(w, fmt.Sprint("n", i+1))
		w.members = append(w.members, m)
		m.start()
	}
	w.again(cfg.FaultEvery, w.disturb)
	w.again(cfg.UserEvery, w.use)
	w.audit()
	w.runUntil(cfg.Span)
	w.say("— the faults end")
	w.quiet = true
	for _, m := range w.members {
		m.repair()
	}
	w.runUntil(cfg.Span + settling)
	w.ledger.close()
	w.report.Digest = w.digest
	return w.report
}

// world is everything there is in a history. One event happens at a time.
type world struct {
	cfg     Config
	rng     *rand.Rand
	now     time.Duration // since epoch
	events  events
	made    int // events made so far: the order of those at one time
	etcd    *etcd
	members []*member
	ledger  *ledger
	quiet   bool // no faults and no users any more
	digest  uint64
	report  Report
}

// after makes something happen a while from now.
func (w *world) after(d time.Duration, happen func()) {
	w.made++
	heap.Push(&w.events, event{w.now + max(d, 0), w.made, happen})
}

// again makes something happen over and over, at random, until it is quiet.
func (w *world) again(mean time.Duration, happen func()) {
	if mean <= 0 {
		return
	}
	w.after(w.within(0, 2*mean), func() {
		if !w.quiet {
			happen()
			w.again(mean, happen)
		}
	})
}

// audit looks for what is stuck, each minute.
func (w *world) audit() {
	w.after(time.Minute, func() {
		w.ledger.audit()
		w.audit()
	})
}

func (w *world) runUntil(end time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= end && !w.broken() {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.happen()
	}
	w.now = end
}

// broken says whether a sabotaged history has shown what it can.
func (w *world) broken() bool { return w.cfg.Cut != CutNothing && len(w.report.Violations) > 0 }

// wall is the true time. Only etcd's users and the checks see it; members have clocks of their own.
func (w *world) wall() time.Time { return epoch.Add(w.now) }

// within draws a duration from [from, to).
func (w *world) within(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// lag is how long a message travels.
func (w *world) lag() time.Duration { return w.within(time.Millisecond, 150*time.Millisecond) }

// say adds a line to the history.
func (w *world) say(format string, args ...any) {
	line := w.wall().Format("02 15:04:05.000 ") + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	fmt.Fprint(h, w.digest, line)
	w.digest = h.Sum64()
	w.report.Lines++
	w.report.Tail = append(w.report.Tail, line)
	if over := len(w.report.Tail) - tailLines; over > 0 {
		w.report.Tail = w.report.Tail[over:]
	}
}

func (w *world) count(what string) { w.report.Count[what]++ }

// populate applies the jobs: of every cadence, with and without retries, deadlines and jitter.
func (w *world) populate() {
	for i := range w.cfg.Jobs {
		name := scheduler.JobName{Namespace: "default", Name: fmt.Sprintf("job-%03d", i)}
		j := scheduler.Job{
			Name: name, UID: fmt.Sprintf("u%03d", i), Generation: 1, HistoryLimit: 1 + w.rng.IntN(5),
			Run:      scheduler.Executable{Handler: &scheduler.HandlerCall{Name: "work"}},
			Schedule: w.randomSchedule(), Policy: w.randomPolicy(), Created: epoch,
		}.WithDefaults()
		w.etcd.apply(j)
	}
}

func (w *world) randomSchedule() scheduler.Schedule {
	s := scheduler.Schedule{TimeZone: pick(w, "", "Europe/Berlin")} // whose clocks change in the first night
	switch w.rng.IntN(3) {
	case 0:
		s.Cron = []string{pick(w, "* * * * *", "*/5 * * * *", "30 * * * *", "15,45 2 * * *")}
	case 1:
		s.Every, s.Origin = w.within(20*time.Second, 10*time.Minute).Truncate(time.Second), epoch
	default:
		s.Every, s.Origin = w.within(time.Minute, time.Hour).Truncate(time.Second), epoch
		s.Jitter = w.within(0, 30*time.Second)
	}
	return s
}

func (w *world) randomPolicy() scheduler.Policy {
	return scheduler.Policy{
		OnLost:        pick(w, scheduler.OnLostFail, scheduler.OnLostRetry),
		StartDeadline: pick(w, 0, 0, 0, time.Minute),
		CatchUp:       scheduler.CatchUp{Mode: pick(w, scheduler.CatchUpLatest, scheduler.CatchUpNone), Window: pick(w, time.Minute, time.Hour)},
	}
}

func pick[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

// use is one thing that a user does.
func (w *world) use() {
	r := w.etcd.jobs[w.etcd.names[w.rng.IntN(len(w.etcd.names))]]
	switch w.rng.IntN(6) {
	case 0, 1, 2:
		w.etcd.trigger(r)
	case 3:
		w.etcd.edit(r, scheduler.ReasonPaused, func(j *scheduler.Job) { j.Paused = !j.Paused })
	case 4:
		w.etcd.edit(r, "", func(j *scheduler.Job) { j.Policy = w.randomPolicy(); *j = j.WithDefaults() })
	default:
		w.etcd.edit(r, scheduler.ReasonEdited, func(j *scheduler.Job) { j.Schedule = w.randomSchedule() })
	}
}

// disturb is one fault. It is repaired after a while.
func (w *world) disturb() {
	m := w.members[w.rng.IntN(len(w.members))]
	if !m.up || m.cut {
		return
	}
	switch w.rng.IntN(7) {
	case 0, 1:
		m.crash()
		w.after(w.within(time.Second, 3*time.Minute), m.repair)
	case 2, 3:
		w.say("%s stalls", m)
		w.count("stall")
		m.stalled = w.now + w.within(time.Second, 25*time.Second)
	case 4, 5:
		w.say("%s is cut off", m)
		w.count("cut link")
		m.cut = true
		w.after(w.within(time.Second, time.Minute), m.repair)
	default:
		step := w.within(-20*time.Second, 20*time.Second)
		w.say("the clock of %s is stepped by %s", m, step.Round(time.Millisecond))
		w.count("stepped clock")
		m.skew += step
		w.after(w.within(time.Minute, 5*time.Minute), func() { m.skew -= step })
	}
}

// event is something that happens.
type event struct {
	at     time.Duration
	order  int
	happen func()
}

// events is a heap of what is to come.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, k int) bool {
	if e[i].at != e[k].at {
		return e[i].at < e[k].at
	}
	return e[i].order < e[k].order
}

func (e events) Swap(i, k int) { e[i], e[k] = e[k], e[i] }

func (e *events) Push(x any) { *e = append(*e, x.(event)) }

func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1].happen = nil
	*e = old[:len(old)-1]
	return last
}
