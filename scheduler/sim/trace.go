package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// verb says what a line of a history is about.
type verb uint8

const (
	free    verb = iota // text
	commits             // a decision was committed
	starts              // an attempt started
	ends                // an attempt ended
	records             // the end of an attempt was recorded
)

// line is one thing that happened. It becomes text only if somebody reads it.
type line struct {
	at       time.Duration
	verb     verb
	who      string // a member's name, user, or etcd
	text     string
	decision *scheduler.Decision
	firing   scheduler.Firing
	attempt  int
	number   int64 // token of a grant, slot of a record
	verdict  scheduler.Verdict
	reason   scheduler.Reason
}

// tailLines is how many lines are kept when not all are.
const tailLines = 60

// trace is the history: a hash of all of it, and the newest lines or all of them.
type trace struct {
	world *world
	on    bool // keep every line until it is taken
	muted bool // keep none
	hash  uint64
	lines int
	tail  []line
}

func (t *trace) add(l line) {
	t.lines++
	h := t.hash ^ uint64(l.at) ^ uint64(l.verb)<<56
	h = mix(h ^ hashText(l.who) ^ uint64(l.attempt)<<48 ^ uint64(l.number))
	h = mix(h ^ hashText(l.text) ^ hashText(string(l.verdict))<<1 ^ hashText(string(l.reason))<<2)
	f := l.firing
	if d := l.decision; d != nil {
		f = d.Firing
		h = mix(h ^ hashText(string(d.Kind)) ^ uint64(d.Attempt) ^ uint64(d.Instants)<<8 ^ uint64(d.Excluded)<<24 ^ hashText(string(d.Reason)))
	}
	t.hash = mix(h ^ hashText(f.UID) ^ uint64(f.Scheduled) ^ hashText(f.Trigger)<<1)
	if t.muted {
		return
	}
	t.tail = append(t.tail, l)
	if !t.on && len(t.tail) >= 2*tailLines {
		copy(t.tail, t.tail[len(t.tail)-tailLines:])
		t.tail = t.tail[:tailLines]
	}
}

// take returns the lines since the last take as text.
func (t *trace) take() string {
	var b strings.Builder
	for _, l := range t.tail {
		b.WriteString(t.render(l))
		b.WriteByte('\n')
	}
	t.tail = t.tail[:0]
	return b.String()
}

// newest returns the newest lines as text, and keeps them.
func (t *trace) newest() []string {
	var list []string
	for _, l := range t.tail[max(len(t.tail)-tailLines, 0):] {
		list = append(list, t.render(l))
	}
	return list
}

func (t *trace) render(l line) string {
	return t.moment(l.at) + " " + l.who + " " + t.what(l)
}

func (t *trace) what(l line) string {
	switch l.verb {
	case commits:
		return t.decided(*l.decision, l.number)
	case starts:
		return fmt.Sprintf("starts %s #%d", t.short(l.firing), l.attempt)
	case ends:
		return fmt.Sprintf("ends %s #%d: %s", t.short(l.firing), l.attempt, outcomeText(l.verdict, l.reason))
	case records:
		return fmt.Sprintf("finish %s #%d: %s, slot %d", t.short(l.firing), l.attempt, outcomeText(l.verdict, l.reason), l.number)
	}
	return l.text
}

// decided is what a committed decision did.
func (t *trace) decided(d scheduler.Decision, token int64) string {
	var parts []string
	if d.Kind == scheduler.KindBegin {
		parts = append(parts, fmt.Sprintf("token %d, slot %d", token, d.Slot))
	}
	if d.Instants > 1 {
		parts = append(parts, fmt.Sprintf("%d instants", d.Instants))
	}
	if d.Excluded > 0 {
		parts = append(parts, fmt.Sprintf("%d excluded before", d.Excluded))
	}
	if d.Verdict != "" {
		parts = append(parts, outcomeText(d.Verdict, d.Reason))
	}
	for _, blame := range d.Blame {
		parts = append(parts, "because of "+t.short(blame.Firing))
	}
	if b := d.Next.Backlog; d.Kind == scheduler.KindMiss && b != nil {
		parts = append(parts, fmt.Sprintf("%s waits as the backlog", t.clock(b.Last)))
	}
	if folded := t.without(d.Folded, d.Firing); len(folded) > 0 && d.Kind != scheduler.KindFold {
		parts = append(parts, "folds "+t.list(folded))
	}
	if len(parts) == 0 {
		return t.attempted(&d)
	}
	return t.attempted(&d) + ": " + strings.Join(parts, ", ")
}

func (t *trace) without(list []scheduler.Firing, f scheduler.Firing) []scheduler.Firing {
	var rest []scheduler.Firing
	for _, o := range list {
		if o != f {
			rest = append(rest, o)
		}
	}
	return rest
}

func (t *trace) list(firings []scheduler.Firing) string {
	var texts []string
	for _, f := range firings {
		texts = append(texts, t.short(f))
	}
	return strings.Join(texts, " ")
}

// short is a firing as people write it: the uid is the job's name, and the day is left out as long as it
// is the first.
func (t *trace) short(f scheduler.Firing) string {
	if f.Manual() {
		return f.UID + "+" + f.Trigger
	}
	return f.UID + "@" + t.clock(f.Instant())
}

func (t *trace) clock(at time.Time) string {
	form := "15:04"
	if at.Second() != 0 {
		form = "15:04:05"
	}
	if !t.firstDay(at) {
		form = "02T" + form
	}
	return at.UTC().Format(form)
}

// moment is the true time of a line.
func (t *trace) moment(at time.Duration) string {
	wall := t.world.epoch.Add(at)
	if !t.firstDay(wall) {
		return wall.Format("02 15:04:05.000")
	}
	return wall.Format("15:04:05.000")
}

// firstDay says whether a time is on the day on which the script begins.
func (t *trace) firstDay(at time.Time) bool {
	day := func(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }
	return day(at).Equal(day(t.world.epoch.Add(bootTime)))
}

// outcomeText is a verdict with its reason.
func outcomeText(v scheduler.Verdict, r scheduler.Reason) string {
	if r == "" {
		return string(v)
	}
	return fmt.Sprintf("%s(%s)", v, r)
}

// attempted is what a decision wanted.
func (t *trace) attempted(d *scheduler.Decision) string { return string(d.Kind) + " " + t.subject(d) }

// subject is what a decision is about.
func (t *trace) subject(d *scheduler.Decision) string {
	switch {
	case d.Attempt > 0:
		return fmt.Sprintf("%s #%d", t.short(d.Firing), d.Attempt)
	case d.Firing != scheduler.Firing{}:
		return t.short(d.Firing)
	case d.Kind == scheduler.KindFold:
		return t.list(d.Folded)
	case d.Kind == scheduler.KindSweep:
		return d.Job.Name
	case d.First.Equal(d.Last):
		return t.short(scheduler.At(d.Next.UID, d.First))
	}
	return t.short(scheduler.At(d.Next.UID, d.First)) + "…" + t.clock(d.Last)
}
