package cron

import (
	"math/bits"
	"time"

	robfig "github.com/robfig/cron/v3"
)

// none stands for "no such wall time" or "no such instant".
const none = dawn

// searchMonths bounds every search for a day: 40 years. The longest wait between two days of an
// expression is eight years, for 29 February over 2100; the calendar repeats every 28 years, or 40 over
// a century without leap year.
const searchMonths = 40 * 12

// expression is a compiled cron expression: a set of wall times, as bit masks. A wall time is
// counted in seconds as if the wall clock were UTC, so that it is a plain number.
type expression struct {
	second, minute uint64
	hour           uint32
	month          uint16 // bits 1 to 12
	// wildcard expressions follow the wall clock through both passes of a repeated hour, and nothing
	// is made up for them after a gap.
	wildcard bool
	// days has the matching days (bits 1 to 31) of a month that begins on a given day of the week.
	days [7]uint32
}

func newExpression(s *robfig.SpecSchedule, wildcard bool) *expression {
	const star = 1 << 63 // the parser marks a field that has a star with step 1
	e := &expression{
		second:   s.Second &^ star,
		minute:   s.Minute &^ star,
		hour:     uint32(s.Hour &^ star),
		month:    uint16(s.Month &^ star),
		wildcard: wildcard,
	}
	byDate := uint32(s.Dom &^ star)
	for first := range e.days {
		var byWeekday uint32
		for day := 1; day <= 31; day++ {
			if s.Dow>>((first+day-1)%7)&1 == 1 {
				byWeekday |= 1 << day
			}
		}
		if (s.Dom|s.Dow)&star != 0 {
			e.days[first] = byDate & byWeekday
		} else {
			e.days[first] = byDate | byWeekday
		}
	}
	return e
}

// possible says whether any month has a day that matches.
func (e *expression) possible() bool {
	for month := 1; month <= 12; month++ {
		for _, days := range e.days {
			if e.month>>month&1 == 1 && days&upTo(monthDays(2000, month)) != 0 { // 2000 is a leap year
				return true
			}
		}
	}
	return false
}

// nextWall returns the first wall time of e at or after w, or none.
func (e *expression) nextWall(w int64) int64 {
	day := floorDiv(w, daySeconds)
	found := e.nextDay(day)
	if found == day {
		if second := e.timeFrom(int(w - day*daySeconds)); second >= 0 {
			return day*daySeconds + int64(second)
		}
		found = e.nextDay(day + 1)
	}
	if found == none {
		return none
	}
	return found*daySeconds + int64(e.timeFrom(0))
}

// lastWall returns the last wall time of e at or before w, or none.
func (e *expression) lastWall(w int64) int64 {
	day := floorDiv(w, daySeconds)
	found := e.lastDay(day)
	if found == day {
		if second := e.timeUpTo(int(w - day*daySeconds)); second >= 0 {
			return day*daySeconds + int64(second)
		}
		found = e.lastDay(day - 1)
	}
	if found == none {
		return none
	}
	return found*daySeconds + int64(e.timeUpTo(daySeconds-1))
}

// nextDay returns the first matching day at or after the given one, in days since 1970.
func (e *expression) nextDay(day int64) int64 {
	m := monthOf(day)
	from := day - m.first + 1
	for range searchMonths {
		if left := e.daysOf(m) >> from << from; left != 0 {
			return m.first + int64(bits.TrailingZeros32(left)) - 1
		}
		m, from = m.next(), 0
	}
	return none
}

// lastDay returns the last matching day at or before the given one.
func (e *expression) lastDay(day int64) int64 {
	m := monthOf(day)
	left := e.daysOf(m) & upTo(int(day-m.first+1))
	for range searchMonths {
		if left != 0 {
			return m.first + int64(bits.Len32(left)) - 2
		}
		m = m.previous()
		left = e.daysOf(m)
	}
	return none
}

// daysOf returns the matching days of a month: bits 1 to 31.
func (e *expression) daysOf(m month) uint32 {
	if e.month>>m.number&1 == 0 {
		return 0
	}
	return e.days[floorMod(m.first+4, 7)] & upTo(m.days) // 1970-01-01 is a Thursday
}

// timeFrom returns the first time of day at or after second, or -1.
func (e *expression) timeFrom(second int) int {
	h, m, s := second/3600, second/60%60, second%60
	if e.hour>>h&1 == 1 {
		if e.minute>>m&1 == 1 {
			if left := e.second >> s << s; left != 0 {
				return h*3600 + m*60 + bits.TrailingZeros64(left)
			}
		}
		if left := e.minute >> (m + 1) << (m + 1); left != 0 {
			return h*3600 + bits.TrailingZeros64(left)*60 + bits.TrailingZeros64(e.second)
		}
	}
	if left := e.hour >> (h + 1) << (h + 1); left != 0 {
		return bits.TrailingZeros32(left)*3600 + bits.TrailingZeros64(e.minute)*60 + bits.TrailingZeros64(e.second)
	}
	return -1
}

// timeUpTo returns the last time of day at or before second, or -1.
func (e *expression) timeUpTo(second int) int {
	h, m, s := second/3600, second/60%60, second%60
	if e.hour>>h&1 == 1 {
		if e.minute>>m&1 == 1 {
			if left := e.second & below(s+1); left != 0 {
				return h*3600 + m*60 + last(left)
			}
		}
		if left := e.minute & below(m); left != 0 {
			return h*3600 + last(left)*60 + last(e.second)
		}
	}
	if left := uint64(e.hour) & below(h); left != 0 {
		return last(left)*3600 + last(e.minute)*60 + last(e.second)
	}
	return -1
}

// timesBelow counts the times of day before second, which may be the end of the day.
func (e *expression) timesBelow(second int) int64 {
	h, m, s := second/3600, second/60%60, second%60
	minutes, seconds := bits.OnesCount64(e.minute), bits.OnesCount64(e.second)
	n := bits.OnesCount64(uint64(e.hour)&below(h)) * minutes * seconds
	if e.hour>>h&1 == 1 {
		n += bits.OnesCount64(e.minute&below(m)) * seconds
		if e.minute>>m&1 == 1 {
			n += bits.OnesCount64(e.second & below(s))
		}
	}
	return int64(n)
}

// month is a month of the calendar: its number, its first day in days since 1970 and its length.
type month struct {
	year, number, days int
	first              int64
}

func monthOf(day int64) month {
	year, number, of := time.Unix(day*daySeconds, 0).UTC().Date()
	return month{year, int(number), monthDays(year, int(number)), day - int64(of) + 1}
}

func (m month) next() month {
	year, number := m.year, m.number+1
	if number > 12 {
		year, number = year+1, 1
	}
	return month{year, number, monthDays(year, number), m.first + int64(m.days)}
}

func (m month) previous() month {
	year, number := m.year, m.number-1
	if number < 1 {
		year, number = year-1, 12
	}
	days := monthDays(year, number)
	return month{year, number, days, m.first - int64(days)}
}

func monthDays(year, number int) int {
	switch {
	case number == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case number == 2:
		return 28
	case number == 4, number == 6, number == 9, number == 11:
		return 30
	}
	return 31
}

// below has the bits 0 to n-1, upTo the bits 0 to n, last is the highest bit that is set.
func below(n int) uint64   { return 1<<n - 1 }
func upTo(n int) uint32    { return uint32(1<<(n+1) - 1) }
func last(mask uint64) int { return bits.Len64(mask) - 1 }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
