package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// Kinds of faults. What each means to the checks is in one table, traits.
const (
	NodeKill          = "node-kill"
	NodeFreeze        = "node-freeze"     // the node process alone: its commands go on
	MachineFreeze     = "machine-freeze"  // the node with its supervisor and commands
	NodeTerm          = "node-term"       // SIGTERM
	NodeFailPoint     = "node-fail-point" // dies or hangs at a marked place
	SupervisorKill    = "supervisor-kill"
	NodeCut           = "node-cut" // black hole to all of etcd
	NodeRefused       = "node-refused"
	NodeReset         = "node-reset"
	NodeHalfCut       = "node-half-cut" // one direction
	LostReplies       = "lost-replies"
	Slow              = "slow"
	EtcdKill          = "etcd-kill"
	EtcdFreeze        = "etcd-freeze"
	EtcdTerm          = "etcd-term"
	EtcdPartition     = "etcd-partition"
	EtcdQuorumLost    = "etcd-quorum-lost"
	Compaction        = "compaction"
	RevokeMemberLease = "revoke-member-lease"
	RevokeLockLease   = "revoke-lock-lease"
	NoSpace           = "nospace"
	DiskFull          = "disk-full" // of a node
	ClockOffset       = "clock-offset"
	ClockStep         = "clock-step"
	ClockDrift        = "clock-drift"
	// Befallen is some fault of a node that nobody described further: anything may happen to it.
	Befallen = "befallen"
)

// Fault is one interval of the fault log.
type Fault struct {
	ID   string // its number in the catalogue of faults
	Kind string // one of the kinds above; empty means Befallen
	// Node is the node that it befalls, Etcd the member of etcd; both are empty when it befalls all.
	Node, Etcd string
	// From is just before the injection, To when healing was done; zero: never.
	From, To time.Time
	// Settled is when all living nodes were ready again, after To; zero: not seen.
	Settled time.Time
	// Proof is what was seen that shows that it took hold. Without it nothing is shown.
	Proof string
	// Detail is for people: the signal, the place, the offset.
	Detail string
	// Point is the fail point that it is about, if it is about one.
	Point string
	// Skew is how far the node's clock is ahead while it lasts.
	Skew time.Duration
	// Shown is what a status, a metric or readyz said of it while it lasted.
	Shown string
}

// String fits on one line of a timeline.
func (f Fault) String() string {
	target := cmp.Or(f.Node, f.Etcd, "all")
	text := fmt.Sprintf("%s %s %s", cmp.Or(f.ID, "fault"), f.kind(), target)
	if f.Detail != "" {
		text += " (" + f.Detail + ")"
	}
	return text
}

func (f Fault) kind() string { return cmp.Or(f.Kind, Befallen) }

// trait is what a kind of fault means to the checks.
type trait struct {
	// loses: attempts on its node may end LOST, or be killed for their lock; everywhere when it has no
	// node.
	loses bool
	// blocks: what is due from From to To may start only after To, and R_busy.
	blocks bool
	// kills: the node's commands die with it, at once.
	kills bool
	// still: the commands themselves stand still, and may wake up beside their successors.
	still bool
	// sleeps: a grant may stand still between commit and start, and start late, once.
	sleeps bool
	// trial is how much longer than To nothing is granted there: the step guard.
	trial time.Duration
	// shows: it must be visible to whoever asks, once it has lasted longer than a TTL.
	shows bool
}

// stepTrial is how long a member whose clock has stepped grants nothing, on one host.
const stepTrial = 60 * time.Second

