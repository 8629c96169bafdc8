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
	if in := spanOf(c.days, day); in != nil {
		note(in.from, in.to-1)
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
		m := monthOf(day)
		if in := spanOf(c.yearly, monthDay{m.number, int(day-m.first) + 1}.ofYear()); in != nil {
			note(dayOf(m.year, in.from), dayOf(m.year, in.to)-1)
		}
	}
	return first, last, whole
}

// spanOf is the one of the spans, which are sorted and apart, that holds n; nil if none does.
func spanOf(spans []span, n int64) *span {
	i, found := slices.BinarySearchFunc(spans, n, func(s span, n int64) int {
		switch {
		case s.to <= n:
			return -1
		case s.from > n:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &spans[i]
}

// dayOf is the day of a year with this number in a leap year, in days since 1970; for 29 February in a year
// without one it is the day after it, and for the number after the last it is the next New Year.
func dayOf(year int, number int64) int64 {
	day := dayNumber(year, 1, 1) + number
	if number >= (monthDay{3, 1}).ofYear() && monthDays(year, 2) == 28 {
		day--
	}
	return day
}

// dayNumber is a day in days since 1970.
func dayNumber(year, month, day int) int64 {
	return floorDiv(time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix(), daySeconds)
}
