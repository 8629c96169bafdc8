package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Shape is a kind of history, of which each seed is one.
type Shape struct {
	Seed          uint64
	Members, Jobs int
	Span          time.Duration
	// FaultEvery is the mean time between two faults, UserEvery between two things that users do; 0 is
	// none.
	FaultEvery, UserEvery time.Duration
	// Every, if set, is the interval of all jobs, and their runs are short: a load. Else there are jobs of
	// all kinds.
	Every   time.Duration
	Without Cut
}

// Script draws the history of the seed. Everything that happens by chance to more than one message is a
// command in it; the rest follows from its seed, thing by thing (see chance).
func (s Shape) Script() Script {
	g := &generator{shape: s, rng: rand.New(rand.NewPCG(s.Seed, 0x51a)), side: rand.New(rand.NewPCG(s.Seed, 0xca1))}
	g.add("world", fmt.Sprint("seed=", s.Seed), "lag=1ms..150ms", "start=2026-03-28T12:00:00Z")
	if s.Without != "" {
		g.add("without", string(s.Without))
	}
	for i := range s.Members {
		g.members = append(g.members, fmt.Sprint("n", i+1))
		g.add("member", g.members[i], "skew="+text(g.between(-200*time.Millisecond, 200*time.Millisecond)))
	}
	if s.Every == 0 {
		for _, name := range exclusionNames {
			g.add("calendar", g.calendar(name)...)
		}
		g.add("advance", "1s") // a job is refused before its calendars are there
	}
	for i := range s.Jobs {
		j := &generated{name: fmt.Sprintf("job-%03d", i)}
		g.jobs = append(g.jobs, j)
		j.schedule, j.policy = g.schedule(), g.policy()
		g.add("apply", j.args()...)
	}
	g.busy = make([]time.Duration, s.Members)
	g.again(s.FaultEvery, g.fault)
	g.again(s.UserEvery, g.user)
	if s.Every == 0 {
		g.again(20*s.UserEvery, func(at time.Duration) { g.at(at, "calendar", g.calendar(exclusionNames[g.side.IntN(2)])...) })
	}
	slices.SortStableFunc(g.timed, func(a, b timed) int { return int(a.at - b.at) })
	now := time.Duration(0)
	for _, t := range g.timed {
		if t.at > now {
			g.add("advance", text(t.at-now))
			now = t.at
		}
		g.script = append(g.script, t.command)
	}
	if s.Span > now {
		g.add("advance", text(s.Span-now))
	}
	g.add("settle")
	return g.script
}

// generator is one script in the making.
type generator struct {
	shape   Shape
	rng     *rand.Rand
	side    *rand.Rand // draws calendars, so that all else of a seed stays what it was without them
	script  Script
	members []string
	jobs    []*generated
	timed   []timed
	busy    []time.Duration // until then a member's link or process has a fault already
	outage  time.Duration   // until then etcd has no leader
}

type timed struct {
	at      time.Duration
	command Command
}

// generated is a job as the script has left it.
type generated struct {
	name             string
	schedule, policy []string
	until            time.Duration // it is deleted or paused until then
}

func (j *generated) args() []string { return slices.Concat([]string{j.name}, j.schedule, j.policy) }

func (g *generator) add(verb string, args ...string) {
	g.script = append(g.script, Command{verb, args})
}

// at has a command happen at a time.
func (g *generator) at(at time.Duration, verb string, args ...string) {
	if at < g.shape.Span {
		g.timed = append(g.timed, timed{at, Command{verb, args}})
	}
}

// again draws the times at which something happens.
func (g *generator) again(mean time.Duration, happen func(at time.Duration)) {
	if mean <= 0 {
		return
	}
	for at := g.between(0, 2*mean); at < g.shape.Span; at += g.between(0, 2*mean) {
		happen(at)
	}
}

// between draws whole milliseconds.
func (g *generator) between(from, to time.Duration) time.Duration {
	return (from + time.Duration(g.rng.Int64N(int64(to-from)))).Truncate(time.Millisecond)
}

func (g *generator) pick(of ...string) string { return of[g.rng.IntN(len(of))] }

