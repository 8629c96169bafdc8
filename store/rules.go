package store

import (
	"context"
	"maps"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// Rules is everything under rules/ at one revision.
type Rules struct {
	// Revision is the mod revision of rules/head: what claims compare. It is 0 before the first
	// member has initialised the cluster.
	Revision    int64
	Assignments map[string]scheduler.Assignment // by pool; replaced, never changed, by the next delivery
	// Versions counts, by pool, how often the assignment has been written. A delivery may bring several
	// changes at once: who sees a version jump has missed who owned a shard in between.
	Versions map[string]int64
	// Calendars are those that can be read; UnreadCalendars says why others cannot.
	Calendars       map[scheduler.CalendarName]scheduler.Calendar
	UnreadCalendars map[scheduler.CalendarName]error
	Quarantined     []Quarantined
}

// FollowRules delivers all rules now and after every change: the changes of one transaction arrive
// together, so that a delivery is never half of one, and each of them puts rules/head, so that none is
// ever delivered as if one before it had not been. It returns when ctx ends.
func (s *Store) FollowRules(ctx context.Context, deliver func(Rules)) error {
	values := map[string]*mvccpb.KeyValue{}
	return s.follow(ctx, follower{
		prefixes: []string{s.keys.rules()},
		list: func(ctx context.Context) (int64, error) {
			clear(values)
			revision, err := s.paged(ctx, s.keys.rules(), 0, func(page *clientv3.GetResponse) error {
				for _, kv := range page.Kvs {
					values[string(kv.Key)] = kv
				}
				return nil
			})
			if err == nil {
				deliver(s.rulesOf(values))
			}
			return revision, err
		},
		take: func(_ context.Context, events []*clientv3.Event) error {
			for _, e := range events {
				head := values[s.keys.head()]
				if string(e.Kv.Key) == s.keys.head() && head != nil && e.Kv.Version != head.Version+1 {
					return errHole
				}
				if e.Type == clientv3.EventTypeDelete {
					delete(values, string(e.Kv.Key))
					s.kept.forget(string(e.Kv.Key))
				} else {
					values[string(e.Kv.Key)] = e.Kv
				}
			}
			deliver(s.rulesOf(values))
			return nil
		},
	})
}

// ReadRules reads all rules once.
func (s *Store) ReadRules(ctx context.Context) (Rules, error) {
	values := map[string]*mvccpb.KeyValue{}
	_, err := s.paged(ctx, s.keys.rules(), 0, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			values[string(kv.Key)] = kv
		}
		return nil
	})
	return s.rulesOf(values), err
}

func (s *Store) rulesOf(values map[string]*mvccpb.KeyValue) Rules {
	r := Rules{Revision: revisionOf(values[s.keys.head()]), Assignments: map[string]scheduler.Assignment{}, Versions: map[string]int64{},
		Calendars: map[scheduler.CalendarName]scheduler.Calendar{}, UnreadCalendars: map[scheduler.CalendarName]error{}}
	for key, kv := range maps.All(values) {
		if strings.HasPrefix(key, s.keys.calendars()) {
			s.calendarIn(&r, kv)
			continue
		}
		pool, ok := strings.CutPrefix(key, s.keys.assignment(""))
		if !ok {
			continue
		}
		a, err := s.assignmentOf(pool, kv)
		if err != nil {
			r.Quarantined = append(r.Quarantined, Quarantined{Key: s.keys.short(key), Err: err})
			continue
		}
		r.Assignments[pool], r.Versions[pool] = a, kv.Version
	}
	return r
}

// calendarIn adds a calendar to the rules. Every delivery holds all of them, so that what has not changed is
// not decoded again.
func (s *Store) calendarIn(r *Rules, kv *mvccpb.KeyValue) {
	c, err := s.decoded.calendar(kv, s.calendarOf)
	if err == nil {
		r.Calendars[c.Name] = c
		return
	}
	r.Quarantined = append(r.Quarantined, Quarantined{Key: s.keys.short(string(kv.Key)), Err: err})
	if name, ok := s.keys.parseCalendar(string(kv.Key)); ok {
		r.UnreadCalendars[name] = err
	}
}

// decoded remembers the calendars by key, as they were decoded last. It is safe for concurrent use.
type decoded struct {
	mu        sync.Mutex
	calendars map[string]decodedCalendar
}

