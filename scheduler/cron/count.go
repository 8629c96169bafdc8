package cron

import (
	"math/bits"
	"time"
)

// Count returns how many instants lie in (after, through]. The work grows with the days of the range,
// not with the instants: a job of every second over ten years takes milliseconds at most.
func (t *Timetable) Count(after, through time.Time) int64 {
	from, to, ok := t.within(after, through)
	if !ok {
		return 0
	}
	if next := t.Next(after); next.IsZero() || next.Unix() > to { // the usual case: nothing is due
		return 0
	}
	n := t.countEvery(from, to)
	if len(t.expressions) > 0 {
		c := &counter{Timetable: t}
		c.count(from, to)
		n += c.n
	}
	for _, date := range t.dates {
		if from <= date && date <= to && !t.byEvery(date) && !t.byExpression(date) {
			n++
		}
	}
	return n
}

// countEvery counts the instants of the interval alone.
func (t *Timetable) countEvery(from, to int64) int64 {
	if t.every == 0 {
		return 0
	}
	steps := func(s int64) int64 { return max(0, floorDiv(s-t.origin, t.every)) }
	return steps(to) - steps(from-1)
}

func (t *Timetable) byEvery(s int64) bool {
	return t.every != 0 && s > t.origin && (s-t.origin)%t.every == 0
}

func (t *Timetable) byExpression(s int64) bool {
	for _, e := range t.expressions {
		if e.next(t.zone, s-1) == s {
			return true
		}
	}
	return false
}

// counter adds up the instants that at least one expression names and the interval does not.
//
// It goes along the periods of the zone. Inside a period the wall clock runs evenly, so days are
// counted by their bit masks. A single expression needs only the number of its days; where several
// sources meet, the times of a day are written into a bit set, once for each combination of them.
type counter struct {
	*Timetable
	n int64
	// sets has the times of day of a combination of expressions.
	sets map[chosen]*timeSet
}

// chosen is a set of expressions: a bit for each index.
type chosen uint32

// maxSets bounds the memory of a counter: 64 sets of 12 KiB.
const maxSets = 64

func (c *counter) count(from, to int64) {
	all := chosen(1<<len(c.expressions) - 1)
	var wildcard, fixed chosen
	for i, e := range c.expressions {
		if e.wildcard {
			wildcard |= 1 << i
		} else {
			fixed |= 1 << i
		}
	}
	for p := c.zone.at(from); ; p = c.zone.at(p.end) {
		start, end := max(from, p.start), min(to+1, p.end)
		if p.repeat() > 0 && p.repeat() <= maxJump {
			second := min(max(start, p.start+p.repeat()), end) // until then it is the second pass
			c.stretch(wildcard, start, second, p.offset)
			start = second
		}
		c.stretch(all, start, end, p.offset)
		if p.gap() > 0 && p.gap() <= maxJump && from <= p.start {
			c.madeUp(fixed, p)
		}
		if p.end > to {
			return
		}
	}
}

// madeUp counts the instant at the end of a gap if it is there only for what the gap skipped.
func (c *counter) madeUp(fixed chosen, p period) {
	if c.byEvery(p.start) {
		return
	}
	skipped, wall := p.start+p.before, p.start+p.offset
	owed := false
	for i, e := range c.expressions {
		w := e.nextWall(skipped)
		owed = owed || fixed>>i&1 == 1 && w != none && w < wall
		if w != none && w < wall {
			w = e.nextWall(wall)
		}
		if w == wall {
			return // stretch has counted it
		}
	}
	if owed {
		c.n++
	}
}

// stretch counts the instants start ≤ t < end of some expressions under one offset.
func (c *counter) stretch(some chosen, start, end, offset int64) {
	if some == 0 || start >= end {
		return
	}
	if c.every != 0 && start <= c.origin && c.origin < end-1 { // the interval begins in the midst of it
		c.stretch(some, start, c.origin+1, offset)
		start = c.origin + 1
	}
	first, last := start+offset, end-1+offset // wall times, both included
	firstDay, lastDay := floorDiv(first, daySeconds), floorDiv(last, daySeconds)
	from, to := int(first-firstDay*daySeconds), int(last-lastDay*daySeconds)+1
	if firstDay == lastDay {
		c.day(some, firstDay, from, to, offset)
		return
	}
	c.day(some, firstDay, from, daySeconds, offset)
	c.day(some, lastDay, 0, to, offset)
	for m := monthOf(firstDay + 1); m.first < lastDay; m = m.next() {
		c.month(some, m, max(firstDay+1, m.first), min(lastDay, m.first+int64(m.days)), offset)
	}
}

