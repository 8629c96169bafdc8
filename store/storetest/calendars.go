package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
	"github.com/quorumcron/quorumcron/store"
)

func calendarTests() []test {
	return []test{
		{"ACalendarIsCreatedChangedAndLeftAlone", aCalendarIsCreatedChangedAndLeftAlone},
		{"NothingIsClaimedUnderAnOlderCalendar", nothingIsClaimedUnderAnOlderCalendar},
		{"RulesBringCalendars", rulesBringCalendars},
		{"AJobNamesCalendarsThatAreThere", aJobNamesCalendarsThatAreThere},
		{"BooksAreClosedUnderTheCalendars", booksAreClosedUnderTheCalendars},
		{"ACalendarInUseIsNotDeleted", aCalendarInUseIsNotDeleted},
		{"ACalendarThatAnUnreadableJobMayNameIsNotDeleted", aCalendarThatAnUnreadableJobMayName},
		{"ADeletionThatWasCutShortGoesOn", aDeletionThatWasCutShort},
		{"ACalendarHasAnEditToken", aCalendarHasAnEditToken},
		{"ACalendarIsRememberedForADay", aCalendarIsRememberedForADay},
		{"ADamagedCalendarIsRepairedByAnApply", aDamagedCalendarIsRepaired},
		{"FieldsOfANewerMemberSurviveInCalendars", fieldsOfANewerMemberSurviveInCalendars},
		{"CalendarsAreListedByNamespaceAndName", calendarsAreListed},
		{"ThereIsALimitOfCalendars", thereIsALimitOfCalendars},
	}
}

func calendarNamed(name string) scheduler.CalendarName {
	return scheduler.CalendarName{Namespace: "default", Name: name}
}

// closing is a calendar that excludes a part of each day.
func closing(name, from, to string) scheduler.Calendar {
	return scheduler.NewCalendar(calendarNamed(name), "", cron.CalendarSpec{Hours: []cron.Hours{{From: from, To: to}}})
}

func (w *world) applyCalendar(c scheduler.Calendar, now time.Time) scheduler.CalendarEdit {
	w.Helper()
	e, err := w.store.ApplyCalendar(w.ctx, store.CalendarRequest{Name: c.Name, Now: at(now)}, c)
	w.must(err)
	return e
}

func naming(calendars ...string) func(*scheduler.Job) {
	return func(j *scheduler.Job) { j.Schedule.Exclude = calendars }
}

func aCalendarIsCreatedChangedAndLeftAlone(w *world) {
	created := w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	read, err := w.store.Calendar(w.ctx, calendarNamed("night"))
	w.must(err)
	if created.Change != scheduler.Created || read.Revision != created.Calendar.Revision || !read.Present().Since.Equal(noon) || !read.Created.Equal(noon) {
		w.Errorf("got %+v and then %+v", created, read)
	}
	before := w.footprint()
	if same := w.applyCalendar(closing("night", "22:00", "06:00"), noon.Add(time.Hour)); same.Change != scheduler.Unchanged || w.footprint() != before {
		w.Errorf("the same again: got %+v at %v (was %v), want nothing written", same, w.footprint(), before)
	}
	w.applyCalendar(closing("night", "23:00", "05:00"), noon.Add(time.Hour))
	read, err = w.store.Calendar(w.ctx, calendarNamed("night"))
	w.must(err)
	if n := len(read.Versions); n != 2 || !read.Present().Since.Equal(noon.Add(time.Hour)) || read.Versions[0].Excludes.Hours[0].From != "22:00" {
		w.Errorf("after a change: got %+v, want both versions", read)
	}
	bad := closing("night", "25:00", "06:00")
	_, err = w.store.ApplyCalendar(w.ctx, store.CalendarRequest{Name: bad.Name, Now: at(noon)}, bad)
	w.wantErr("an invalid one", err, scheduler.ErrInvalid)
}

