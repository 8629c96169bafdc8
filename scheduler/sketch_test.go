package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The tables of this package describe a job in the state that a rule is about, and say what must come
// of it as one line of text: the decision as it stands in a trace, and the state that it writes in
// short. Times are of 1 March 2026, written 10:01:00.

const uid = "u"

// clockTime is the instant written 10:01:00 or 10:01:00.5 on the day of the tables; "+" before it is
// the day after, "-" the day before.
func clockTime(t *testing.T, s string) time.Time {
	t.Helper()
	day := 1
	switch s[0] {
	case '+':
		day, s = 2, s[1:]
	case '-':
		day, s = 0, s[1:]
	}
	at, err := time.Parse("15:04:05", s)
	if err != nil {
		t.Fatalf("time %q in a table: %v", s, err)
	}
	return time.Date(2026, 3, day, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
}

func short(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	s := at.Format("15:04:05.999999999")
	if d := at.Day(); d != 1 {
		s = fmt.Sprintf("%d.%s", d, s)
	}
	return s
}

// elapsedAt is the reading of the elapsed clock when the wall clock reads at.
func elapsedAt(at time.Time) time.Duration { return reading(at).Elapsed }

// everyMinute is the job of most tables: due at each full minute, created at 10:00:30.
func everyMinute() Job {
	return Job{
		Name: JobName{"default", "job"}, UID: uid, Generation: 1, Revision: 40,
		Schedule: Schedule{Cron: []string{"* * * * *"}},
		Run:      Executable{Handler: &HandlerCall{Name: "h"}},
	}.WithDefaults()
}

// situation is what a table row starts from.
func situation(t *testing.T, job func(*Job)) View {
	t.Helper()
	j := everyMinute()
	if job != nil {
		job(&j)
	}
	v := View{Job: j, State: NewState(j, epoch), StateRevision: 50, Facts: map[Firing]Fact{}, Room: true}
	if !j.Tombstone() {
		v.Timetable = compile(t, j.Schedule)
	}
	return v
}

// minute is the firing of an instant of the tables.
func minute(t *testing.T, s string) Firing {
	t.Helper()
	return At(uid, clockTime(t, s))
}

// inFlight puts an attempt of an instant into the state, granted at revision token with its lock seen.
func inFlight(t *testing.T, v *View, instant string, attempt int, token int64) {
	t.Helper()
	addEntry(v, minute(t, instant), attempt, token, clockTime(t, instant))
	v.State.Cursor = clockTime(t, instant)
}

func addEntry(v *View, f Firing, attempt int, token int64, due time.Time) {
	e := Entry{
		Firing: f, Attempt: attempt, Generation: 1, Slot: v.State.takeSlot(v.Job), Member: "n1", Nonce: "x",
		Token: token, Hold: 15 * time.Second, Granted: due, Due: due,
	}
	for n := 1; n < attempt; n++ {
		e.Past = append(e.Past, lostLine(n))
	}
	v.State.Entries = append(v.State.Entries, e)
	v.Facts[f] = Fact{Attempt: attempt, Lock: token}
}

func lostLine(n int) Attempt {
	return Attempt{Number: n, Token: int64(n), Member: "n0", Verdict: Lost, Reason: ReasonMemberLost}
}

// owed puts a pending retry into the state.
func owed(t *testing.T, v *View, instant string, attempt int) {
	t.Helper()
	r := PendingRetry{Firing: minute(t, instant), Attempt: attempt, Slot: v.State.takeSlot(v.Job), Generation: 1, Due: clockTime(t, instant)}
	for n := 1; n < attempt; n++ {
		r.Past = append(r.Past, lostLine(n))
	}
	v.State.Retries = append(v.State.Retries, r)
	v.State.Cursor = clockTime(t, instant)
}

// gone says that the lock of an entry was seen gone, without a record, since a moment.
func gone(t *testing.T, v *View, f Firing, since string) {
	t.Helper()
	v.Facts[f] = Fact{Attempt: v.Facts[f].Attempt, GoneSince: elapsedAt(clockTime(t, since))}
}

// recorded says that the record of an entry's end was seen in its slot since a moment.
func recorded(t *testing.T, v *View, f Firing, verdict Verdict, why Reason, since string) {
	t.Helper()
	for _, e := range v.State.Entries {
		if e.Firing == f {
			run := recordOf(v.Job, e, verdict, why)
			v.Facts[f] = Fact{Attempt: e.Attempt, Record: &run, RecordedSince: elapsedAt(clockTime(t, since))}
		}
	}
}

// waiting adds a trigger that was requested at a moment.
func waiting(t *testing.T, v *View, id, requested string) {
	t.Helper()
	v.Triggers = append(v.Triggers, Trigger{ID: id, Revision: int64(60 + len(v.Triggers)), Requested: clockTime(t, requested)})
}

// answer is a plan in one line.
func answer(p Plan) string {
	if p.Decision != nil {
		return strings.ReplaceAll(strings.ReplaceAll(p.Decision.String(), "2026-03-01T", ""), "default/job ", "")
	}
	s := "wake " + short(p.Wake)
	if p.WakeElapsed != 0 {
		s += " elapsed " + short(epoch.Add(p.WakeElapsed-elapsedAt(epoch)))
	}
	return s
}

// sketch is a state in one line. Empty parts are left out.
func sketch(s State) string {
	parts := []string{"cursor " + short(s.Cursor)}
	if b := s.Backlog; b != nil {
		parts = append(parts, fmt.Sprintf("backlog %s…%s ×%d", short(b.First), short(b.Last), b.Count))
	}
	for _, e := range s.Entries {
		parts = append(parts, fmt.Sprintf("entry %s #%d slot %d token %d", key(e.Firing), e.Attempt, e.Slot, e.Token))
	}
	for _, r := range s.Retries {
		parts = append(parts, fmt.Sprintf("owes %s #%d slot %d", key(r.Firing), r.Attempt, r.Slot))
	}
	for _, r := range s.Ranges {
		what := fmt.Sprintf("%s…%s ×%d", short(r.First), short(r.Last), r.Count)
		if r.Trigger != "" {
			what = "+" + r.Trigger
		}
		parts = append(parts, fmt.Sprintf("range %s %s(%s)", what, r.Verdict, r.Reason))
	}
	for _, c := range s.Counters {
		parts = append(parts, fmt.Sprintf("count %s(%s) %d", c.Verdict, c.Reason, c.Count))
	}
	return strings.Join(parts, "; ")
}

func key(f Firing) string {
	if f.Manual() {
		return "+" + f.Trigger
	}
	return "@" + short(f.Instant())
}

// planRow is one row of a table about PlanJob.
type planRow struct {
	name  string // a sentence
	job   func(*Job)
	view  func(*testing.T, *View)
	now   string
	want  string // answer
	state string // sketch of what is written; "" when nothing is, or it is not the point
}

func checkPlans(t *testing.T, rows []planRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			v := situation(t, row.job)
			if row.view != nil {
				row.view(t, &v)
			}
			p := PlanJob(v, reading(clockTime(t, row.now)))
			if got := answer(p); got != row.want {
				t.Errorf("at %s of %s\n got %s\nwant %s", row.now, sketch(v.State), got, row.want)
			}
			if row.state == "" {
				return
			}
			if p.Decision == nil {
				t.Fatalf("nothing is written; want %s", row.state)
			}
			if got := sketch(p.Decision.Next); got != row.state {
				t.Errorf("written from %s\n got %s\nwant %s", sketch(v.State), got, row.state)
			}
		})
	}
}