// text is a duration as scripts write it: without zeros at its end.
func text(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// seconds draws a duration of whole seconds.
func (g *generator) seconds(from, to time.Duration) string {
	return text(g.between(from, to).Truncate(time.Second))
}

func (g *generator) schedule() []string {
	if every := g.shape.Every; every > 0 {
		phase := g.between(0, every).Truncate(time.Second)
		return []string{"every=" + text(every), "origin=" + defaultEpoch.Add(phase).Format(time.RFC3339)}
	}
	var args []string
	switch g.rng.IntN(3) {
	case 0:
		args = append(args, "cron="+g.pick("* * * * *", "*/5 * * * *", "30 * * * *", "15,45 2 * * *", "0 */2 * * *;7 1-5 * * *"))
	case 1:
		args = append(args, "every="+g.seconds(20*time.Second, 10*time.Minute))
	default:
		args = append(args, "every="+g.seconds(time.Minute, time.Hour), "jitter="+g.seconds(0, 30*time.Second))
	}
	if g.rng.IntN(2) == 0 { // whose clocks change in the first night
		args = append(args, "zone=Europe/Berlin")
	}
	if g.side.IntN(3) == 0 {
		args = append(args, "exclude="+[]string{"c1", "c2", "c1,c2"}[g.side.IntN(3)])
	}
	return args
}

// exclusionNames are the calendars of a generated history.
var exclusionNames = []string{"c1", "c2"}

// calendar draws what a calendar says: some part of each day, and now and then more.
func (g *generator) calendar(name string) []string {
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
	from := g.side.IntN(24 * 60)
	args := []string{name, "hours=" + clock(from) + "-" + clock(from+1+g.side.IntN(5*60))}
	switch g.side.IntN(6) {
	case 0:
		args = append(args, "weekdays="+[]string{"sat", "sun"}[g.side.IntN(2)])
	case 1:
		args = append(args, "dates="+[]string{"03-29", "2026-03-28"}[g.side.IntN(2)])
	case 2:
		args = append(args, "zone=America/New_York")
	}
	return args
}

func (g *generator) policy() []string {
	if g.shape.Every > 0 {
		return []string{"runs=1s..30s", "onLost=" + g.pick("fail", "retry"), "ends=" + g.pick("ok", "mixed")}
	}
	args := []string{
		"onLost=" + g.pick("fail", "retry"), "catchUp=" + g.pick("latest", "latest", "none"), "window=" + g.pick("1m", "1h"),
		"history=" + g.pick("1", "2", "5"), "runs=" + g.pick("100ms..10s", "100ms..10s", "10s..1m30s", "1m30s..4m"),
		"ends=" + g.pick("ok", "mixed"),
	}
	if g.rng.IntN(4) == 0 {
		args = append(args, "deadline="+g.pick("3s", "1m"))
	}
	if g.rng.IntN(4) == 0 {
		args = append(args, "timeout="+g.pick("5s", "1m"))
	}
	if g.rng.IntN(3) == 0 {
		args = append(args, "stubborn")
	}
	return args
}

// user is one thing that a user does.
func (g *generator) user(at time.Duration) {
	j := g.jobs[g.rng.IntN(len(g.jobs))]
	if j.until > at {
		return
	}
	until := at + g.between(5*time.Second, 3*time.Minute)
	switch g.rng.IntN(9) {
	case 0, 1, 2:
		g.at(at, "trigger", j.name)
	case 3:
		g.at(at, "pause", j.name)
		g.at(until, "resume", j.name)
		j.until = until
	case 4:
		j.policy = g.policy()
		g.at(at, "apply", j.args()...)
	case 5:
		j.schedule = g.schedule()
		g.at(at, "apply", j.args()...)
	case 6:
		g.at(at, "cancel", j.name)
	case 7:
		g.at(at, "trigger", j.name)
		g.at(at+g.between(0, 2*time.Second), "cancel", j.name)
	default:
		j.schedule, j.policy = g.schedule(), g.policy()
		if g.rng.IntN(4) == 0 {
			until += 90 * time.Minute // it is swept first
		}
		g.at(at, "delete", j.name)
		g.at(until, "apply", j.args()...) // refused as long as an attempt is in flight
		g.at(until+5*time.Minute, "apply", j.args()...)
		j.until = until + 5*time.Minute
	}
}

// fault is one fault, and its repair.
func (g *generator) fault(at time.Duration) {
	i := g.rng.IntN(len(g.members))
	m := g.members[i]
	// What cannot be combined with itself or with what is like it.
	lasting := func(most time.Duration) (until time.Duration, free bool) {
		until = at + g.between(time.Second, most)
		if free = g.busy[i] <= at; free {
			g.busy[i] = until
		}
		return until, free
	}
	switch n := g.rng.IntN(24); {
	case n < 3:
		if until, free := lasting(3 * time.Minute); free {
			g.at(at, "crash", m, "folder="+g.pick("kept", "kept", "lost"))
			g.at(until, "restart", m)
		}
	case n < 6:
		g.at(at, "stall", m, text(g.between(time.Second, 25*time.Second)))
	case n < 8:
		g.at(at, "freeze", m, text(g.between(time.Second, 40*time.Second)))
	case n < 12:
		if until, free := lasting(time.Minute); free {
			g.link(at, m)
			g.at(until, "heal", m)
		}
	case n < 14:
		step := g.between(-20*time.Second, 20*time.Second)
		g.at(at, "step", m, text(step))
		g.at(at+g.between(time.Minute, 5*time.Minute), "step", m, text(-step))
	case n < 18:
		kind := g.pick("begin", "begin", "finish", "resolve", "fold", "lose", "late", "skip", "look", "publish", "any")
		if g.rng.IntN(2) == 0 {
			g.at(at, "delay", m, text(g.between(time.Second, 20*time.Second)), kind)
		} else {
			g.at(at, "lose", m, g.pick("request", "reply"), kind)
		}
	case n < 19:
		g.at(at, "panic", m)
	case n < 21:
		g.at(at, "revoke", m, g.pick("member", "locks"))
	case n < 22:
		if until := at + g.between(time.Second, 40*time.Second); g.outage <= at {
			g.outage = until
			g.at(at, "etcd", "down")
			g.at(until, "etcd", "up")
		}
	default:
		if until, free := lasting(3 * time.Minute); free {
			g.at(at, "drain", m)
			g.at(until+time.Minute, "restart", m)
			g.busy[i] += time.Minute
		}
	}
}

// link is a fault of a member's link.
func (g *generator) link(at time.Duration, m string) {
	switch kind := g.pick("cut", "cut", "cut requests", "cut replies", "slow", "deaf"); kind {
	case "slow":
		g.at(at, "slow", m, text(g.between(100*time.Millisecond, 8*time.Second)))
	case "deaf":
		g.at(at, "deaf", m)
	default:
		verb, direction, one := strings.Cut(kind, " ")
		args := []string{m}
		if one {
			args = append(args, direction)
		}
		g.at(at, verb, args...)
	}
}