type decodedCalendar struct {
	revision int64
	calendar scheduler.Calendar
	err      error
}

// calendar decodes a value unless it was the last one of its key. Keys are few (scheduler.MaxCalendars),
// and one that is gone is replaced when its name comes back.
func (d *decoded) calendar(kv *mvccpb.KeyValue, decode func(*mvccpb.KeyValue) (scheduler.Calendar, error)) (scheduler.Calendar, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.calendars[string(kv.Key)]; ok && last.revision == kv.ModRevision {
		return last.calendar, last.err
	}
	if d.calendars == nil || len(d.calendars) > 2*scheduler.MaxCalendars {
		d.calendars = map[string]decodedCalendar{}
	}
	c, err := decode(kv)
	d.calendars[string(kv.Key)] = decodedCalendar{kv.ModRevision, c, err}
	return c, err
}

func (s *Store) assignmentOf(pool string, kv *mvccpb.KeyValue) (scheduler.Assignment, error) {
	var m storedv1.Assignment
	if err := unmarshal(kv.Value, &m); err != nil {
		return scheduler.Assignment{}, err
	}
	a, err := decodeAssignment(pool, &m)
	if err == nil {
		s.kept.read(string(kv.Key), kv.ModRevision, &m, hasUnknown(m.ProtoReflect()))
	}
	return a, err
}

// Pools are all pools at one revision.
type Pools struct {
	Revision    int64
	Pools       []scheduler.Pool // by id
	Quarantined []Quarantined
}

// FollowPools delivers all pools now and after every change. It returns when ctx ends.
func (s *Store) FollowPools(ctx context.Context, deliver func(Pools)) error {
	return s.follow(ctx, follower{
		prefixes: []string{s.keys.pools()},
		list: func(ctx context.Context) (int64, error) {
			p, err := s.ReadPools(ctx)
			if err == nil {
				deliver(p)
			}
			return p.Revision, err
		},
		take: func(ctx context.Context, _ []*clientv3.Event) error {
			// Pools are few and change rarely: reading them all is simpler than merging.
			p, err := s.ReadPools(ctx)
			if err == nil {
				deliver(p)
			}
			return err
		},
	})
}

// ReadPools reads all pools.
func (s *Store) ReadPools(ctx context.Context) (Pools, error) {
	var p Pools
	revision, err := s.paged(ctx, s.keys.pools(), 0, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			id := strings.TrimPrefix(string(kv.Key), s.keys.pools())
			var m storedv1.Pool
			if err := unmarshal(kv.Value, &m); err != nil {
				p.Quarantined = append(p.Quarantined, Quarantined{Key: s.keys.short(string(kv.Key)), Err: err})
				continue
			}
			p.Pools = append(p.Pools, decodePool(id, &m))
		}
		return nil
	})
	p.Revision = revision
	return p, err
}

// Marks are what must have been delivered by now to those who follow the shards.
type Marks struct {
	// Revision is etcd's revision of the reading.
	Revision int64
	// Edits is how many edits of definitions each shard has had.
	Edits map[scheduler.Shard]int64
	// Waiting are the triggers that wait, at most mostMarked, with no more than key and revision.
	Waiting []WaitingTrigger
}

// mostMarked bounds how many waiting triggers ReadMarks looks at.
const mostMarked = 10_000

// ReadMarks reads, with keys only, how often the shards were changed, and which triggers wait. Whoever
// follows shards compares it once a minute with what was delivered, and reads anew where an event was lost.
func (s *Store) ReadMarks(ctx context.Context) (Marks, error) {
	m := Marks{Edits: map[scheduler.Shard]int64{}}
	resp, err := s.read(ctx,
		clientv3.OpGet(s.keys.marks(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(s.keys.allTriggers(), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(mostMarked)))
	if err != nil {
		return Marks{}, err
	}
	m.Revision = resp.Header.GetRevision()
	for _, kv := range kvs(resp.Responses, 0) {
		if shard, ok := s.keys.parseMark(string(kv.Key)); ok {
			m.Edits[shard] = kv.Version
		}
	}
	for _, kv := range kvs(resp.Responses, 1) {
		if _, name, id, ok := s.keys.parseTrigger(string(kv.Key)); ok {
			m.Waiting = append(m.Waiting, WaitingTrigger{Job: name, Trigger: scheduler.Trigger{ID: id, Revision: kv.ModRevision}})
		}
	}
	return m, nil
}