// traits says what each kind means. A kind that is not here excuses nothing.
var traits = map[string]trait{
	Befallen:          {loses: true, blocks: true, sleeps: true},
	NodeKill:          {loses: true, blocks: true, kills: true, shows: true},
	NodeFreeze:        {loses: true, blocks: true, sleeps: true, shows: true},
	MachineFreeze:     {loses: true, blocks: true, sleeps: true, still: true, shows: true},
	NodeTerm:          {blocks: true, shows: true},
	NodeFailPoint:     {loses: true, blocks: true, sleeps: true},
	SupervisorKill:    {loses: true, blocks: true},
	NodeCut:           {loses: true, blocks: true, shows: true},
	NodeRefused:       {loses: true, blocks: true, shows: true},
	NodeReset:         {loses: true, blocks: true},
	NodeHalfCut:       {loses: true, blocks: true, shows: true},
	LostReplies:       {loses: true, blocks: true},
	Slow:              {loses: true, blocks: true},
	EtcdKill:          {loses: true, blocks: true},
	EtcdFreeze:        {loses: true, blocks: true},
	EtcdTerm:          {loses: true, blocks: true},
	EtcdPartition:     {loses: true, blocks: true},
	EtcdQuorumLost:    {loses: true, blocks: true, shows: true},
	Compaction:        {blocks: true},
	RevokeMemberLease: {blocks: true},
	RevokeLockLease:   {loses: true, blocks: true},
	NoSpace:           {loses: true, blocks: true, shows: true},
	DiskFull:          {blocks: true},
	ClockOffset:       {blocks: true, trial: stepTrial, shows: true},
	ClockStep:         {blocks: true, trial: stepTrial, shows: true},
	ClockDrift:        {blocks: true},
}

// stepGuard is the step of a clock that a member bears: a smaller one stops nothing, and shows nowhere.
const stepGuard = 500 * time.Millisecond

// oneLine is the catalogue's number for a line to one member of etcd alone: the node has others to turn to,
// and need not say anything.
const oneLine = "F17"

func (f Fault) trait() trait {
	t := traits[f.kind()]
	if f.ID == oneLine {
		t.shows = false
	}
	if t.trial > 0 && f.Skew != 0 && f.Skew.Abs() <= stepGuard {
		t.trial, t.blocks, t.shows = 0, false, false
	}
	return t
}

// on says whether the fault befalls a node: it names it, or names none.
func (f Fault) on(node string) bool { return f.Node == "" || f.Node == node }

// end is when the fault is over; one that is never healed is over at once, for others take over.
func (f Fault) end() time.Time {
	if f.To.IsZero() {
		return f.From
	}
	return f.To
}

// lasted says whether the fault was on at a moment.
func (f Fault) lasted(at time.Time) bool {
	return !at.Before(f.From) && (f.To.IsZero() || !at.After(f.To))
}

// lostAt returns the fault that explains that an attempt on a node, granted at a moment, was lost or
// killed by another; nil if none does.
func (h *History) lostAt(node string, granted, ended time.Time) *Fault {
	most := h.bounds().BusyRecovery()
	for i := range h.Faults {
		f := &h.Faults[i]
		if f.trait().loses && f.on(node) && !granted.After(f.end().Add(most)) && (ended.IsZero() || f.From.Before(ended)) {
			return f
		}
	}
	return nil
}

// reach is until when an instant may start: Calm after it, or as long after the faults that reach it, and
// concern it, as is promised. A fault reaches it when it is on, or not yet overcome, before the instant has started.
func (h *History) reach(due time.Time, recovery func(Fault) time.Duration, concerns func(int, Fault) bool) (until time.Time, by []Fault) {
	calm := h.bounds().Calm
	until = due.Add(calm)
	line := h.faultLine()
	first := sort.Search(len(line.faults), func(i int) bool { return !line.over[i].Before(due) })
	for i, f := range line.faults[first:] {
		if f.From.After(until) {
			break
		}
		if !concerns(first+i, f) {
			continue
		}
		over := f.end().Add(f.trait().trial + recovery(f))
		if over.Before(due) {
			continue
		}
		by = append(by, f)
		until = later(until, over.Add(calm))
	}
	return until, by
}

// faultLine is the faults that keep jobs from starting, by when they began. over is, for each, when it and
// all before it are surely overcome.
type faultLine struct {
	faults []Fault
	over   []time.Time
}

func (h *History) faultLine() *faultLine {
	if h.line != nil {
		return h.line
	}
	line := &faultLine{}
	for _, f := range h.Faults {
		if f.trait().blocks {
			line.faults = append(line.faults, f)
		}
	}
	slices.SortFunc(line.faults, func(a, b Fault) int { return a.From.Compare(b.From) })
	var last time.Time
	for _, f := range line.faults {
		last = later(last, f.end().Add(f.trait().trial+h.bounds().BusyRecovery()))
		line.over = append(line.over, last)
	}
	h.line = line
	return line
}

func (h *History) bounds() Bounds {
	if h.Bounds == (Bounds{}) {
		return DefaultBounds()
	}
	return h.Bounds
}
