package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newCalendar(c *console) *cobra.Command {
	return noun("calendar", "Store and show the calendars that jobs name in schedule.exclude",
		newCalendarApply(c), newCalendarList(c), newCalendarShow(c), newCalendarDelete(c))
}

func calendarNames(cmd *cobra.Command, c *console, o *serverOptions, n *namespaceOption, prefix string) []string {
	return completed(cmd, c, o, prefix, func(client *client) (names []string) {
		answer, err := call(cmd.Context(), client, client.calendars.List, &quorumcronv1.CalendarServiceListRequest{Namespace: n.namespace, PageSize: 1000})
		if err != nil {
			return nil
		}
		for _, calendar := range answer.GetCalendars() {
			names = append(names, calendar.GetName())
		}
		return names
	})
}

// excludesLine is what a calendar excludes, on one line.
func excludesLine(calendar *quorumcronv1.Calendar) string {
	var parts []string
	switch dates := calendar.GetDates(); {
	case len(dates) > 3:
		parts = append(parts, fmt.Sprintf("%s +%d", dates[0], len(dates)-1))
	case len(dates) > 0:
		parts = append(parts, strings.Join(dates, " "))
	}
	if days := calendar.GetWeekdays(); len(days) > 0 {
		parts = append(parts, strings.Join(days, " "))
	}
	for _, h := range calendar.GetHours() {
		parts = append(parts, h.GetFrom()+"-"+h.GetTo())
	}
	line := strings.Join(parts, ", ")
	if zone := calendar.GetTimeZone(); zone != "" {
		line += " " + zone
	}
	return line
}

type calendarListOptions struct {
	serverOptions
	namespaceOption
	all    bool
	output format
}

func newCalendarList(c *console) *cobra.Command {
	o := &calendarListOptions{}
	cmd := &cobra.Command{
		Use: "list", Short: "List the calendars of a namespace", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), c) },
	}
	o.serverOptions.addFlags(cmd.Flags())
	o.namespaceOption.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "list the calendars of all namespaces")
	addOutput(cmd, &o.output)
	return cmd
}

func (o *calendarListOptions) run(ctx context.Context, c *console) error {
	client, err := o.connect()
	if err != nil {
		return err
	}
	defer client.close()
	request := &quorumcronv1.CalendarServiceListRequest{Namespace: o.namespace, PageSize: 1000}
	if o.all {
		request.Namespace = ""
	}
	all := &quorumcronv1.CalendarServiceListResponse{}
	for {
		page, err := call(ctx, client, client.calendars.List, request)
		if err != nil {
			return err
		}
		all.Calendars = append(all.Calendars, page.GetCalendars()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if len(all.Calendars) == 0 && o.output == formatTable {
		c.say("no calendars; store one with `quorumcron calendar apply -f FILE`")
	}
	return c.print(o.output, all, func(w io.Writer) { o.table(w, all.GetCalendars()) })
}

func (o *calendarListOptions) table(w io.Writer, calendars []*quorumcronv1.Calendar) {
	head := []string{"CALENDAR", "EXCLUDES", "STATE", "DESCRIPTION"}
	if o.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	row(w, head...)
	for _, calendar := range calendars {
		cells := []string{calendar.GetName(), excludesLine(calendar), calendarState(calendar), orDash(onOneLine(calendar.GetDescription()))}
		if o.all {
			cells = append([]string{calendar.GetNamespace()}, cells...)
		}
		row(w, cells...)
	}
}

// calendarState is whether a calendar is there to stay, as a word.
func calendarState(calendar *quorumcronv1.Calendar) string {
	if calendar.GetDeleting() {
		return "being deleted"
	}
	return "in force"
}

func newCalendarShow(c *console) *cobra.Command {
	o := &jobOptions{names: calendarNames}
	return o.command(c, "show", "Show a calendar", func(ctx context.Context, client *client) error {
		answer, err := call(ctx, client, client.calendars.Get, &quorumcronv1.CalendarServiceGetRequest{Namespace: o.namespace, Name: o.name})
		if err != nil {
			return err
		}
		return c.print(o.output, answer.GetCalendar(), func(w io.Writer) { c.calendarTable(w, answer.GetCalendar()) })
	})
}

// calendarTable shows one calendar as lines of name and value.
func (c *console) calendarTable(w io.Writer, calendar *quorumcronv1.Calendar) {
	row(w, "Calendar:", calendar.GetNamespace()+"/"+calendar.GetName())
	if calendar.GetDescription() != "" {
		row(w, "Description:", onOneLine(calendar.GetDescription()))
	}
	row(w, "State:", calendarState(calendar))
	zone := calendar.GetTimeZone()
	if zone == "" {
		zone = "of the schedule"
	}
	row(w, "Time zone:", zone)
	for i, date := range calendar.GetDates() {
		row(w, first(i, "Dates:"), date)
	}
	if days := calendar.GetWeekdays(); len(days) > 0 {
		row(w, "Weekdays:", strings.Join(days, " "))
	}
	for i, h := range calendar.GetHours() {
		row(w, first(i, "Hours:"), h.GetFrom()+" to "+h.GetTo())
	}
	row(w, "In force:", "after "+c.both(calendar.GetSince()))
	row(w, "Identity:", fmt.Sprintf("revision %d", calendar.GetRevision()))
	row(w, "Edited:", c.both(calendar.GetEdited()))
}

func newCalendarDelete(c *console) *cobra.Command {
	o := &jobOptions{names: calendarNames}
	dryRun := false
	cmd := o.command(c, "delete", "Remove a calendar that no job names", func(ctx context.Context, client *client) error {
		answer, said := &quorumcronv1.CalendarServiceDeleteResponse{}, "deleted "
		var err error
		if dryRun {
			said = "would delete, if no job names it, "
			_, err = call(ctx, client, client.calendars.Get, &quorumcronv1.CalendarServiceGetRequest{Namespace: o.namespace, Name: o.name})
		} else {
			answer, err = call(ctx, client, client.calendars.Delete, &quorumcronv1.CalendarServiceDeleteRequest{Namespace: o.namespace, Name: o.name})
		}
		if err != nil {
			return err
		}
		return c.print(o.output, answer, func(w io.Writer) { row(w, said+o.title()) })
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted, and delete nothing")
	return cmd
}
