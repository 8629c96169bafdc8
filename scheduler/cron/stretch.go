package cron

import (
	"slices"
	"time"
)

// Stretch says whether the calendar excludes the instant of this Unix second, and a stretch of seconds
// around it, since ≤ t < until, over which the answer is the same. The stretch may be shorter than it could
// be, so that a search goes on at its end; it is never empty.
func (c *Calendar) Stretch(second int64) (excluded bool, since, until int64) {
	if c.always {
		return true, dawn, forever
	}
	// Inside a period of the zone the wall clock runs evenly, so that its times are plain numbers.
	p := c.zone.at(second)
	excluded, from, to := c.wall(second + p.offset)
	return excluded, max(from-p.offset, p.start), min(to-p.offset, p.end)
}

// Excludes says whether the calendar excludes the instant.
func (c *Calendar) Excludes(at time.Time) bool {
	excluded, _, _ := c.Stretch(at.Unix())
	return excluded
}

// wall is Stretch for a wall time.
func (c *Calendar) wall(w int64) (excluded bool, from, to int64) {
	day := floorDiv(w, daySeconds)
	if first, last, whole := c.wholeDays(day); whole {
		return true, first * daySeconds, (last + 1) * daySeconds
	}
	midnight := day * daySeconds
	second := w - midnight
	from, to = 0, daySeconds
	for _, h := range c.hours {
		switch {
		case h.from > second:
			return false, midnight + from, midnight + min(to, h.from)
		case h.to <= second:
			from = h.to
		default:
			return true, midnight + c.hoursBefore(h.from), midnight + c.hoursAfter(h.to)
		}
	}
	return false, midnight + from, midnight + to
}

// hoursAfter and hoursBefore join what passes midnight.
func (c *Calendar) hoursAfter(to int64) int64 {
	if first := c.hours[0]; to == daySeconds && first.from == 0 {
		return daySeconds + first.to
	}
	return to
}

func (c *Calendar) hoursBefore(from int64) int64 {
	if last := c.hours[len(c.hours)-1]; from == 0 && last.to == daySeconds {
		return last.from - daySeconds
	}
	return from
}

// joinDays bounds how often a run of days is made longer: what remains is found by the caller's next call.
const joinDays = 8

// wholeDays says whether the whole day is excluded, and which days around it are so too.
func (c *Calendar) wholeDays(day int64) (first, last int64, whole bool) {
	first, last, whole = c.dayRun(day)
	for i := 0; whole && i < joinDays; i++ {
		earlier, _, before := c.dayRun(first - 1)
		_, later, after := c.dayRun(last + 1)
		if !before && !after {
			break
		}
		if before {
			first = earlier
		}
		if after {
			last = later
		}
	}
	return first, last, whole
}

// dayRun is wholeDays for the parts that name the day themselves.
func (c *Calendar) dayRun(day int64) (first, last int64, whole bool) {
	first, last = day, day
	note := func(from, to int64) { first, last, whole = min(first, from), max(last, to), true }
	if i, found := slices.BinarySearchFunc(c.days, day, func(s span, d int64) int {
		switch {
		case s.to <= d:
			return -1
		case s.from > d:
			return 1
		}
		return 0
	}); found {
		note(c.days[i].from, c.days[i].to-1)
	}
	if c.weekdays != 0 {
		if of := int(floorMod(day+4, 7)); c.weekdays>>of&1 == 1 { // 1970-01-01 is a Thursday
			first, last := day, day // not all seven are in it: see always
			for c.weekdays>>floorMod(first+3, 7)&1 == 1 {
				first--
			}
			for c.weekdays>>floorMod(last+5, 7)&1 == 1 {
				last++
			}
			note(first, last)
		}
	}
	if len(c.yearly) > 0 {
		c.yearRuns(day, note)
	}
	return first, last, whole
}

// yearRuns notes the ranges of every year that hold the day.
func (c *Calendar) yearRuns(day int64, note func(from, to int64)) {
	m := monthOf(day)
	here := monthDay{m.number, int(day-m.first) + 1}
	for _, r := range c.yearly {
		afterFrom, beforeTo := r.from.compare(here) <= 0, here.compare(r.to) <= 0
		from, to := m.year, m.year
		switch wraps := r.from.compare(r.to) > 0; {
		case !wraps && !(afterFrom && beforeTo), wraps && !afterFrom && !beforeTo:
			continue
		case wraps && afterFrom:
			to++
		case wraps:
			from--
		}
		note(dayFrom(from, r.from), dayUpTo(to, r.to))
	}
}

// dayFrom and dayUpTo find a day of a year, or for 29 February in a year without one its neighbour inside
// the range.
func dayFrom(year int, d monthDay) int64 {
	if d.day > monthDays(year, d.month) {
		return dayNumber(year, d.month+1, 1)
	}
	return dayNumber(year, d.month, d.day)
}

func dayUpTo(year int, d monthDay) int64 {
	return dayNumber(year, d.month, min(d.day, monthDays(year, d.month)))
}

// dayNumber is a day in days since 1970.
func dayNumber(year, month, day int) int64 {
	return floorDiv(time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix(), daySeconds)
}
