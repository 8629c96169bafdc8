package store

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumcron/quorumcron/scheduler"
)

// DefaultPrefix is where a cluster's keys live when nothing else is said.
const DefaultPrefix = "/quorumcron/"

// keys makes and reads every key, all below one prefix that ends with a slash. The formats are fixed:
// members of two versions work on the same keys.
//
//	meta                                 rules/head            rules/assignment/<pool>
//	rules/calendars/<ns>/<name>
//	election/dispatcher/…                members/<member>      pools/<id>
//	jobs/<shard>/<ns>/<job>              state/<shard>/<ns>/<job>
//	triggers/<shard>/<ns>/<job>/<id>     marks/<shard>
//	locks/<uid>/<firing>/<part>          runs/<uid>/<slot>
//	queue/<member>/cancel/<uid>/<firing> requests/<ns>/<id>
//
// A shard is two hex digits, a part and a slot three decimal digits at least, and <firing> is what
// Firing.Key returns. No element holds a slash: names, ids and uids are checked before they get here.
type keys string

func (k keys) meta() string                    { return string(k) + "meta" }
func (k keys) rules() string                   { return string(k) + "rules/" }
func (k keys) head() string                    { return string(k) + "rules/head" }
func (k keys) assignment(pool string) string   { return string(k) + "rules/assignment/" + pool }
func (k keys) calendars() string               { return string(k) + "rules/calendars/" }
func (k keys) pools() string                   { return string(k) + "pools/" }
func (k keys) pool(id string) string           { return k.pools() + id }
func (k keys) marks() string                   { return string(k) + "marks/" }
func (k keys) mark(s scheduler.Shard) string   { return k.marks() + hex(s) }
func (k keys) allJobs() string                 { return string(k) + "jobs/" }
func (k keys) allTriggers() string             { return string(k) + "triggers/" }
func (k keys) jobs(s scheduler.Shard) string   { return k.allJobs() + hex(s) + "/" }
func (k keys) states(s scheduler.Shard) string { return string(k) + "state/" + hex(s) + "/" }

func (k keys) shardTriggers(s scheduler.Shard) string { return k.allTriggers() + hex(s) + "/" }

func (k keys) job(s scheduler.Shard, n scheduler.JobName) string   { return k.jobs(s) + n.String() }
func (k keys) state(s scheduler.Shard, n scheduler.JobName) string { return k.states(s) + n.String() }

func (k keys) triggers(s scheduler.Shard, n scheduler.JobName) string {
	return k.shardTriggers(s) + n.String() + "/"
}

func (k keys) trigger(s scheduler.Shard, n scheduler.JobName, id string) string {
	return k.triggers(s, n) + id
}

func (k keys) allLocks() string                { return string(k) + "locks/" }
func (k keys) locks(uid string) string         { return k.allLocks() + uid + "/" }
func (k keys) runs(uid string) string          { return string(k) + "runs/" + uid + "/" }
func (k keys) run(uid string, slot int) string { return k.runs(uid) + threeDigits(slot) }

func (k keys) lock(f scheduler.Firing, part int) string {
	return k.locks(f.UID) + f.Key() + "/" + threeDigits(part)
}

func (k keys) cancels(member string) string { return string(k) + "queue/" + member + "/cancel/" }

func (k keys) cancel(member string, f scheduler.Firing) string {
	return k.cancels(member) + f.UID + "/" + f.Key()
}

func (k keys) requests() string             { return string(k) + "requests/" }
func (k keys) request(ns, id string) string { return k.requests() + ns + "/" + id }

func hex(s scheduler.Shard) string { return fmt.Sprintf("%02x", uint8(s)) }
func threeDigits(n int) string     { return fmt.Sprintf("%03d", n) }

func (k keys) calendar(n scheduler.CalendarName) string { return k.calendars() + n.String() }

