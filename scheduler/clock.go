package scheduler

import (
	"fmt"
	"time"
)

const (
	// StepLimit is how far the wall clock may move against the elapsed clock before it is a step.
	StepLimit = 500 * time.Millisecond
	// StepTrial is how long no further step may come until a step is believed on one host.
	StepTrial = time.Minute
)

// StepGuard decides whether a member may plan by its own wall clock. A wall clock that is stepped
// swallows instants (forwards) or repeats them (backwards; the cursor forbids that): after a step
// nothing is planned until it has stood for StepTrial, when it is believed, with an event. A
// suspended machine is no step, because the elapsed clock counts it. A slew is none either, because
// both clocks follow it.
//
//	trusted ──step──▶ doubted ──StepTrial without another step──▶ trusted
//	                    └──step: the trial begins again
//
// The zero StepGuard believes the first reading it observes. It is not safe for concurrent use.
// A second opinion (offsets measured by other members) is another way to confirm a reading.
type StepGuard struct {
	started   bool
	confirmed Reading // the last reading whose wall clock was believed
	last      Reading // the last reading of all
	doubted   bool
	stepped   time.Duration // when the last step was seen, elapsed clock
}

// ClockVerdict is what the guard says of one reading.
type ClockVerdict struct {
	// Trusted says that planning by this reading is allowed.
	Trusted bool
	// NotBeyond is the latest instant that a decision may move a cursor to: the wall clock, or the last
	// confirmed one carried on by the elapsed clock if that is earlier.
	NotBeyond time.Time
	// Carried is the last confirmed wall clock, carried on by the elapsed clock.
	Carried time.Time
	// Event says in one line what an operator should know: a step, or that one is believed. "" is none.
	Event string
}

// Observe takes in one reading; each is later than the one before on the elapsed clock.
func (g *StepGuard) Observe(now Reading) ClockVerdict {
	now.Wall = now.Wall.Round(0)
	event := ""
	switch {
	case !g.started:
		g.started = true
		g.confirmed = now
	case stepped(g.last, now) || !g.doubted && stepped(g.confirmed, now):
		g.doubted, g.stepped = true, now.Elapsed
		event = fmt.Sprintf("wall clock stepped by %s; nothing is planned until it has stood for %s",
			drift(g.confirmed, now).Round(time.Millisecond), StepTrial)
	case g.doubted && now.Elapsed-g.stepped >= StepTrial:
		event = fmt.Sprintf("wall clock is believed again, %s from where it was", drift(g.confirmed, now).Round(time.Millisecond))
		g.doubted = false
		g.confirmed = now
	case !g.doubted && now.Elapsed-g.confirmed.Elapsed >= StepTrial:
		g.confirmed = now // small corrections are followed, at most StepLimit in each StepTrial
	}
	g.last = now
	v := ClockVerdict{Trusted: !g.doubted, NotBeyond: now.Wall, Event: event}
	if v.Carried = g.confirmed.Wall.Add(now.Elapsed - g.confirmed.Elapsed); v.Carried.Before(v.NotBeyond) {
		v.NotBeyond = v.Carried
	}
	return v
}

// drift is how far the wall clock went beyond the elapsed clock from one reading to another.
func drift(from, to Reading) time.Duration {
	return to.Wall.Sub(from.Wall) - (to.Elapsed - from.Elapsed)
}

func stepped(from, to Reading) bool { return drift(from, to).Abs() > StepLimit && !cutClockStep }
