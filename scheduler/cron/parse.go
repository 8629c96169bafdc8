package cron

import (
	"fmt"
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"
)

// maxExpressionBytes bounds an expression; one that lists every value of every field has some 600.
const maxExpressionBytes = 1024

// macros are the named expressions. Their names are in lower case only, as in every cron.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// field describes one of the six fields of an expression.
type field struct {
	name     string
	min, max int
	names    []string // names[i] stands for min+i
	question bool     // "?" means "*"
	// starMax is where * and N/S end; maxStep is the widest step. The day of the week differs from
	// max in both, because its 7 is its 0 again.
	starMax, maxStep int
	weekday          bool // 7 is 0, also as the end of a range
}

var fields = [6]field{
	{name: "second", min: 0, max: 59, starMax: 59, maxStep: 60},
	{name: "minute", min: 0, max: 59, starMax: 59, maxStep: 60},
	{name: "hour", min: 0, max: 23, starMax: 23, maxStep: 24},
	{name: "day of month", min: 1, max: 31, starMax: 31, maxStep: 31, question: true},
	{name: "month", min: 1, max: 12, starMax: 12, maxStep: 12,
		names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 7, starMax: 6, maxStep: 7, question: true, weekday: true,
		names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

const (
	minuteField = 1
	hourField   = 2
)

// parser is given only what passed the validation here: by itself it panics on "TZ=UTC" and accepts
// lone commas, signs and steps wider than a field.
var parser = robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)

// parse reads one cron expression. Its errors lack only their Field.
func parse(text string) (*expression, []*FieldError) {
	words, wrong := split(text)
	if wrong != nil {
		return nil, []*FieldError{wrong}
	}
	var errs []*FieldError
	for i := range fields {
		normal, wrong := fields[i].check(words[i])
		if wrong != nil {
			errs = append(errs, wrong)
		}
		words[i] = normal
	}
	if errs != nil {
		return nil, errs
	}
	spec, err := parseChecked(strings.Join(words, " "))
	if err != nil {
		return nil, []*FieldError{{Value: shown(text), Kind: KindSyntax, Problem: err.Error(), Remedy: "write it in a simpler form"}}
	}
	e := newExpression(spec, strings.HasPrefix(words[minuteField], "*") || strings.HasPrefix(words[hourField], "*"))
	if !e.possible() {
		return nil, []*FieldError{{Value: shown(text), Kind: KindNever, Problem: "none of its months has such a day, so it would never fire",
			Remedy: "give a day that exists in one of the months"}}
	}
	return e, nil
}

// parseChecked hands a validated expression of six fields to the parser. That the parser fails on
// one all the same is not known to happen; a panic must not take the member with it.
func parseChecked(text string) (spec *robfig.SpecSchedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			spec, err = nil, fmt.Errorf("the parser cannot read it: %v", r)
		}
	}()
	schedule, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the parser cannot read it: %w", err)
	}
	spec, ok := schedule.(*robfig.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("the parser made a %T of it", schedule)
	}
	return spec, nil
}

// split cuts an expression into its six fields, seconds first.
func split(text string) ([]string, *FieldError) {
	refuse := func(kind, problem, remedy string) ([]string, *FieldError) {
		return nil, &FieldError{Value: shown(text), Kind: kind, Problem: problem, Remedy: remedy}
	}
	const example = `write minute, hour, day of month, month and day of week, such as "30 2 * * *"`
	if len(text) > maxExpressionBytes {
		return refuse(KindSyntax, fmt.Sprintf("an expression has at most %d bytes, this has %d", maxExpressionBytes, len(text)),
			"use ranges and steps instead of lists")
	}
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "TZ=") || strings.HasPrefix(trimmed, "CRON_TZ=") {
		return refuse(KindInlineZone, "the zone does not belong into the expression", "put it into the time zone of the schedule")
	}
	if strings.HasPrefix(trimmed, "@") {
		if _, ok := interval(trimmed); ok {
			return refuse(KindEvery, "an interval is not a cron expression", "put it into the every of the schedule, which keeps its phase")
		}
		expanded, ok := macros[trimmed]
		if !ok {
			return refuse(KindUnsupported, "it is not a known name",
				"write @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or five fields")
		}
		trimmed = expanded
	}
	words := strings.Fields(trimmed)
	switch len(words) {
	case 0:
		return refuse(KindSyntax, "it is empty", example)
	case 5:
		return append([]string{"0"}, words...), nil
	case 6:
		return words, nil
	}
	return refuse(KindSyntax, fmt.Sprintf("an expression has five fields, or six with seconds first; this has %d", len(words)), example)
}

// interval cuts "@every 15m" into its duration, and says whether text is of that kind at all.
func interval(text string) (duration string, ok bool) {
	words := strings.Fields(text)
	if len(words) == 0 || words[0] != "@every" {
		return "", false
	}
	rest := strings.TrimSpace(text)[len("@every"):]
	if !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
		return "", true // nothing follows, or on another line
	}
	return strings.TrimSpace(rest), true
}

