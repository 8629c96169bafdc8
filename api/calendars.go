package api

import (
	"context"
	"fmt"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// calendarService serves quorumcron.v1.CalendarService.
type calendarService struct {
	quorumcronv1.UnimplementedCalendarServiceServer
	*Server
}

func (s *calendarService) Apply(
	ctx context.Context, r *quorumcronv1.CalendarServiceApplyRequest,
) (*quorumcronv1.CalendarServiceApplyResponse, error) {
	errs := badRevision(r.GetExpectedRevision())
	if r.GetCalendar() == nil {
		errs = append(errs, scheduler.FieldError{Field: "calendar", Problem: "is missing"})
	} else if len(errs) > 0 {
		errs = append(errs, CheckCalendar(r.GetCalendar())...)
	}
	if err := invalid(errs); err != nil {
		return nil, err
	}
	calendar := CalendarFromProto(r.GetCalendar())
	edit, err := s.cfg.Calendars.ApplyCalendar(ctx, calendar, r.GetExpectedRevision())
	if err != nil {
		return nil, fmt.Errorf("apply calendar %s: %w", calendar.Name, err)
	}
	return &quorumcronv1.CalendarServiceApplyResponse{
		Calendar: CalendarToProto(edit.Calendar), Change: string(edit.Change), Warnings: edit.Warnings,
	}, nil
}

// CheckCalendar says everything that is wrong with a calendar by itself, as an apply would.
func CheckCalendar(p *quorumcronv1.Calendar) []scheduler.FieldError {
	return CalendarFromProto(p).Validate()
}

func (s *calendarService) Get(
	ctx context.Context, r *quorumcronv1.CalendarServiceGetRequest,
) (*quorumcronv1.CalendarServiceGetResponse, error) {
	name, errs := calendarName(r.GetNamespace(), r.GetName())
	if err := invalid(errs); err != nil {
		return nil, err
	}
	c, err := s.cfg.Calendars.Calendar(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("get calendar %s: %w", name, err)
	}
	return &quorumcronv1.CalendarServiceGetResponse{Calendar: CalendarToProto(c)}, nil
}

func (s *calendarService) List(
	ctx context.Context, r *quorumcronv1.CalendarServiceListRequest,
) (*quorumcronv1.CalendarServiceListResponse, error) {
	namespace, nameErrs := namespaceOf(r.GetNamespace())
	size, sizeErrs := pageSize(r.GetPageSize())
	after, tokenErrs := calendarPlace(r.GetPageToken(), namespace)
	if err := invalid(nameErrs, sizeErrs, tokenErrs); err != nil {
		return nil, err
	}
	calendars, err := s.cfg.Calendars.Calendars(ctx, scheduler.CalendarQuery{Namespace: namespace, After: after, Limit: size + 1})
	if err != nil {
		return nil, fmt.Errorf("list calendars: %w", err)
	}
	var page []*quorumcronv1.Calendar
	for _, c := range calendars {
		page = append(page, CalendarToProto(c))
	}
	response := &quorumcronv1.CalendarServiceListResponse{}
	var more bool
	if response.Calendars, more = cut(page, size); more {
		response.NextPageToken = afterCalendar(calendars[len(response.Calendars)-1].Name)
	}
	return response, nil
}

func (s *calendarService) Delete(
	ctx context.Context, r *quorumcronv1.CalendarServiceDeleteRequest,
) (*quorumcronv1.CalendarServiceDeleteResponse, error) {
	name, errs := calendarName(r.GetNamespace(), r.GetName())
	if err := invalid(errs, badRevision(r.GetExpectedRevision())); err != nil {
		return nil, err
	}
	if err := s.cfg.Calendars.DeleteCalendar(ctx, name, r.GetExpectedRevision()); err != nil {
		return nil, fmt.Errorf("delete calendar %s: %w", name, err)
	}
	return &quorumcronv1.CalendarServiceDeleteResponse{}, nil
}

// CalendarFromProto reads a calendar file's fields; output-only ones are left out.
func CalendarFromProto(p *quorumcronv1.Calendar) scheduler.Calendar {
	name := scheduler.CalendarName{Namespace: p.GetNamespace(), Name: p.GetName()}
	if name.Namespace == "" {
		name.Namespace = DefaultNamespace
	}
	spec := cron.CalendarSpec{TimeZone: p.GetTimeZone(), Dates: p.GetDates(), Weekdays: p.GetWeekdays()}
	for _, h := range p.GetHours() {
		spec.Hours = append(spec.Hours, cron.Hours{From: h.GetFrom(), To: h.GetTo()})
	}
	return scheduler.NewCalendar(name, p.GetDescription(), spec)
}

// CalendarToProto writes a calendar as it is at present.
func CalendarToProto(c scheduler.Calendar) *quorumcronv1.Calendar {
	now := c.Present()
	p := &quorumcronv1.Calendar{
		Name: c.Name.Name, Namespace: c.Name.Namespace, Description: c.Description,
		TimeZone: now.Excludes.TimeZone, Dates: now.Excludes.Dates, Weekdays: now.Excludes.Weekdays,
		Revision: c.Revision, Created: timestamp(c.Created), Edited: timestamp(c.Edited), Since: timestamp(now.Since),
		Deleting: c.Deleting,
	}
	for _, h := range now.Excludes.Hours {
		p.Hours = append(p.Hours, &quorumcronv1.Hours{From: h.From, To: h.To})
	}
	return p
}