// below is what remains of key below the given folder, or false when it lies elsewhere.
func (k keys) below(folder, key string) (string, bool) {
	return strings.CutPrefix(key, string(k)+folder)
}

// short is the key without the prefix, as people are shown it.
func (k keys) short(key string) string { return strings.TrimPrefix(key, string(k)) }

// parseShard reads the shard at the start of rest and returns what follows its slash.
func parseShard(rest string) (scheduler.Shard, string, bool) {
	digits, rest, found := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(digits, 16, 8)
	if err != nil || len(digits) != 2 || digits != strings.ToLower(digits) || !found {
		return 0, "", false
	}
	return scheduler.Shard(n), rest, true
}

// parseNamed reads <folder>/<shard>/<ns>/<job>, the form of definitions and states.
func (k keys) parseNamed(folder, key string) (s scheduler.Shard, n scheduler.JobName, ok bool) {
	rest, ok := k.below(folder, key)
	if !ok {
		return 0, n, false
	}
	if s, rest, ok = parseShard(rest); !ok {
		return 0, n, false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return 0, n, false
	}
	return s, scheduler.JobName{Namespace: parts[0], Name: parts[1]}, true
}

func (k keys) parseJob(key string) (scheduler.Shard, scheduler.JobName, bool) {
	return k.parseNamed("jobs/", key)
}

func (k keys) parseState(key string) (scheduler.Shard, scheduler.JobName, bool) {
	return k.parseNamed("state/", key)
}

func (k keys) parseTrigger(key string) (s scheduler.Shard, n scheduler.JobName, id string, ok bool) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 || i == len(key)-1 {
		return 0, n, "", false
	}
	s, n, ok = k.parseNamed("triggers/", key[:i])
	return s, n, key[i+1:], ok
}

func (k keys) parseMark(key string) (scheduler.Shard, bool) {
	rest, ok := k.below("marks/", key)
	if !ok {
		return 0, false
	}
	s, after, ok := parseShard(rest + "/")
	return s, ok && after == ""
}

// parseLock reads a lock's key.
func (k keys) parseLock(key string) (f scheduler.Firing, part int, ok bool) {
	rest, ok := k.below("locks/", key)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return f, 0, false
	}
	f, err := scheduler.ParseFiring(parts[0] + parts[1])
	if err != nil || f.UID != parts[0] {
		return scheduler.Firing{}, 0, false
	}
	part, ok = parseThreeDigits(parts[2])
	return f, part, ok
}

func (k keys) parseCalendar(key string) (n scheduler.CalendarName, ok bool) {
	rest, ok := k.below("rules/calendars/", key)
	ns, name, found := strings.Cut(rest, "/")
	return scheduler.CalendarName{Namespace: ns, Name: name}, ok && found && ns != "" && name != "" && !strings.Contains(name, "/")
}

func (k keys) parseRun(key string) (uid string, slot int, ok bool) {
	rest, ok := k.below("runs/", key)
	uid, digits, found := strings.Cut(rest, "/")
	if !ok || !found || uid == "" {
		return "", 0, false
	}
	slot, ok = parseThreeDigits(digits)
	return uid, slot, ok
}

func (k keys) parseCancel(key string) (member string, f scheduler.Firing, ok bool) {
	rest, ok := k.below("queue/", key)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 4 || parts[1] != "cancel" {
		return "", f, false
	}
	f, err := scheduler.ParseFiring(parts[2] + parts[3])
	return parts[0], f, err == nil && f.UID == parts[2]
}

func (k keys) parseRequest(key string) (ns, id string, ok bool) {
	rest, ok := k.below("requests/", key)
	ns, id, found := strings.Cut(rest, "/")
	return ns, id, ok && found && ns != "" && id != "" && !strings.Contains(id, "/")
}

func parseThreeDigits(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && s == threeDigits(n)
}

// argument is a job as an advised command names it: with its namespace, for the command would take another.
func argument(n scheduler.JobName) string { return n.Name + " --namespace " + n.Namespace }