// check validates one field and returns it as the parser wants it: without 7 for Sunday.
func (f *field) check(text string) (string, *FieldError) {
	items := strings.Split(text, ",")
	for i, item := range items {
		if item == "" {
			return "", f.refuse(text, KindSyntax, "has an empty item in its list", "take the superfluous comma out")
		}
		normal, wrong := f.checkItem(item)
		if wrong != nil {
			return "", wrong
		}
		items[i] = normal
	}
	return strings.Join(items, ","), nil
}

// checkItem validates one item of a list: a value, range or star, with or without step.
func (f *field) checkItem(item string) (string, *FieldError) {
	body, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, ok := number(stepText)
		switch {
		case strings.Contains(stepText, "/"):
			return "", f.refuse(item, KindSyntax, "has more than one step", "write one, such as */5")
		case !ok:
			return "", f.refuse(item, KindSyntax, "has a step that is not a number", "write a number after the /")
		case n == 0:
			return "", f.refuse(item, KindRange, "has a step of 0", "write a step of at least 1")
		}
		step = n
	}
	first, last, wrong := f.limits(item, body, stepped)
	switch {
	case wrong != nil:
		return "", wrong
	case first < f.min || last > f.max:
		return "", f.refuse(item, KindRange, fmt.Sprintf("is outside %d to %d", f.min, f.max), fmt.Sprintf("write values from %d to %d", f.min, f.max))
	case first > last:
		return "", f.refuse(item, KindRange, "is a range that runs backwards",
			fmt.Sprintf("write the smaller value first, or two ranges with a comma for one that goes past %d", f.starMax))
	case step > f.maxStep:
		return "", f.refuse(item, KindStep, "has a step wider than the field, which starts anew each time",
			"list the values, or use every for an interval that does not divide the hour or day")
	}
	if !f.weekday || last != 7 {
		return item, nil
	}
	var days []string // the parser does not know 7
	for day := first; day <= last; day += step {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ","), nil
}

// limits reads what stands before the step: its first and last value.
func (f *field) limits(item, body string, stepped bool) (first, last int, wrong *FieldError) {
	if body == "*" || body == "?" && f.question {
		return f.min, f.starMax, nil
	}
	if body == "?" {
		return 0, 0, f.refuse(item, KindUnsupported, `has a "?", which only the day fields may have`, `write "*"`)
	}
	ends := strings.Split(body, "-")
	if len(ends) > 2 {
		return 0, 0, f.refuse(item, KindSyntax, `has more than one "-"`, "write a range as FIRST-LAST")
	}
	if first, wrong = f.value(item, ends[0]); wrong != nil {
		return 0, 0, wrong
	}
	switch {
	case len(ends) == 2:
		if last, wrong = f.value(item, ends[1]); wrong != nil {
			return 0, 0, wrong
		}
		if f.weekday && first > 0 && strings.EqualFold(ends[1], "sun") {
			last = 7 // sat-sun
		}
	case stepped:
		last = f.starMax
	default:
		last = first
	}
	return first, last, nil
}

// value reads one number or name.
func (f *field) value(item, text string) (int, *FieldError) {
	if n, ok := number(text); ok {
		return n, nil
	}
	lower := strings.ToLower(text)
	for i, name := range f.names {
		if lower == name {
			return f.min + i, nil
		}
	}
	if f.extension(lower) {
		return 0, f.refuse(item, KindUnsupported, "uses L, W, # or H, which are not supported", "list the days or times")
	}
	switch {
	case text == "":
		return 0, f.refuse(item, KindSyntax, "lacks a number", "write a range as FIRST-LAST")
	case f.names != nil:
		return 0, f.refuse(item, KindSyntax, "is neither a number nor a name of three letters",
			fmt.Sprintf("write values from %d to %d, or %s to %s", f.min, f.max, f.names[0], f.names[len(f.names)-1]))
	}
	return 0, f.refuse(item, KindSyntax, "is not a number", fmt.Sprintf("write values from %d to %d", f.min, f.max))
}

// extension says whether text has the form of another scheduler's extension: 15W, L, 5#2, fri#2,
// friL, H(0-7).
func (f *field) extension(lower string) bool {
	rest := strings.TrimLeft(lower, "0123456789")
	for _, name := range f.names {
		if after, ok := strings.CutPrefix(lower, name); ok && f.weekday && (after == "l" || strings.HasPrefix(after, "#")) {
			return true
		}
	}
	return rest != "" && strings.Contains("lwh#", rest[:1])
}

func (f *field) refuse(value, kind, problem, remedy string) *FieldError {
	return &FieldError{Value: shown(value), Kind: kind, Problem: f.name + " " + problem, Remedy: remedy}
}

// number reads one to four ASCII digits: more are a slip of the keyboard in any field, and signs or
// other scripts' digits are refused.
func number(text string) (int, bool) {
	if len(text) < 1 || len(text) > 4 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
