package sim

import (
	"slices"
	"strings"
	"time"
)

// mostTrials bounds how often a script is played while it is being shrunk.
const mostTrials = 4000

// Shrink makes a script that breaks a promise as short as it can: fewer jobs, members, faults and
// requests, a shorter span, simpler definitions. What comes back breaks a promise of the same kind. A
// script that breaks none comes back as it is.
func Shrink(s Script) Script {
	r, err := s.Run()
	if err != nil || len(r.Violations) == 0 {
		return s
	}
	k := &shrinker{kind: r.Violations[0].Kind, best: s}
	k.best = k.ended(s)
	k.jobs(r.Violations[0].Job)
	for before := ""; before != k.best.String() && k.trials < mostTrials; {
		before = k.best.String()
		k.drop()
		k.members()
		k.simplify()
		k.hurry()
	}
	return tidy(k.best)
}

// tidy says the same with fewer lines.
func tidy(s Script) Script {
	var out Script
	for _, c := range s {
		n := len(out)
		switch {
		case c.Verb == "world" && len(c.Args) == 0:
		case c.Verb == "member" && len(c.Args) == 1 && n > 0 && out[n-1].Verb == "members":
			out[n-1].Args = append(out[n-1].Args, c.Args[0])
		case c.Verb == "member" && len(c.Args) == 1:
			out = append(out, Command{"members", slices.Clone(c.Args)})
		default:
			out = append(out, c)
		}
	}
	return out
}

type shrinker struct {
	kind   string
	best   Script
	trials int
}

// try keeps a shorter script if it breaks the same promise.
func (k *shrinker) try(s Script) bool {
	if k.trials >= mostTrials {
		return false
	}
	k.trials++
	r, err := s.Run()
	if err != nil || len(r.Violations) == 0 || r.Violations[0].Kind != k.kind {
		return false
	}
	k.best = s
	return true
}

// ended is the script up to the moment at which it breaks the promise.
func (k *shrinker) ended(s Script) Script {
	h := Begin(false)
	var out Script
	for _, c := range s {
		before := h.world.now
		if h.Do(c) != nil {
			return s
		}
		if h.world.stopped() {
			if took := h.world.now - max(before, bootTime); took > 0 {
				c = Command{"advance", []string{text(took)}}
			}
			return append(out, c)
		}
		out = append(out, c)
	}
	return s
}

// setting says whether a command makes the world rather than happens in it.
func setting(c Command) bool {
	return slices.Contains([]string{"world", "without", "member", "members"}, c.Verb)
}

// about says whether a command is about a job.
func about(c Command) (job string, is bool) {
	switch c.Verb {
	case "apply", "pause", "resume", "delete", "trigger", "cancel":
		return c.Args[0], true
	}
	return "", false
}

// jobs takes out every job that is not needed. The one whose promise is broken is often enough.
func (k *shrinker) jobs(broken string) {
	without := func(s Script, gone func(string) bool) Script {
		return merged(slices.DeleteFunc(slices.Clone(s), func(c Command) bool {
			job, is := about(c)
			return is && gone(job)
		}))
	}
	if k.try(without(k.best, func(job string) bool { return job != broken })) {
		return
	}
	var names []string
	for _, c := range k.best {
		if job, is := about(c); is && !slices.Contains(names, job) {
			names = append(names, job)
		}
	}
	for size := (len(names) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(names); {
			some := names[i:min(i+size, len(names))]
			if k.try(without(k.best, func(job string) bool { return slices.Contains(some, job) })) {
				names = slices.Delete(names, i, i+len(some))
				continue
			}
			i += size
		}
	}
}

// drop takes out commands, many at a time first.
func (k *shrinker) drop() {
	for size := len(k.best) / 2; size > 0; size /= 2 {
		for i := len(k.best) - size; i >= 0; i -= size {
			if i+size > len(k.best) {
				continue
			}
			some := k.best[i : i+size]
			if !slices.ContainsFunc(some, removable) {
				continue
			}
			rest := slices.Clone(k.best[:i])
			for _, c := range some {
				if !removable(c) {
					rest = append(rest, c)
				}
			}
			k.try(merged(append(rest, k.best[i+size:]...)))
		}
	}
}

