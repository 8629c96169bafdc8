package node

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

// ApplyCalendar makes a calendar hold. What it changes acts on instants after the call alone; after the
// reply nothing that it excludes is granted.
func (n *Node) ApplyCalendar(ctx context.Context, c scheduler.Calendar, expectedRevision int64) (scheduler.CalendarEdit, error) {
	r := n.calendarRequest(c.Name, expectedRevision)
	edit, err := n.store.ApplyCalendar(ctx, r, c)
	if since := edit.Calendar.Present().Since; err == nil && since.After(r.Now.Wall.Add(time.Second)) {
		edit.Warnings = append(edit.Warnings, fmt.Sprintf(
			"it holds for instants after %s only: a former change was made by a clock that is ahead of that of %s", since.Format(time.RFC3339), n.cfg.Name))
	}
	return edit, err
}

// DeleteCalendar removes a calendar that no job names.
func (n *Node) DeleteCalendar(ctx context.Context, name scheduler.CalendarName, expectedRevision int64) error {
	return n.store.DeleteCalendar(ctx, n.calendarRequest(name, expectedRevision))
}

func (n *Node) calendarRequest(name scheduler.CalendarName, expectedRevision int64) store.CalendarRequest {
	now := n.moment()
	return store.CalendarRequest{Name: name, ExpectRevision: expectedRevision, Now: now, NotBeyond: n.notBeyond(now)}
}

// Calendar reads one calendar.
func (n *Node) Calendar(ctx context.Context, name scheduler.CalendarName) (scheduler.Calendar, error) {
	return n.store.Calendar(ctx, name)
}

// Calendars reads the next calendars by namespace and name; fewer than q.Limit means that there are no more.
func (n *Node) Calendars(ctx context.Context, q scheduler.CalendarQuery) ([]scheduler.Calendar, error) {
	return n.store.Calendars(ctx, q)
}