func nothingIsClaimedUnderAnOlderCalendar(w *world) {
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	r := w.apply(job("a", naming("night")), noon)
	claim := w.begin(r, scheduler.At(r.Job.UID, noon.Add(time.Minute)), w.lease(), "n")
	w.applyCalendar(closing("night", "12:00", "13:00"), noon.Add(time.Second))
	out, err := w.store.Claim(w.ctx, claim)
	w.refused("a claim under an older calendar", out, err)
	if !out.RulesMoved {
		w.Errorf("got %+v, want it refused because the rules have moved", out)
	}
}

func rulesBringCalendars(w *world) {
	deliveries := make(chan store.Rules, 16) // more than there are
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.store.FollowRules(ctx, func(r store.Rules) { deliveries <- r }) }()
	for len((<-deliveries).Calendars) != 0 {
	}
	edit := w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	r := <-deliveries
	if got := r.Calendars[calendarNamed("night")]; r.Revision != edit.Calendar.Revision || got.Revision != r.Revision || len(got.Versions) != 1 {
		w.Errorf("got %+v, want the calendar at revision %d", r, edit.Calendar.Revision)
	}
	w.must(w.store.DeleteCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)}))
	for r = range deliveries {
		if got, there := r.Calendars[calendarNamed("night")]; !there {
			break
		} else if !got.Deleting {
			w.Errorf("got %+v, want it marked before it goes", got)
		}
	}
	stop()
	<-ended
}

func aJobNamesCalendarsThatAreThere(w *world) {
	w.applyCalendar(closing("holidays", "22:00", "06:00"), noon)
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: job("a", naming("night", "holidys", "elsewhere")), Now: at(noon)})
	var fields scheduler.FieldErrors
	if !errors.As(err, &fields) || len(fields) != 2 {
		w.Fatalf("got %v, want two fields", err)
	}
	if f := fields[0]; f.Field != "schedule.exclude[1]" || f.Value != "holidys" || f.Remedy != "did you mean `holidays`?" {
		w.Errorf("a typo: got %+v", f)
	}
	if f := fields[1]; f.Field != "schedule.exclude[2]" || !strings.Contains(f.Remedy, "holidays, night") {
		w.Errorf("got %+v, want it to name those that are there", f)
	}
	if w.count("jobs/") != 0 {
		w.Error("it was stored")
	}
	if r := w.apply(job("a", naming("night")), noon); !slices.Equal(r.Job.Schedule.Exclude, []string{"night"}) {
		w.Errorf("got %+v", r.Job.Schedule)
	}
}

func booksAreClosedUnderTheCalendars(w *world) {
	w.applyCalendar(closing("lunch", "12:02", "12:04"), noon.Add(-time.Hour))
	w.apply(job("a", naming("lunch")), noon)
	r := w.apply(job("a"), noon.Add(5*time.Minute))
	if counted(r.State, scheduler.Skipped, scheduler.ReasonExcluded) != 2 || counted(r.State, scheduler.Skipped, scheduler.ReasonEdited) != 3 {
		w.Errorf("another list of calendars: got %+v, want 2 SKIPPED(excluded by calendar) and 3 SKIPPED(edited)", r.State.Counters)
	}
	w.apply(job("b", naming("lunch")), noon)
	w.applyCalendar(closing("lunch", "20:00", "21:00"), noon.Add(2*time.Minute)) // 12:02 is judged by what was in force at it
	_, err := w.store.Pause(w.ctx, store.EditRequest{Name: job("b").Name, Now: at(noon.Add(5 * time.Minute))})
	w.must(err)
	r = w.record(job("b").Name)
	if counted(r.State, scheduler.Skipped, scheduler.ReasonExcluded) != 1 || counted(r.State, scheduler.Skipped, scheduler.ReasonPaused) != 4 {
		w.Errorf("a pause after a change: got %+v, want 1 SKIPPED(excluded by calendar) and 4 SKIPPED(paused)", r.State.Counters)
	}
}

