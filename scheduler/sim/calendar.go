package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// calendar finds the instants of a schedule in the slow way: intervals by counting, expressions by
// walking over every minute of every day and comparing it with the wall clock there. It is what the
// oracle believes, and shares nothing with package cron but the zones. It knows the expressions that
// scripts may use: five fields of *, numbers, lists and steps.
type calendar struct {
	every, origin int64 // instants origin + k·every, from k = 1 on
	start, end    int64 // instants lie in [start, end); 0 is unbounded
	at            []int64
	lines         []expression
	zone          *time.Location

	// found are the instants in [from, to), for a schedule that is more than an interval.
	found    []int64
	from, to int64
}

type expression struct {
	fields   [5]func(int) bool
	wildcard bool // minute or hour begins with *: it follows the real time (D3)
}

func newCalendar(s scheduler.Schedule) *calendar {
	c := &calendar{every: int64(s.Every / time.Second), origin: s.Origin.Unix()}
	if !s.Start.IsZero() {
		c.start = s.Start.Unix()
	}
	if !s.End.IsZero() {
		c.end = s.End.Unix()
	}
	for _, at := range s.At {
		c.at = append(c.at, at.Unix())
	}
	for _, text := range s.Cron {
		c.lines = append(c.lines, newExpression(text))
	}
	if len(c.lines) > 0 {
		zone, err := cron.LoadZone(s.TimeZone)
		if err != nil {
			panic("the oracle has no zone " + s.TimeZone)
		}
		c.zone = zone
	}
	return c
}

func newExpression(text string) expression {
	words := strings.Fields(text)
	e := expression{wildcard: strings.HasPrefix(words[0], "*") || strings.HasPrefix(words[1], "*")}
	for i, word := range words {
		e.fields[i] = matcher(word)
	}
	return e
}

// matcher says whether a number is in a field.
func matcher(field string) func(int) bool {
	var items []func(int) bool
	for item := range strings.SplitSeq(field, ",") {
		body, stepText, _ := strings.Cut(item, "/")
		step, err := strconv.Atoi(stepText)
		if err != nil {
			step = 1
		}
		low, high := 0, 59
		if body != "*" {
			lowText, highText, is := strings.Cut(body, "-")
			low, _ = strconv.Atoi(lowText)
			if high = low; is {
				high, _ = strconv.Atoi(highText)
			}
		}
		items = append(items, func(n int) bool { return n >= low && n <= high && (n-low)%step == 0 })
	}
	return func(n int) bool { return slices.ContainsFunc(items, func(is func(int) bool) bool { return is(n) }) }
}

// matches compares a wall-clock minute. Scripts use at most one of the two day fields.
func (e *expression) matches(wall time.Time) bool {
	return e.fields[0](wall.Minute()) && e.fields[1](wall.Hour()) && e.fields[2](wall.Day()) &&
		e.fields[3](int(wall.Month())) && e.fields[4](int(wall.Weekday()))
}

// count is how many instants there are in (after, through].
func (c *calendar) count(after, through int64) int64 {
	if c == nil || through <= after {
		return 0
	}
	if len(c.lines) == 0 && len(c.at) == 0 {
		if after = max(after, c.origin); c.start > 0 {
			after = max(after, c.start-1)
		}
		if c.end > 0 {
			through = min(through, c.end-1)
		}
		if through <= after || c.every == 0 {
			return 0
		}
		return floor(through-c.origin, c.every) - floor(after-c.origin, c.every)
	}
	c.find(after, through)
	i, _ := slices.BinarySearch(c.found, after+1)
	k, _ := slices.BinarySearch(c.found, through+1)
	return int64(k - i)
}

// horizon is how far next looks.
const horizon = 40 * 24 * 3600

// next is the first instant after the given one, or 0 if there is none for long.
func (c *calendar) next(after int64) int64 {
	if c == nil {
		return 0
	}
	if len(c.lines) == 0 && len(c.at) == 0 {
		next := c.origin + (floor(max(after, c.origin)-c.origin, c.every)+1)*c.every
		if c.start > next {
			next = c.origin + (floor(c.start-1-c.origin, c.every)+1)*c.every
		}
		if c.end > 0 && next >= c.end {
			return 0
		}
		return next
	}
	for look := int64(day); look <= horizon; look *= 3 {
		c.find(after, after+look)
		if i, _ := slices.BinarySearch(c.found, after+1); i < len(c.found) {
			return c.found[i]
		}
	}
	return 0
}

const day = 24 * 3600

// find makes sure that the instants in (after, through] are among those found.
func (c *calendar) find(after, through int64) {
	if c.from == 0 {
		c.from = after - floorMod(after, day) - day
		c.to = c.from
	}
	if after < c.from {
		before := &calendar{every: c.every, origin: c.origin, start: c.start, end: c.end, at: c.at, lines: c.lines, zone: c.zone, from: after - day, to: after - day}
		before.find(after-day, c.from-1)
		c.found, c.from = append(before.within(c.from), c.found...), before.from
	}
	for c.to <= through {
		c.walk(c.to, c.to+day)
		c.to += day
	}
}

func (c *calendar) within(end int64) []int64 {
	i, _ := slices.BinarySearch(c.found, end)
	return c.found[:i]
}

// walk finds the instants in [from, to), a whole number of minutes.
func (c *calendar) walk(from, to int64) {
	var list []int64
	for _, at := range c.at {
		if at >= from && at < to {
			list = append(list, at)
		}
	}
	if c.every > 0 {
		for at := c.origin + (floor(max(from-1, c.origin)-c.origin, c.every)+1)*c.every; at < to; at += c.every {
			list = append(list, at)
		}
	}
	for at := from - floorMod(from, 60); at < to && len(c.lines) > 0; at += 60 {
		for i := range c.lines {
			if at >= from && c.due(&c.lines[i], at) {
				list = append(list, at)
				break
			}
		}
	}
	slices.Sort(list)
	for _, at := range slices.Compact(list) {
		if at >= c.start && (c.end == 0 || at < c.end) {
			c.found = append(c.found, at)
		}
	}
}

// due says whether an expression names a minute. One with fixed times runs once for the times that a
// change of the clocks leaves out, at the first minute after it, and only the first time for those that
// come twice (D1, D2, D14); one with wildcards follows the real time.
func (c *calendar) due(e *expression, at int64) bool {
	offset := c.offset(at)
	wall := time.Unix(at+offset, 0).UTC()
	if e.wildcard {
		return e.matches(wall)
	}
	if gap := offset - c.offset(at-60); gap <= longestJump {
		for left := int64(60); left <= gap; left += 60 {
			if e.matches(wall.Add(-time.Duration(left) * time.Second)) {
				return true
			}
		}
	}
	if !e.matches(wall) {
		return false
	}
	for back := int64(60); back <= longestJump; back += 60 {
		if c.offset(at-back)-offset == back {
			return false // this wall time was there before
		}
	}
	return true
}

// longestJump is the largest change of the clocks that is made up for (D4).
const longestJump = 3 * 3600

// offset is how far the wall clocks are ahead of UTC.
func (c *calendar) offset(at int64) int64 {
	_, offset := time.Unix(at, 0).In(c.zone).Zone()
	return int64(offset)
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floor(a, b)*b }
