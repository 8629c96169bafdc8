package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// action is a command that has been checked.
type action func(w *world) error

// action checks a command. What it names must exist only when it is played.
func (c Command) action() (action, error) {
	switch c.Verb {
	case "world":
		return c.worldAction()
	case "without":
		return c.withoutAction()
	case "members", "member":
		return c.membersAction()
	case "apply":
		return c.applyAction()
	case "calendar":
		return c.booted(c.calendarAction())
	case "advance", "settle", "show", "etcd":
		return c.booted(c.timeAction())
	case "pause", "resume", "delete", "trigger", "cancel":
		return c.booted(c.userAction())
	case "crash", "restart", "drain", "heal", "deaf", "cut", "revoke", "panic", "slow", "stall", "freeze", "step", "lose", "delay":
		return c.booted(c.faultAction())
	}
	return nil, fmt.Errorf("there is no command %s", c.Verb)
}

// booted makes sure that the members have come up before something happens.
func (c Command) booted(act action, err error) (action, error) {
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		w.boot()
		return act(w)
	}, nil
}

// worldAction sets what the world is like. It comes first.
func (c Command) worldAction() (action, error) {
	a, err := c.arguments(-1, "seed", "lag", "start", "ttl", "grace")
	if err != nil {
		return nil, err
	}
	seed, err1 := parseOr(a.named["seed"], 1, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	from, to, err2 := defaultLag, defaultLag, error(nil)
	if lag := a.named["lag"]; lag != "" {
		from, to, err2 = parseRange(lag)
	}
	start, err3 := parseOr(a.named["start"], defaultEpoch, func(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) })
	ttl, err4 := parseOr(a.named["ttl"], defaultTTL, time.ParseDuration)
	grace, err5 := parseOr(a.named["grace"], defaultGrace, time.ParseDuration)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	return func(w *world) error {
		if w.now > 0 || len(w.members) > 0 {
			return errors.New("it has begun already")
		}
		w.seed, w.lagFrom, w.lagTo, w.epoch, w.ttl, w.grace = seed, from, to, start.UTC().Add(-bootTime), ttl, grace
		w.patient = slices.Contains(a.names, "patient")
		return nil
	}, nil
}

func (c Command) withoutAction() (action, error) {
	if len(c.Args) != 1 || !slices.Contains(Cuts(), Cut(c.Args[0])) {
		return nil, fmt.Errorf("name one of %v", Cuts())
	}
	return func(w *world) error {
		w.without = Cut(c.Args[0])
		return nil
	}, nil
}

// membersAction makes members. Those of the beginning come up before the time 0; a later one joins.
func (c Command) membersAction() (action, error) {
	a, err := c.arguments(-1, "skew", "capacity")
	if err != nil {
		return nil, err
	}
	skew, err1 := parseOr(a.named["skew"], 0, time.ParseDuration)
	capacity, err2 := parseOr(a.named["capacity"], defaultCapacity, strconv.Atoi)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return func(w *world) error {
		for _, name := range a.names {
			if w.member(name) != nil {
				return fmt.Errorf("%s is there already", name)
			}
			m := newMember(w, name)
			m.skew, m.capacity = skew, capacity
			w.members = append(w.members, m)
			if w.now > 0 {
				m.start()
			}
		}
		return nil
	}, nil
}

// bootTime is how long the members have to come up before a history begins.
const bootTime = 20 * time.Second

// boot lets the members come up, which no script wants to read.
func (w *world) boot() {
	if w.now > 0 {
		return
	}
	w.trace.muted = true
	for _, m := range w.members {
		m.start()
		w.advance(time.Second)
	}
	w.advance(bootTime - w.now)
	w.trace.muted = false
}

// applyKeys are what a definition can say in a script.
var applyKeys = []string{
	"by", "every", "origin", "cron", "zone", "at", "start", "end", "jitter", "onLost", "attempts", "catchUp", "window", "deadline",
	"timeout", "history", "runs", "ends", "paused", "exclude",
}

func (c Command) applyAction() (action, error) {
	a, err := c.arguments(-1, applyKeys...)
	if err != nil {
		return nil, err
	}
	if len(a.names) == 0 || len(a.names) > 2 || len(a.names) == 2 && a.names[1] != "stubborn" {
		return nil, errors.New("apply takes one name, and stubborn or not")
	}
	job, err := a.definition()
	if err != nil {
		return nil, err
	}
	return c.booted(func(w *world) error {
		w.apply(job, a.named["by"])
		return nil
	}, nil)
}