func aCalendarInUseIsNotDeleted(w *world) {
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	w.apply(job("a", naming("night")), noon)
	w.apply(job("b"), noon)
	gone := store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)}
	err := w.store.DeleteCalendar(w.ctx, gone)
	w.wantErr("in use", err, scheduler.ErrConflict)
	if !strings.Contains(fmt.Sprint(err), "job a;") {
		w.Errorf("got %v, want it to name the job", err)
	}
	if c, err := w.store.Calendar(w.ctx, gone.Name); err != nil || c.Deleting {
		w.Errorf("after the refusal: got %+v, %v, want no mark", c, err)
	}
	w.apply(job("c", naming("night")), noon)
	for _, name := range []string{"a", "c"} { // a tombstone fires nothing
		_, err := w.store.Delete(w.ctx, store.EditRequest{Name: job(name).Name, Now: at(noon)})
		w.must(err)
	}
	w.must(w.store.DeleteCalendar(w.ctx, gone))
	if w.count("rules/calendars/") != 0 {
		w.Error("it is still there")
	}
	w.wantErr("again", w.store.DeleteCalendar(w.ctx, gone), scheduler.ErrNotFound)
	_, err = w.store.Calendar(w.ctx, gone.Name)
	w.wantErr("read", err, scheduler.ErrNotFound)
}

func aCalendarThatAnUnreadableJobMayName(w *world) {
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	r := w.apply(job("a", naming("night")), noon)
	w.damage(w.jobKey(r))
	err := w.store.DeleteCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)})
	w.wantErr("beside a definition that cannot be read", err, scheduler.ErrConflict)
	if _, err := w.store.Calendar(w.ctx, calendarNamed("night")); err != nil {
		w.Errorf("it is gone: %v", err)
	}
}

// mark leaves a calendar as a deletion leaves it that was cut short after its first step.
func (w *world) mark(name string) {
	w.Helper()
	key := "rules/calendars/default/" + name
	marked := protowire.AppendVarint(protowire.AppendTag([]byte(w.get(key)), deletingField, protowire.VarintType), 1)
	_, err := w.client.Put(w.ctx, w.prefix+key, string(marked))
	w.must(err)
	w.moveRules()
	if c, err := w.store.Calendar(w.ctx, calendarNamed(name)); err != nil || !c.Deleting {
		w.Fatalf("got %+v, %v, want it marked", c, err)
	}
}

// deletingField is the number of Calendar.deleting.
const deletingField = 7

func aDeletionThatWasCutShort(w *world) {
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	w.apply(job("a", naming("night")), noon)
	w.mark("night")
	_, err := w.store.Apply(w.ctx, store.ApplyRequest{Job: job("b", naming("night")), Now: at(noon)})
	w.wantErr("a job that names it", err, scheduler.ErrInvalid)
	if same := w.applied(job("a", naming("night")), noon); same.Change != scheduler.Unchanged {
		w.Errorf("a job that named it before: got %+v", same)
	}
	if again := w.applyCalendar(closing("night", "22:00", "06:00"), noon.Add(time.Hour)); again.Change != scheduler.Changed || again.Calendar.Deleting || len(again.Calendar.Versions) != 1 {
		w.Errorf("an apply: got %+v, want the mark taken off and no new version", again)
	}
	w.apply(job("b", naming("night")), noon)
	w.mark("night")
	err = w.store.DeleteCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)})
	w.wantErr("a repeated deletion of one in use", err, scheduler.ErrConflict)
	for _, name := range []string{"a", "b"} {
		w.apply(job(name), noon)
	}
	w.mark("night")
	w.must(w.store.DeleteCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)}))
}

func aCalendarHasAnEditToken(w *world) {
	first := w.applyCalendar(closing("night", "22:00", "06:00"), noon).Calendar
	w.applyCalendar(closing("night", "23:00", "06:00"), noon)
	old := store.CalendarRequest{Name: first.Name, ExpectRevision: first.Revision, Now: at(noon)}
	_, err := w.store.ApplyCalendar(w.ctx, old, closing("night", "21:00", "06:00"))
	w.wantErr("apply", err, scheduler.ErrConflict)
	w.wantErr("delete", w.store.DeleteCalendar(w.ctx, old), scheduler.ErrConflict)
}

