package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// CalendarRequest asks for a change of one calendar; its fields are those of EditRequest.
type CalendarRequest struct {
	Name           scheduler.CalendarName
	ExpectRevision int64
	Now            scheduler.Reading
	NotBeyond      time.Time
}

// presentCalendar is a calendar as it was read, in one transaction, before a change.
type presentCalendar struct {
	kv       *mvccpb.KeyValue
	value    *storedv1.Calendar // as stored, for its unknown fields; nil if there is none
	calendar scheduler.Calendar
	err      error // why it cannot be read
	head     int64 // of the rules
	others   int64 // calendars in the cluster, this one included
}

func (s *Store) presentCalendar(ctx context.Context, name scheduler.CalendarName) (presentCalendar, error) {
	resp, err := s.read(ctx,
		clientv3.OpGet(s.keys.calendar(name)), clientv3.OpGet(s.keys.head()),
		clientv3.OpGet(s.keys.calendars(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return presentCalendar{}, fmt.Errorf("calendar %s: %w", name, err)
	}
	p := presentCalendar{
		kv: found(resp.Responses, 0), head: revisionOf(found(resp.Responses, 1)),
		others: resp.Responses[2].GetResponseRange().GetCount(),
	}
	if p.kv != nil {
		p.value = &storedv1.Calendar{}
		if p.err = unmarshal(p.kv.Value, p.value); p.err == nil {
			p.calendar, p.err = decodeCalendar(name, p.value)
			p.calendar.Revision = p.kv.ModRevision
		}
	}
	return p, nil
}

// ApplyCalendar makes a calendar hold: it creates it or changes it, and writes nothing if it is already so.
// What changes acts on instants after the reading of r alone; claims that were planned under the older
// calendar are refused, for the write moves the rules.
func (s *Store) ApplyCalendar(ctx context.Context, r CalendarRequest, want scheduler.Calendar) (scheduler.CalendarEdit, error) {
	want.Name = r.Name
	if problems := want.Validate(); len(problems) > 0 {
		return scheduler.CalendarEdit{}, scheduler.FieldErrors(problems)
	}
	at := EditRequest{Now: r.Now, NotBeyond: r.NotBeyond}.instant()
	end, err := s.turn(ctx)
	if err != nil {
		return scheduler.CalendarEdit{}, err
	}
	defer end()
	for range mostTries {
		p, err := s.presentCalendar(ctx, r.Name)
		if err != nil {
			return scheduler.CalendarEdit{}, err
		}
		edit := scheduler.CalendarEdit{Calendar: p.calendar, Change: scheduler.Changed}
		switch {
		case r.ExpectRevision > 0 && r.ExpectRevision != revisionOf(p.kv):
			return edit, outdatedCalendar(r, revisionOf(p.kv))
		case p.kv == nil && p.others >= scheduler.MaxCalendars:
			return edit, fmt.Errorf("%w: there are %d calendars, and there may be no more; delete one, or add to one", scheduler.ErrExhausted, p.others)
		case p.kv == nil:
			edit.Change = scheduler.Created
		case p.err != nil:
			s.log.Warn("calendar repaired", "calendar", r.Name.String(), "err", p.err)
			p.calendar = scheduler.Calendar{} // what it said cannot be known
		case p.calendar.SameCalendar(want):
			edit.Change = scheduler.Unchanged
			return edit, nil
		}
		if edit.Calendar, err = p.calendar.Amended(want, at); err != nil {
			return edit, err
		}
		revision, err := s.putCalendar(ctx, p, edit.Calendar)
		if err != nil {
			return edit, err
		}
		if edit.Calendar.Revision = revision; revision != 0 {
			return edit, nil
		}
	}
	return scheduler.CalendarEdit{}, busyCalendar(r.Name)
}

func outdatedCalendar(r CalendarRequest, revision int64) error {
	return fmt.Errorf("%w: calendar %s is at revision %d, not %d; read it again and repeat the change", scheduler.ErrConflict, r.Name, revision, r.ExpectRevision)
}

func busyCalendar(name scheduler.CalendarName) error {
	return fmt.Errorf("%w: calendar %s or the rules changed %d times while this was being committed; try again", scheduler.ErrConflict, name, mostTries)
}

// putCalendar replaces a calendar that was read, and moves the rules. It returns the new revision, 0 if
// something had moved.
func (s *Store) putCalendar(ctx context.Context, p presentCalendar, next scheduler.Calendar) (int64, error) {
	message := encodeCalendar(next)
	if p.value != nil && p.err == nil {
		carryUnknown(p.value, message)
	}
	value, err := marshal(message)
	if err != nil {
		return 0, fmt.Errorf("%w: calendar %s: %w", scheduler.ErrInvalid, next.Name, err)
	}
	return s.moveCalendar(ctx, p, next.Name, clientv3.OpPut(s.keys.calendar(next.Name), value))
}

// moveCalendar replaces or removes a calendar, in the caller's turn.
func (s *Store) moveCalendar(ctx context.Context, p presentCalendar, name scheduler.CalendarName, op clientv3.Op) (int64, error) {
	then := []clientv3.Op{op, clientv3.OpPut(s.keys.head(), "")}
	if cutCalendarRules {
		then = then[:1]
	}
	s.turns.moved = true // perhaps: an answer can be lost
	resp, err := s.commit(ctx, []clientv3.Cmp{
		// The calendar is the one that was read: no edit overwrites another unseen, and a deletion goes on
		// only if nobody has taken it back.
		unchanged(s.keys.calendar(name), revisionOf(p.kv)),
		// The rules are those that were read: there are no more calendars than were counted.
		unchanged(s.keys.head(), p.head),
	}, then, nil)
	switch {
	case err != nil:
		return 0, fmt.Errorf("calendar %s: %w", name, err)
	case !resp.Succeeded:
		s.turns.moved = false
		return 0, nil
	}
	return resp.Header.GetRevision(), nil
}

// DeleteCalendar removes a calendar that no job names, and is an ErrConflict that names some jobs
// otherwise.
//
// It marks the calendar first: from then on an apply of a job that names it is refused, or fails because
// the calendar is not the one it has read. What names it after that did so before the mark, so that a scan
// finds it. A calendar that stays marked, for this was cut short, is in force; a repeated delete goes on, and
// applying it takes the mark off.
func (s *Store) DeleteCalendar(ctx context.Context, r CalendarRequest) error {
	marked, err := s.markCalendar(ctx, r)
	if err != nil {
		return err
	}
	users, more, err := s.jobsNaming(ctx, r.Name, mostUsers)
	if err != nil {
		return fmt.Errorf("delete calendar %s: %w", r.Name, err)
	}
	end, err := s.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	inUse := fmt.Errorf("%w: calendar %s is named by %s; take it out of schedule.exclude there first", scheduler.ErrConflict, r.Name, listed(users, more))
	for range mostTries {
		p, err := s.presentCalendar(ctx, r.Name)
		switch {
		case err != nil:
			return err
		case p.kv == nil:
			return nil // another call of this has done it
		case revisionOf(p.kv) != marked && len(users) > 0:
			return inUse // somebody else took the mark off
		case revisionOf(p.kv) != marked:
			return fmt.Errorf("%w: calendar %s was applied while it was being deleted; it stays", scheduler.ErrConflict, r.Name)
		}
		var done int64
		if len(users) > 0 {
			p.calendar.Deleting = false
			done, err = s.putCalendar(ctx, p, p.calendar)
		} else {
			done, err = s.moveCalendar(ctx, p, r.Name, clientv3.OpDelete(s.keys.calendar(r.Name)))
		}
		switch {
		case err != nil:
			return err
		case done != 0 && len(users) > 0:
			return inUse
		case done != 0:
			return nil
		}
	}
	return busyCalendar(r.Name)
}

// mostUsers is how many jobs a refused deletion names.
const mostUsers = 5

func listed(names []string, more bool) string {
	if more {
		return "jobs " + strings.Join(names, ", ") + " and others"
	}
	if len(names) == 1 {
		return "job " + names[0]
	}
	return "jobs " + strings.Join(names, ", ")
}

// markCalendar says in the calendar that it is being deleted, and returns the revision of the mark.
func (s *Store) markCalendar(ctx context.Context, r CalendarRequest) (int64, error) {
	end, err := s.turn(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	for range mostTries {
		p, err := s.presentCalendar(ctx, r.Name)
		switch {
		case err != nil:
			return 0, err
		case p.kv == nil:
			return 0, fmt.Errorf("%w: calendar %s does not exist; `calendar list` shows what does", scheduler.ErrNotFound, r.Name)
		case r.ExpectRevision > 0 && r.ExpectRevision != p.kv.ModRevision:
			return 0, outdatedCalendar(r, p.kv.ModRevision)
		case p.err != nil:
			return 0, fmt.Errorf("%w: the stored calendar %s: %w; apply it again", scheduler.ErrConflict, r.Name, p.err)
		case p.calendar.Deleting:
			return p.kv.ModRevision, nil
		}
		p.calendar.Deleting = true
		if revision, err := s.putCalendar(ctx, p, p.calendar); err != nil || revision != 0 {
			return revision, err
		}
	}
	return 0, busyCalendar(r.Name)
}

// jobsNaming finds the first jobs that name a calendar, by name as far as it looked, and whether there are
// more. A definition that cannot be read may name any calendar.
func (s *Store) jobsNaming(ctx context.Context, name scheduler.CalendarName, most int) (names []string, more bool, err error) {
	for shard := range scheduler.ShardCount {
		prefix := s.keys.jobs(scheduler.Shard(shard)) + name.Namespace + "/"
		if _, err := s.paged(ctx, prefix, 0, func(page *clientv3.GetResponse) error {
			for _, kv := range page.Kvs {
				job, err := s.jobOf(kv)
				switch {
				case err != nil:
					names = append(names, strings.TrimPrefix(string(kv.Key), prefix)+" (which cannot be read)")
				case !job.Tombstone() && slices.Contains(job.Schedule.Exclude, name.Name):
					names = append(names, job.Name.Name)
				}
			}
			return nil
		}); err != nil {
			return nil, false, err
		}
		if len(names) > most {
			return names[:most], true, nil
		}
	}
	slices.Sort(names)
	return names, false, nil
}

// Calendar reads one calendar.
func (s *Store) Calendar(ctx context.Context, name scheduler.CalendarName) (scheduler.Calendar, error) {
	p, err := s.presentCalendar(ctx, name)
	switch {
	case err != nil:
		return scheduler.Calendar{}, err
	case p.kv == nil:
		return scheduler.Calendar{}, fmt.Errorf("%w: calendar %s; `calendar list` shows what there is", scheduler.ErrNotFound, name)
	case p.err != nil:
		return scheduler.Calendar{}, fmt.Errorf("calendar %s: its stored value: %w; apply it again", name, p.err)
	}
	return p.calendar, nil
}

// Calendars reads the next at most q.Limit calendars, ordered by namespace and name; those that cannot be
// read are left out. There are MaxCalendars at most, so that all are read and the order of keys, in which
// "a-b/" comes before "a/", does not matter.
func (s *Store) Calendars(ctx context.Context, q scheduler.CalendarQuery) ([]scheduler.Calendar, error) {
	var list []scheduler.Calendar
	folder := s.keys.calendars()
	if q.Namespace != "" {
		folder += q.Namespace + "/"
	}
	if _, err := s.paged(ctx, folder, 0, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			if c, err := s.calendarOf(kv); err == nil && q.After.Before(c.Name) {
				list = append(list, c)
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list calendars: %w", err)
	}
	slices.SortFunc(list, func(a, b scheduler.Calendar) int { return byName(a.Name, b.Name) })
	return list[:min(len(list), max(q.Limit, 1))], nil
}

func (s *Store) calendarOf(kv *mvccpb.KeyValue) (scheduler.Calendar, error) {
	name, ok := s.keys.parseCalendar(string(kv.Key))
	if !ok {
		return scheduler.Calendar{}, unreadable("its key is not that of a calendar")
	}
	var m storedv1.Calendar
	if err := unmarshal(kv.Value, &m); err != nil {
		return scheduler.Calendar{}, err
	}
	c, err := decodeCalendar(name, &m)
	c.Revision = kv.ModRevision
	return c, err
}
