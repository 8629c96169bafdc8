package cron

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CalendarSpec says which times of the wall clock in TimeZone a calendar excludes. Its parts add up.
type CalendarSpec struct {
	// TimeZone is an IANA name; "" is UTC. (What "" stands for in a stored calendar is for callers.)
	TimeZone string
	// Dates are whole days: one (2026-12-25), one of every year (12-25), or a range of either with both
	// ends in it (2026-12-24..2027-01-02, 12-24..01-02). At most 1,000.
	Dates []string
	// Weekdays are days of every week: mon tue wed thu fri sat sun.
	Weekdays []string
	// Hours are parts of every day; at most 24.
	Hours []Hours
}

// Hours is a part of the day: From ≤ time < To, each hh:mm, To up to 24:00. One whose From is later than its
// To passes midnight.
type Hours struct{ From, To string }

const (
	maxCalendarDates = 1000
	maxCalendarHours = 24
)

// Calendar is a compiled [CalendarSpec]. It is immutable and safe for concurrent use.
type Calendar struct {
	zone     *zone
	always   bool   // the year, the week or the day has no time that is not excluded
	weekdays uint8  // a bit for each day, from Sunday on
	days     []span // days since 1970, sorted, apart
	yearly   []span // days of every year, counted as in a leap year, sorted, apart
	hours    []span // seconds of the day, sorted, apart
}

// span is from ≤ n < to.
type span struct{ from, to int64 }

type monthDay struct{ month, day int }

// leapYear is one whose days every day of every year is among, and leapDays is how many it has.
const (
	leapYear = 2000
	leapDays = 366
)

// ofYear is the day's number in a leap year, from 0 on.
func (d monthDay) ofYear() int64 {
	return dayNumber(leapYear, d.month, d.day) - dayNumber(leapYear, 1, 1)
}

// CompileCalendar checks spec and makes it a Calendar. The error is an [Errors] with everything that is wrong.
func CompileCalendar(spec CalendarSpec) (*Calendar, error) {
	c := &Calendar{}
	var errs Errors
	z, wrong := openZone(spec.TimeZone)
	if wrong != nil {
		errs = append(errs, wrong)
	}
	c.zone = z
	errs = append(errs, c.addDates(spec.Dates)...)
	errs = append(errs, c.addWeekdays(spec.Weekdays)...)
	errs = append(errs, c.addHours(spec.Hours)...)
	if errs == nil && len(spec.Dates)+len(spec.Weekdays)+len(spec.Hours) == 0 {
		errs = Errors{{Field: "dates", Kind: KindNever, Problem: "the calendar excludes nothing", Remedy: "give it dates, weekdays or hours"}}
	}
	if errs != nil {
		return nil, errs
	}
	c.days, c.yearly, c.hours = apart(c.days), apart(c.yearly), apart(c.hours)
	c.always = c.weekdays == 1<<7-1 || len(c.yearly) == 1 && c.yearly[0] == span{0, leapDays} || len(c.hours) == 1 && c.hours[0] == span{0, daySeconds}
	return c, nil
}