// month counts the whole days first ≤ d < end of a month.
func (c *counter) month(some chosen, m month, first, end, offset int64) {
	whole := upTo(int(end-m.first)) &^ upTo(int(first-m.first))
	if c.single(some) {
		e := c.expressions[bits.TrailingZeros32(uint32(some))]
		c.n += int64(bits.OnesCount32(e.daysOf(m)&whole)) * e.timesBelow(daySeconds)
		return
	}
	var days [maxExpressions]uint32
	var any uint32
	for i, e := range c.expressions {
		if some>>i&1 == 1 {
			days[i] = e.daysOf(m) & whole
			any |= days[i]
		}
	}
	for ; any != 0; any &= any - 1 {
		day := bits.TrailingZeros32(any)
		var active chosen
		for i := range c.expressions {
			active |= chosen(days[i]>>day&1) << i
		}
		c.times(active, m.first+int64(day)-1, 0, daySeconds, offset)
	}
}

// day counts the times from ≤ t < to of one day.
func (c *counter) day(some chosen, day int64, from, to int, offset int64) {
	m := monthOf(day)
	var active chosen
	for i, e := range c.expressions {
		if some>>i&1 == 1 && e.daysOf(m)>>(day-m.first+1)&1 == 1 {
			active |= 1 << i
		}
	}
	c.times(active, day, from, to, offset)
}

// single says whether only one expression and no interval has to be counted.
func (c *counter) single(some chosen) bool {
	return c.every == 0 && bits.OnesCount32(uint32(some)) == 1
}

// times counts the times from ≤ t < to of a day on which the active expressions all match.
func (c *counter) times(active chosen, day int64, from, to int, offset int64) {
	if active == 0 {
		return
	}
	if c.single(active) {
		e := c.expressions[bits.TrailingZeros32(uint32(active))]
		c.n += e.timesBelow(to) - e.timesBelow(from)
		return
	}
	set := c.set(active)
	whole := from == 0 && to == daySeconds
	if whole {
		c.n += set.total
	} else {
		c.n += set.count(from, to)
	}
	begin := day*daySeconds - offset // the instant of 00:00 under this offset
	if c.every == 0 || begin+int64(to)-1 <= c.origin {
		return
	}
	// Take out what the interval names; first is where it falls first in this part of the day.
	first := int64(from) + floorMod(c.origin-begin-int64(from), c.every)
	switch {
	case c.every >= 60:
		c.n -= set.sparse(first, int64(to), c.every)
	case !whole:
		c.n -= set.dense(from, to, int(first), int(c.every))
	default:
		if set.shared[first] == 0 {
			set.shared[first] = 1 + set.dense(from, to, int(first), int(c.every))
		}
		c.n -= set.shared[first] - 1
	}
}

// set returns the times of day of a combination of expressions.
func (c *counter) set(active chosen) *timeSet {
	if s := c.sets[active]; s != nil {
		return s
	}
	if c.sets == nil || len(c.sets) >= maxSets {
		c.sets = map[chosen]*timeSet{}
	}
	s := &timeSet{}
	for i, e := range c.expressions {
		if active>>i&1 == 1 {
			s.add(e)
		}
	}
	s.total = s.count(0, daySeconds)
	c.sets[active] = s
	return s
}

// timeSet is a set of times of day: a word for each minute, a bit for each second.
type timeSet struct {
	minutes [24 * 60]uint64
	total   int64
	// shared remembers, by the first second of the day on which an interval of less than a minute
	// falls, 1 + how many of its times in the day are in the set.
	shared [60]int64
}

func (s *timeSet) add(e *expression) {
	for hours := e.hour; hours != 0; hours &= hours - 1 {
		for minutes := e.minute; minutes != 0; minutes &= minutes - 1 {
			s.minutes[bits.TrailingZeros32(hours)*60+bits.TrailingZeros64(minutes)] |= e.second
		}
	}
}

// word returns the seconds of a minute that lie in from ≤ t < to.
func (s *timeSet) word(minute, from, to int) uint64 {
	w := s.minutes[minute]
	if from > minute*60 {
		w &^= below(from - minute*60)
	}
	if to < minute*60+60 {
		w &= below(to - minute*60)
	}
	return w
}

func (s *timeSet) count(from, to int) (n int64) {
	for minute := from / 60; minute*60 < to; minute++ {
		n += int64(bits.OnesCount64(s.word(minute, from, to)))
	}
	return n
}

// sparse counts the times first, first + every, … below to that are in s.
func (s *timeSet) sparse(first, to, every int64) (n int64) {
	for t := first; t < to; t += every {
		n += int64(s.minutes[t/60] >> (t % 60) & 1)
	}
	return n
}

// dense counts the same for an interval of less than a minute, a minute at a time. From is at most
// every before first.
func (s *timeSet) dense(from, to, first, every int) (n int64) {
	var marks [60]uint64 // the seconds of a minute on which the interval falls, by the first of them
	for phase := range every {
		for t := phase; t < 60; t += every {
			marks[phase] |= 1 << t
		}
	}
	for minute := from / 60; minute*60 < to; minute++ {
		phase := floorMod(int64(first-minute*60), int64(every))
		n += int64(bits.OnesCount64(s.word(minute, from, to) & marks[phase]))
	}
	return n
}