// removable says whether a command may be left out by itself: time is made shorter elsewhere.
func removable(c Command) bool { return !setting(c) && c.Verb != "advance" }

// merged joins advances that follow one another.
func merged(s Script) Script {
	var out Script
	for _, c := range s {
		if n := len(out); n > 0 && c.Verb == "advance" && out[n-1].Verb == "advance" {
			out[n-1] = Command{"advance", []string{text(duration(out[n-1]) + duration(c))}}
			continue
		}
		out = append(out, c)
	}
	return out
}

// duration is how long a command takes.
func duration(c Command) time.Duration {
	d, _ := time.ParseDuration(c.Args[0])
	return d
}

// members takes out members, with everything that is said about them.
func (k *shrinker) members() {
	for _, c := range slices.Clone(k.best) {
		if c.Verb != "member" {
			continue
		}
		name := c.Args[0]
		k.try(merged(slices.DeleteFunc(slices.Clone(k.best), func(c Command) bool {
			_, is := about(c)
			return !is && len(c.Args) > 0 && c.Args[0] == name
		})))
	}
}

// simplify takes out what definitions and settings say beyond what is needed.
func (k *shrinker) simplify() {
	for i := 0; i < len(k.best); i++ {
		for n := len(k.best[i].Args) - 1; n >= 0; n-- {
			c := k.best[i]
			if c.Verb == "advance" || n >= len(c.Args) {
				continue
			}
			for _, simpler := range simplerArgs(c, n) {
				s := slices.Clone(k.best)
				s[i] = Command{c.Verb, simpler}
				if k.try(s) {
					break
				}
			}
		}
	}
}

// simplerArgs are ways to say less in one argument of a command: to leave it out, or to round it.
func simplerArgs(c Command, n int) [][]string {
	var ways [][]string
	arg := c.Args[n]
	key, value, pair := strings.Cut(arg, "=")
	if pair || arg == "stubborn" {
		ways = append(ways, slices.Delete(slices.Clone(c.Args), n, n+1))
	}
	prefix := ""
	if pair {
		prefix = key + "="
	} else {
		value = arg
	}
	low, _, _ := strings.Cut(value, "..")
	d, err := time.ParseDuration(low)
	if err != nil {
		return ways
	}
	for _, unit := range []time.Duration{time.Minute, 10 * time.Second, time.Second} {
		for _, rounded := range []time.Duration{d.Round(unit), d.Truncate(unit) + unit} {
			if rounded > 0 && prefix+text(rounded) != arg {
				args := slices.Clone(c.Args)
				args[n] = prefix + text(rounded)
				if len(args[n]) < len(arg) {
					ways = append(ways, args)
				}
			}
		}
	}
	return ways
}

// hurry makes the times in between shorter and rounder.
func (k *shrinker) hurry() {
	for i := 0; i < len(k.best); i++ {
		for more := true; more && k.best[i].Verb == "advance"; {
			more = false
			d := duration(k.best[i])
			for _, shorter := range []time.Duration{0, d / 8, d / 2, d * 3 / 4, d - time.Hour, d - 10*time.Minute, d - time.Minute, d - 10*time.Second, d - time.Second} {
				if shorter < 0 || shorter >= d {
					continue
				}
				for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond} {
					if k.hurried(i, shorter.Truncate(unit)) {
						more = true
						break
					}
				}
				if more {
					break
				}
			}
		}
		if i < len(k.best) && k.best[i].Verb == "advance" {
			d := duration(k.best[i])
			for _, unit := range []time.Duration{time.Minute, 10 * time.Second, time.Second, 100 * time.Millisecond} {
				if r := d.Truncate(unit); r > 0 && r != d && (k.hurried(i, r) || k.hurried(i, r+unit)) {
					break
				}
			}
		}
	}
}

// hurried tries another length of an advance, or to do without it.
func (k *shrinker) hurried(i int, d time.Duration) bool {
	s := slices.Clone(k.best)
	if d <= 0 {
		s = merged(slices.Delete(s, i, i+1))
		return i < len(s) && k.try(s)
	}
	s[i] = Command{"advance", []string{text(d)}}
	return k.try(s)
}
