package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func (n *fakeNode) ApplyCalendar(ctx context.Context, c scheduler.Calendar, expected int64) (scheduler.CalendarEdit, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.CalendarEdit{}, err
	}
	if errs := c.Validate(); len(errs) > 0 {
		return scheduler.CalendarEdit{}, scheduler.FieldErrors(errs)
	}
	old, there := n.calendars[c.Name]
	switch {
	case expected > 0 && old.Revision != expected:
		return scheduler.CalendarEdit{}, fmt.Errorf("%w: it is at revision %d", scheduler.ErrConflict, old.Revision)
	case there && old.SameCalendar(c):
		return scheduler.CalendarEdit{Calendar: old, Change: scheduler.Unchanged}, nil
	}
	edit := scheduler.CalendarEdit{Change: scheduler.Created, Warnings: []string{"mind the clock"}}
	if there {
		edit.Change = scheduler.Changed
	}
	edit.Calendar, _ = old.Amended(c, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	n.revision++
	edit.Calendar.Revision = n.revision
	n.calendars[c.Name] = edit.Calendar
	return edit, nil
}

func (n *fakeNode) DeleteCalendar(ctx context.Context, name scheduler.CalendarName, _ int64) error {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return err
	}
	if _, there := n.calendars[name]; !there {
		return fmt.Errorf("%w: calendar %s", scheduler.ErrNotFound, name)
	}
	delete(n.calendars, name)
	return nil
}

func (n *fakeNode) Calendar(ctx context.Context, name scheduler.CalendarName) (scheduler.Calendar, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.Calendar{}, err
	}
	c, there := n.calendars[name]
	if !there {
		return c, fmt.Errorf("%w: calendar %s", scheduler.ErrNotFound, name)
	}
	return c, nil
}

func (n *fakeNode) Calendars(ctx context.Context, q scheduler.CalendarQuery) (list []scheduler.Calendar, err error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	for name, c := range n.calendars {
		if q.After.Before(name) && (q.Namespace == "" || q.Namespace == name.Namespace) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b scheduler.Calendar) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	return list[:min(len(list), q.Limit)], nil
}

func TestCalendarsAreStoredAsTheirFilesSay(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	file := &quorumcronv1.Calendar{
		Name: "holidays", Description: "public ones", TimeZone: "Europe/Berlin", Dates: []string{"12-25", "2026-12-24..2026-12-27"},
		Weekdays: []string{"sun"}, Hours: []*quorumcronv1.Hours{{From: "22:00", To: "06:00"}},
		Revision: 7, Deleting: true, // output only: ignored
	}
	for _, want := range []string{"created", "unchanged"} {
		answer, err := c.calendars.Apply(t.Context(), &quorumcronv1.CalendarServiceApplyRequest{Calendar: file})
		if err != nil || answer.GetChange() != want {
			t.Fatalf("got %v, %v, want %s", answer, err, want)
		}
	}
	got, err := c.calendars.Get(t.Context(), &quorumcronv1.CalendarServiceGetRequest{Name: "holidays"})
	if err != nil {
		t.Fatal(err)
	}
	file.Namespace, file.Deleting = "default", false
	if diff := cmp.Diff(file, got.GetCalendar(), protocmp.Transform(),
		protocmp.IgnoreFields(&quorumcronv1.Calendar{}, "revision", "created", "edited", "since")); diff != "" {
		t.Errorf("what is shown is not what was applied (-want +got):\n%s", diff)
	}
	if got.GetCalendar().GetRevision() != 101 || got.GetCalendar().GetSince() == nil {
		t.Errorf("got revision %d, since %v", got.GetCalendar().GetRevision(), got.GetCalendar().GetSince())
	}
	if _, err := c.calendars.Delete(t.Context(), &quorumcronv1.CalendarServiceDeleteRequest{Name: "holidays"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.calendars.Get(t.Context(), &quorumcronv1.CalendarServiceGetRequest{Name: "holidays"}); status.Code(err) != codes.NotFound {
		t.Errorf("after the deletion: got %v, want NotFound", err)
	}
}

func TestEverythingWrongWithACalendarIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	for _, revision := range []int64{0, -1} {
		_, err := c.calendars.Apply(t.Context(), &quorumcronv1.CalendarServiceApplyRequest{
			ExpectedRevision: revision,
			Calendar: &quorumcronv1.Calendar{
				Name: "No", Description: "two\nlines", TimeZone: "Berlin", Dates: []string{"12-25", "12-32"},
				Weekdays: []string{"monday"}, Hours: []*quorumcronv1.Hours{{From: "22:00"}},
			},
		})
		got := violations(t, err)
		want := []string{"name", "description", "timeZone", "dates[1]", "weekdays[0]", "hours[0].to"}
		if revision < 0 {
			want = append(want, "expectedRevision")
		}
		for _, field := range want {
			if got[field] == "" {
				t.Errorf("nothing is said of %s: %v", field, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("got %d wrong fields, want %d: %v", len(got), len(want), got)
		}
	}
	_, err := c.calendars.Apply(t.Context(), &quorumcronv1.CalendarServiceApplyRequest{})
	if got := violations(t, err); len(got) != 1 || got["calendar"] != "is missing" {
		t.Errorf("without a calendar: got %v", got)
	}
	_, err = c.calendars.Get(t.Context(), &quorumcronv1.CalendarServiceGetRequest{Name: "a/b"})
	if got := violations(t, err); got["name"] == "" {
		t.Errorf("a slash in a name: got %v", got)
	}
}

func TestCalendarsAreListedInPages(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	for _, namespace := range []string{"a", "b"} {
		for i := range 3 {
			if _, err := c.calendars.Apply(t.Context(), &quorumcronv1.CalendarServiceApplyRequest{
				Calendar: &quorumcronv1.Calendar{Namespace: namespace, Name: fmt.Sprint("c", i), Dates: []string{"12-25"}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	request := &quorumcronv1.CalendarServiceListRequest{PageSize: 2}
	for {
		page, err := c.calendars.List(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, calendar := range page.GetCalendars() {
			got = append(got, calendar.GetNamespace()+"/"+calendar.GetName())
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if want := []string{"a/c0", "a/c1", "a/c2", "b/c0", "b/c1", "b/c2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := c.calendars.List(t.Context(), &quorumcronv1.CalendarServiceListRequest{PageToken: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a token that is none: got %v", err)
	}
}
