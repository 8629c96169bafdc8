package main

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

const twoCalendars = "name: holidays\ntimeZone: Europe/Berlin\ndates: ['12-25', 2026-12-24..2026-12-27]\n---\nname: same\nweekdays: [sat, sun]\nhours: [{from: '22:00', to: '06:00'}]\n"

const wrongCalendars = "name: holidays\nzone: Europe/Berlin\ndates: ['12-32', Easter]\n---\nname: nights\nhours:\n  - {from: '22:00', to: '06:00', on: sat}\n  - 22-06\n---\nname: none\n"

// calendars is the fake's CalendarService.
type calendars struct {
	quorumcronv1.UnimplementedCalendarServiceServer
	*fakeServer
}

func sampleCalendar(name string) *quorumcronv1.Calendar {
	return &quorumcronv1.Calendar{
		Name: name, Namespace: "default", Description: "Public holidays", TimeZone: "Europe/Berlin",
		Dates: []string{"12-25", "12-26", "2026-12-24..2026-12-27", "01-01"}, Weekdays: []string{"sat", "sun"},
		Hours:    []*quorumcronv1.Hours{{From: "22:00", To: "06:00"}},
		Revision: 77, Created: at(-48 * time.Hour), Edited: at(-2 * time.Hour), Since: at(-2 * time.Hour),
	}
}

// Apply implements CalendarService.
func (c *calendars) Apply(ctx context.Context, r *quorumcronv1.CalendarServiceApplyRequest) (*quorumcronv1.CalendarServiceApplyResponse, error) {
	if err := c.failure(ctx, r.GetCalendar().GetName(), r); err != nil {
		return nil, err
	}
	stored := proto.CloneOf(r.GetCalendar())
	stored.Revision = 78
	answer := &quorumcronv1.CalendarServiceApplyResponse{Calendar: stored, Change: "created"}
	if stored.GetName() == "same" {
		answer.Change, answer.Warnings = "unchanged", []string{"it holds later"}
	}
	return answer, nil
}

// Get implements CalendarService.
func (c *calendars) Get(ctx context.Context, r *quorumcronv1.CalendarServiceGetRequest) (*quorumcronv1.CalendarServiceGetResponse, error) {
	if err := c.failure(ctx, r.GetName(), r); err != nil {
		return nil, err
	}
	return &quorumcronv1.CalendarServiceGetResponse{Calendar: sampleCalendar(r.GetName())}, nil
}

// List implements CalendarService, in two pages.
func (c *calendars) List(ctx context.Context, r *quorumcronv1.CalendarServiceListRequest) (*quorumcronv1.CalendarServiceListResponse, error) {
	if err := c.failure(ctx, r.GetNamespace(), r); err != nil || r.GetNamespace() == "empty" {
		return &quorumcronv1.CalendarServiceListResponse{}, err
	}
	if r.GetPageToken() == "" {
		return &quorumcronv1.CalendarServiceListResponse{Calendars: []*quorumcronv1.Calendar{sampleCalendar("holidays")}, NextPageToken: "more"}, nil
	}
	going := &quorumcronv1.Calendar{Name: "nights", Namespace: "default", Hours: []*quorumcronv1.Hours{{From: "20:00", To: "24:00"}}, Deleting: true}
	return &quorumcronv1.CalendarServiceListResponse{Calendars: []*quorumcronv1.Calendar{going}}, nil
}

// Delete implements CalendarService.
func (c *calendars) Delete(ctx context.Context, r *quorumcronv1.CalendarServiceDeleteRequest) (*quorumcronv1.CalendarServiceDeleteResponse, error) {
	return &quorumcronv1.CalendarServiceDeleteResponse{}, c.failure(ctx, r.GetName(), r)
}