// apart sorts spans and joins those that touch.
func apart(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []span
	for _, s := range list {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

const dateRemedy = "write a date such as 2026-12-25, or 12-25 for every year, or two of one kind with .. between them"

func (c *Calendar) addDates(list []string) (errs Errors) {
	if len(list) > maxCalendarDates {
		return Errors{{Field: "dates", Value: fmt.Sprint(len(list)), Kind: KindLimit,
			Problem: fmt.Sprintf("a calendar has at most %d dates", maxCalendarDates), Remedy: "use ranges, or several calendars"}}
	}
	for i, text := range list {
		if problem := c.addDate(text); problem != "" {
			errs = append(errs, &FieldError{Field: fmt.Sprintf("dates[%d]", i), Value: shown(text), Kind: KindDate,
				Problem: problem, Remedy: dateRemedy})
		}
	}
	return errs
}

// addDate takes in one date or range and says what is wrong with it.
func (c *Calendar) addDate(text string) (problem string) {
	low, high, is := strings.Cut(text, "..")
	if !is {
		high = low
	}
	from, problem := parseDate(low)
	if problem != "" {
		return problem
	}
	to, problem := parseDate(high)
	switch {
	case problem != "":
		return problem
	case (from.year == 0) != (to.year == 0):
		return "a range has a year at both ends or at neither"
	case from.year == 0:
		first, after := from.ofYear(), to.ofYear()+1
		if first < after {
			c.yearly = append(c.yearly, span{first, after})
		} else { // it passes New Year
			c.yearly = append(c.yearly, span{first, leapDays}, span{0, after})
		}
		return ""
	case from.number() > to.number():
		return "the range ends before it begins"
	}
	c.days = append(c.days, span{from.number(), to.number() + 1})
	return ""
}

// date is a day; year 0 stands for every year.
type date struct {
	year int
	monthDay
}

// number is the day in days since 1970.
func (d date) number() int64 { return dayNumber(d.year, d.month, d.day) }

func parseDate(text string) (d date, problem string) {
	rest := text
	if len(text) == len("2026-12-25") && text[4] == '-' {
		year, ok := digits(text[:4])
		if !ok || year == 0 {
			return d, "it is not a date"
		}
		d.year, rest = year, text[5:]
	}
	if len(rest) != len("12-25") || rest[2] != '-' {
		return d, "it is not a date"
	}
	month, ok1 := digits(rest[:2])
	day, ok2 := digits(rest[3:])
	year := d.year
	if year == 0 {
		year = leapYear // 29 February can be meant, in the years that have one
	}
	switch {
	case !ok1 || !ok2:
		return d, "it is not a date"
	case month < 1 || month > 12:
		return d, fmt.Sprintf("there is no month %02d", month)
	case day < 1 || day > monthDays(year, month):
		return d, fmt.Sprintf("month %02d has no day %02d", month, day)
	}
	d.month, d.day = month, day
	return d, ""
}

// digits reads a number that is written with digits alone.
func digits(s string) (int, bool) {
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

var weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (c *Calendar) addWeekdays(list []string) (errs Errors) {
	for i, text := range list {
		problem := ""
		switch day := slices.Index(weekdayNames, text); {
		case day < 0:
			problem = "it is not a day of the week"
		case c.weekdays>>day&1 == 1:
			problem = "it stands twice"
		default:
			c.weekdays |= 1 << day
		}
		if problem == "" {
			continue
		}
		if errs = append(errs, &FieldError{Field: fmt.Sprintf("weekdays[%d]", i), Value: shown(text), Kind: KindSyntax,
			Problem: problem, Remedy: "write some of mon, tue, wed, thu, fri, sat, sun, each once"}); len(errs) == 10 {
			return errs // Nobody writes more by accident.
		}
	}
	return errs
}

func (c *Calendar) addHours(list []Hours) (errs Errors) {
	if len(list) > maxCalendarHours {
		return Errors{{Field: "hours", Value: fmt.Sprint(len(list)), Kind: KindLimit,
			Problem: fmt.Sprintf("a calendar has at most %d parts of the day", maxCalendarHours), Remedy: "join those that touch"}}
	}
	for i, h := range list {
		from, fromOK := timeOfDay(h.From)
		to, toOK := timeOfDay(h.To)
		refuse := func(field, value, problem string) {
			errs = append(errs, &FieldError{Field: fmt.Sprintf("hours[%d]%s", i, field), Value: shown(value), Kind: KindSyntax,
				Problem: problem, Remedy: `write hours and minutes such as from: "22:00", to: "06:00"; 24:00 is the end of the day`})
		}
		if !fromOK || from == daySeconds {
			refuse(".from", h.From, "it is not a time of day")
		}
		if !toOK {
			refuse(".to", h.To, "it is not a time of day")
		}
		switch {
		case !fromOK || !toOK || from == daySeconds:
		case from == to:
			refuse("", h.From+" to "+h.To, "it is empty")
		case from < to:
			c.hours = append(c.hours, span{from, to})
		default:
			c.hours = append(c.hours, span{from, daySeconds}, span{0, to})
		}
	}
	c.hours = slices.DeleteFunc(c.hours, func(s span) bool { return s.from == s.to }) // up to midnight: to 00:00
	return errs
}

// timeOfDay reads hh:mm as seconds of the day.
func timeOfDay(text string) (int64, bool) {
	if len(text) != len("22:00") || text[2] != ':' {
		return 0, false
	}
	hour, ok1 := digits(text[:2])
	minute, ok2 := digits(text[3:])
	if !ok1 || !ok2 || hour > 24 || minute > 59 || hour == 24 && minute > 0 {
		return 0, false
	}
	return int64(hour)*3600 + int64(minute)*60, true
}
