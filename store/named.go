package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// named are the calendars that jobs name, as they were read.
type named struct {
	known      map[scheduler.CalendarName]scheduler.Calendar
	unreadable map[scheduler.CalendarName]error
	revisions  map[scheduler.CalendarName]int64 // of those that are there
}

// readNamed reads calendars in one transaction for each 64 of them.
func (s *Store) readNamed(ctx context.Context, names []scheduler.CalendarName) (named, error) {
	n := named{
		known: map[scheduler.CalendarName]scheduler.Calendar{}, unreadable: map[scheduler.CalendarName]error{},
		revisions: map[scheduler.CalendarName]int64{},
	}
	for batch := range slices.Chunk(names, rangesAtOnce) {
		gets := make([]clientv3.Op, len(batch))
		for i, name := range batch {
			gets[i] = clientv3.OpGet(s.keys.calendar(name))
		}
		resp, err := s.read(ctx, gets...)
		if err != nil {
			return n, fmt.Errorf("read calendars: %w", err)
		}
		for i, name := range batch {
			kv := found(resp.Responses, i)
			if kv == nil {
				continue
			}
			n.revisions[name] = kv.ModRevision
			if c, err := s.calendarOf(kv); err != nil {
				n.unreadable[name] = err
			} else {
				n.known[name] = c
			}
		}
	}
	return n, nil
}

// CalendarsOf reads the calendars that the jobs name, compiled.
func (s *Store) CalendarsOf(ctx context.Context, jobs ...scheduler.Job) (*scheduler.Calendars, error) {
	n, err := s.readNamed(ctx, namesIn(jobs...))
	if err != nil {
		return nil, err
	}
	return n.compiled(), nil
}

// namesIn are the calendars that the jobs name, each once.
func namesIn(jobs ...scheduler.Job) []scheduler.CalendarName {
	var names []scheduler.CalendarName
	seen := map[scheduler.CalendarName]bool{}
	for _, j := range jobs {
		for _, name := range j.Schedule.Exclude {
			if n := (scheduler.CalendarName{Namespace: j.Name.Namespace, Name: name}); !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return names
}

// byName orders calendars.
func byName(a, b scheduler.CalendarName) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}

func (n named) compiled() *scheduler.Calendars {
	c := scheduler.NewCalendars()
	c.Replace(n.known, n.unreadable)
	return c
}

// guard compares that the calendars are those that were read, which are there: a job is never stored
// naming one that is gone, and its books are closed under what is in force.
func (n named) guard(s *Store, c *change) {
	if cutCalendarGuard {
		return
	}
	for name, revision := range n.revisions {
		c.cmps = append(c.cmps, unchanged(s.keys.calendar(name), revision))
	}
}

// missing says which calendars a definition names that cannot be named: they are not there, cannot be read,
// or are being deleted.
func (s *Store) missing(ctx context.Context, job scheduler.Job, n named) error {
	var errs scheduler.FieldErrors
	var there []string
	for i, short := range job.Schedule.Exclude {
		name := scheduler.CalendarName{Namespace: job.Name.Namespace, Name: short}
		e := scheduler.FieldError{Field: fmt.Sprintf("schedule.exclude[%d]", i), Value: short}
		calendar, known := n.known[name]
		switch {
		case n.unreadable[name] != nil:
			e.Problem, e.Remedy = "names a calendar that cannot be read: "+n.unreadable[name].Error(), "apply the calendar again"
		case known && calendar.Deleting:
			e.Problem, e.Remedy = "names a calendar that is being deleted", "apply the calendar to keep it, then the job"
		case known:
			continue
		default:
			if there == nil {
				var err error
				if there, err = s.calendarNames(ctx, name.Namespace); err != nil {
					return err
				}
			}
			e.Problem, e.Remedy = "is no calendar of namespace "+name.Namespace, calendarRemedy(short, there)
		}
		errs = append(errs, e)
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// mostNamed is how many calendars an error lists.
const mostNamed = 10

func calendarRemedy(name string, there []string) string {
	const store = "`calendar apply -f FILE` stores one"
	if near := scheduler.Nearest(name, there); near != "" {
		return fmt.Sprintf("did you mean `%s`?", near)
	}
	switch {
	case len(there) == 0:
		return "there are none; " + store
	case len(there) > mostNamed:
		return fmt.Sprintf("there are %s and %d more; %s", strings.Join(there[:mostNamed], ", "), len(there)-mostNamed, store)
	}
	return "there are " + strings.Join(there, ", ") + "; " + store
}

// calendarNames are the calendars of a namespace, whether they can be read or not.
func (s *Store) calendarNames(ctx context.Context, namespace string) ([]string, error) {
	folder := s.keys.calendars() + namespace + "/"
	resp, err := s.get(ctx, folder, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(scheduler.MaxCalendars))
	if err != nil {
		return nil, fmt.Errorf("list calendars of namespace %s: %w", namespace, err)
	}
	names := make([]string, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		names[i] = strings.TrimPrefix(string(kv.Key), folder)
	}
	return names, nil
}