// definition reads a job. Its interval is anchored to midnight unless it says otherwise, so that scripts
// can be read.
func (a arguments) definition() (scheduler.Job, error) {
	v := a.named
	j := scheduler.Job{Name: scheduler.JobName{Name: a.names[0]}}
	var errs []error
	duration := func(key string) time.Duration {
		d, err := parseOr(v[key], 0, time.ParseDuration)
		errs = append(errs, err)
		return d
	}
	number := func(key string) int {
		n, err := parseOr(v[key], 0, strconv.Atoi)
		errs = append(errs, err)
		return n
	}
	instant := func(text string) time.Time {
		t, err := parseOr(text, time.Time{}, func(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) })
		errs = append(errs, err)
		return t
	}
	j.Schedule = scheduler.Schedule{
		Every: duration("every"), TimeZone: v["zone"], Start: instant(v["start"]), End: instant(v["end"]), Jitter: duration("jitter"),
	}
	if j.Schedule.Every > 0 {
		if j.Schedule.Origin = instant(v["origin"]); v["origin"] == "" {
			j.Schedule.Origin = defaultEpoch
		}
	}
	if v["exclude"] != "" {
		j.Schedule.Exclude = strings.Split(v["exclude"], ",")
	}
	if v["cron"] != "" {
		j.Schedule.Cron = strings.Split(v["cron"], ";")
	}
	if v["at"] != "" {
		for text := range strings.SplitSeq(v["at"], ",") {
			j.Schedule.At = append(j.Schedule.At, instant(text))
		}
	}
	j.Policy = scheduler.Policy{
		OnLost: scheduler.OnLost(v["onLost"]), StartDeadline: duration("deadline"), Timeout: duration("timeout"),
		Retry:   scheduler.Retry{MaxAttempts: number("attempts")},
		CatchUp: scheduler.CatchUp{Mode: scheduler.CatchUpMode(v["catchUp"]), Window: duration("window")},
	}
	j.HistoryLimit, j.Paused = number("history"), v["paused"] == "true"
	j.Run.Handler = &scheduler.HandlerCall{Name: "work", Payload: a.payload()}
	if v["runs"] != "" {
		_, _, err := parseRange(v["runs"])
		errs = append(errs, err)
	}
	if ends := v["ends"]; ends != "" && !slices.Contains([]string{"ok", "fail", "mixed"}, ends) {
		errs = append(errs, fmt.Errorf("ends=%s is none of ok, fail, mixed", ends))
	}
	j = j.WithDefaults()
	if problems := j.Validate(); len(problems) > 0 {
		errs = append(errs, scheduler.FieldErrors(problems))
	}
	if _, err := cron.LoadZone(j.Schedule.TimeZone); err != nil {
		errs = append(errs, err)
	}
	return j, errors.Join(errs...)
}

// payload is how the attempts behave.
func (a arguments) payload() string {
	var words []string
	for _, key := range []string{"runs", "ends"} {
		if a.named[key] != "" {
			words = append(words, key+"="+a.named[key])
		}
	}
	if len(a.names) == 2 {
		words = append(words, "stubborn")
	}
	return strings.Join(words, " ")
}

// timeAction lets time pass, or shows where things stand.
func (c Command) timeAction() (action, error) {
	a, err := c.arguments(-1)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Verb == "settle" && len(a.names) == 0:
		return func(w *world) error {
			took := w.settle()
			w.tell("—", "settled after %s", took.Round(time.Second))
			return nil
		}, nil
	case c.Verb == "show":
		return func(w *world) error {
			for _, name := range a.names {
				j := w.find(name)
				if j == nil {
					return fmt.Errorf("there is no job %s", name)
				}
				w.tell("—", "%s: %s", name, w.summary(j))
			}
			return nil
		}, nil
	case c.Verb == "etcd" && len(a.names) == 1 && (a.names[0] == "down" || a.names[0] == "up"):
		return func(w *world) error {
			w.setEtcd(a.names[0] == "up")
			return nil
		}, nil
	case c.Verb == "advance" && len(a.names) == 1:
		d, err := time.ParseDuration(a.names[0])
		if err != nil || d < 0 {
			return nil, fmt.Errorf("advance takes a duration: %w", err)
		}
		return func(w *world) error {
			w.advance(d)
			return nil
		}, nil
	}
	return nil, fmt.Errorf("%s does not take %v", c.Verb, a.names)
}

// setEtcd takes etcd's leader away, or brings one back.
func (w *world) setEtcd(up bool) {
	switch {
	case up && w.etcd.down:
		w.tell("etcd", "has a leader again")
		w.etcd.recover()
		w.trouble(requestTimeout)
	case !up && !w.etcd.down:
		w.tell("etcd", "has no leader")
		w.count("etcd down")
		w.etcd.down = true
	}
}

// userAction is what a user asks for.
func (c Command) userAction() (action, error) {
	a, err := c.arguments(1, "by")
	if err != nil {
		return nil, err
	}
	by := a.named["by"]
	return func(w *world) error {
		j := w.find(a.names[0])
		if j == nil {
			return fmt.Errorf("there is no job %s", a.names[0])
		}
		switch c.Verb {
		case "delete":
			w.remove(j, by)
		case "trigger":
			w.trigger(j, by)
		case "cancel":
			w.cancel(j, by)
		default:
			w.pause(j, by, c.Verb == "pause")
		}
		return nil
	}, nil
}

// parseOr reads a value that may be left out.
func parseOr[T any](text string, otherwise T, parse func(string) (T, error)) (T, error) {
	if text == "" {
		return otherwise, nil
	}
	return parse(text)
}

// parseRange reads a duration, or two with .. between them.
func parseRange(text string) (from, to time.Duration, err error) {
	low, high, is := strings.Cut(text, "..")
	if !is {
		high = low
	}
	from, err1 := time.ParseDuration(low)
	to, err2 := time.ParseDuration(high)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if from < 0 || to < from {
		return 0, 0, fmt.Errorf("%s is no range", text)
	}
	return from, to, nil
}
