package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Script is a history as commands: what the world is, what happens to it, and how much time passes in
// between. Everything that a history depends on is in it. doc.go says how to write one.
type Script []Command

// Command is one line of a script: a verb and its arguments.
type Command struct {
	Verb string
	Args []string // names and key=value pairs, without quotes
}

// Parse reads a script and checks every line of it. Empty lines and those that begin with # are left out.
func Parse(text string) (Script, error) {
	var s Script
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		words, err := split(l)
		if err == nil {
			c := Command{words[0], words[1:]}
			if _, err = c.action(); err == nil {
				s = append(s, c)
				continue
			}
		}
		return nil, fmt.Errorf("line %d: %s: %w", i+1, l, err)
	}
	return s, nil
}

// String is the script as Parse reads it.
func (s Script) String() string {
	var b strings.Builder
	for _, c := range s {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String is the command as Parse reads it.
func (c Command) String() string {
	words := []string{c.Verb}
	for _, a := range c.Args {
		if strings.ContainsAny(a, " \t") {
			key, value, _ := strings.Cut(a, "=")
			a = key + `="` + value + `"`
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// split cuts a line into words at spaces that are not between quotes.
func split(l string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted := false
	for _, r := range l {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(r)
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words, nil
}

// arguments are those of one command: names in order, and what is written as key=value.
type arguments struct {
	names []string
	named map[string]string
}

// arguments reads those of a command, of which keys may be given.
func (c Command) arguments(names int, keys ...string) (arguments, error) {
	a := arguments{named: map[string]string{}}
	for _, arg := range c.Args {
		key, value, pair := strings.Cut(arg, "=")
		switch {
		case !pair:
			a.names = append(a.names, arg)
		case !slices.Contains(keys, key):
			return a, fmt.Errorf("%s has no %s=; it has %s", c.Verb, key, strings.Join(keys, "= "))
		default:
			a.named[key] = value
		}
	}
	if names >= 0 && len(a.names) != names {
		return a, fmt.Errorf("%s takes %d names, not %d", c.Verb, names, len(a.names))
	}
	return a, nil
}

// Report is what came of a history.
type Report struct {
	// Digest is a hash of every line of the history: equal digests are equal histories.
	Digest uint64
	Lines  int
	// Tail is the newest lines, for a reader of a failure.
	Tail []string
	// Violations are the promises that were broken, in order. Unless the script says "world patient" a
	// history ends with the first.
	Violations []Violation
	// Latest is how late an instant was decided at most, faults included.
	Latest time.Duration
	// Count says how often each thing happened.
	Count map[string]int
}

// History is a script that is being played.
type History struct{ world *world }

// Begin begins an empty history. With trace every line of it is kept until Trace takes it.
func Begin(trace bool) *History {
	h := &History{newWorld()}
	h.world.trace.on = trace
	return h
}

// Do plays one command.
func (h *History) Do(c Command) error {
	act, err := c.action()
	if err == nil && !h.world.stopped() {
		err = act(h.world)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Trace is what has happened since it was last called, a line each.
func (h *History) Trace() string { return h.world.trace.take() }

// Report is what has come of the history so far.
func (h *History) Report() Report {
	w := h.world
	count := maps.Clone(w.counts)
	count["decided"] = int(w.oracle.decided)
	return Report{
		Digest: w.trace.hash, Lines: w.trace.lines, Tail: w.trace.newest(), Violations: w.oracle.violations,
		Latest: w.latest, Count: count,
	}
}

// Run plays a script from beginning to end.
func (s Script) Run() (Report, error) {
	h := Begin(false)
	for _, c := range s {
		if err := h.Do(c); err != nil {
			return h.Report(), err
		}
	}
	return h.Report(), nil
}