func aCalendarIsRememberedForADay(w *world) {
	for i := range scheduler.MaxCalendarVersions {
		w.applyCalendar(closing("night", fmt.Sprintf("%02d:30", i%23), "23:59"), noon.Add(time.Duration(i)*time.Minute))
	}
	_, err := w.store.ApplyCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon.Add(time.Hour))}, closing("night", "00:01", "00:02"))
	w.wantErr("one more within a day", err, scheduler.ErrExhausted)
	later := w.applyCalendar(closing("night", "00:01", "00:02"), noon.Add(25*time.Hour))
	if n := len(later.Calendar.Versions); n != 2 {
		w.Errorf("got %d versions a day later, want what it says and what it said before", n)
	}
}

func aDamagedCalendarIsRepaired(w *world) {
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	w.apply(job("a", naming("night")), noon)
	_, err := w.client.Put(w.ctx, w.prefix+"rules/calendars/default/night", "\xff\xff")
	w.must(err)
	w.moveRules()
	r, err := w.store.ReadRules(w.ctx)
	w.must(err)
	if len(r.Calendars) != 0 || r.UnreadCalendars[calendarNamed("night")] == nil || len(r.Quarantined) != 1 || r.Quarantined[0].Key != "rules/calendars/default/night" {
		w.Errorf("got %+v, want it quarantined", r)
	}
	_, err = w.store.Apply(w.ctx, store.ApplyRequest{Job: job("b", naming("night")), Now: at(noon)})
	w.wantErr("a job that names it", err, scheduler.ErrInvalid)
	_, err = w.store.Pause(w.ctx, store.EditRequest{Name: job("a").Name, Now: at(noon.Add(time.Minute))})
	w.must(err)
	w.wantErr("delete", w.store.DeleteCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)}), scheduler.ErrConflict)
	if fixed := w.applyCalendar(closing("night", "22:00", "06:00"), noon.Add(time.Hour)); fixed.Change != scheduler.Changed || len(fixed.Calendar.Versions) != 1 {
		w.Errorf("got %+v", fixed)
	}
}

func fieldsOfANewerMemberSurviveInCalendars(w *world) {
	const key = "rules/calendars/default/night"
	w.applyCalendar(closing("night", "22:00", "06:00"), noon)
	w.grow(key)
	w.applyCalendar(closing("night", "23:00", "06:00"), noon.Add(time.Hour))
	w.still("an apply", key)
	w.apply(job("a", naming("night")), noon)
	w.wantErr("in use", w.store.DeleteCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("night"), Now: at(noon)}), scheduler.ErrConflict)
	w.still("a refused deletion", key)
}

func calendarsAreListed(w *world) {
	for _, n := range []scheduler.CalendarName{{Namespace: "a-b", Name: "x"}, {Namespace: "a", Name: "z"}, {Namespace: "a", Name: "y"}, {Namespace: "b", Name: "x"}} {
		c := closing("", "22:00", "06:00")
		c.Name = n
		w.applyCalendar(c, noon)
	}
	var got []string
	q := scheduler.CalendarQuery{Limit: 2}
	for {
		page, err := w.store.Calendars(w.ctx, q)
		w.must(err)
		for _, c := range page {
			got, q.After = append(got, c.Name.String()), c.Name
		}
		if len(page) < q.Limit {
			break
		}
	}
	if want := []string{"a/y", "a/z", "a-b/x", "b/x"}; !slices.Equal(got, want) {
		w.Errorf("got %v, want %v", got, want)
	}
	page, err := w.store.Calendars(w.ctx, scheduler.CalendarQuery{Namespace: "a", Limit: 10})
	w.must(err)
	if len(page) != 2 {
		w.Errorf("of namespace a: got %+v", page)
	}
}

func thereIsALimitOfCalendars(w *world) {
	for i := range scheduler.MaxCalendars {
		_, err := w.client.Put(w.ctx, fmt.Sprintf("%srules/calendars/default/c%d", w.prefix, i), "")
		w.must(err)
	}
	_, err := w.store.ApplyCalendar(w.ctx, store.CalendarRequest{Name: calendarNamed("more"), Now: at(noon)}, closing("more", "22:00", "06:00"))
	w.wantErr("one more", err, scheduler.ErrExhausted)
	w.applyCalendar(closing("c7", "22:00", "06:00"), noon)
}
