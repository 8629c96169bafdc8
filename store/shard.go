package store

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// ShardUpdate is news of one shard. A snapshot is everything there is and replaces all that came
// before; other updates are changes. An update names each job and each trigger once.
type ShardUpdate struct {
	Shard    scheduler.Shard
	Snapshot bool
	// Revision is what a snapshot, or the reading of one job, was read at; 0 for changes.
	Revision int64
	// Edits is how many edits of definitions the shard has had, as far as they have been delivered. A
	// count in Marks that stays above is an event that was lost, whatever was delivered since.
	Edits int64
	// Jobs are definitions, tombstones too, that are new or have changed.
	Jobs []JobRecord
	// Gone are jobs whose definition was removed.
	Gone []scheduler.JobName
	// Triggers are waiting triggers that are new or have changed.
	Triggers []WaitingTrigger
	// TriggersGone are triggers that were consumed or dropped.
	TriggersGone []WaitingTrigger
	// Quarantined are definitions, states and triggers that cannot be read.
	Quarantined []Quarantined
}

// JobRecord is a definition with the state that was read beside it. The state may be older than one
// that the owner wrote meanwhile: the higher StateRevision is the newer one.
type JobRecord struct {
	Job           scheduler.Job
	State         scheduler.State
	StateRevision int64 // 0: there is no state that can be read
	// Facts are what lock and slot say of its attempts in flight, read after the state; in a snapshot
	// alone.
	Facts []EntryFact
}

// WaitingTrigger is a trigger of a job that waits for the owner.
type WaitingTrigger struct {
	Job     scheduler.JobName
	Trigger scheduler.Trigger
}

// Quarantined is a record that cannot be read. It stops nothing but itself: of a job's records, the
// definition and the state stop the job, a trigger does not.
type Quarantined struct {
	Key     string            // below the prefix
	Job     scheduler.JobName // whose record it is; zero if the key does not tell
	Trigger string            // the id, if it is a trigger
	Err     error
}

// FollowShard delivers a snapshot of the shard at a revision of at least atLeast, then every change,
// and another snapshot whenever a change may have been missed. It calls deliver from this goroutine,
// one update at a time, and returns when ctx ends. Rule 12.
func (s *Store) FollowShard(ctx context.Context, shard scheduler.Shard, atLeast int64, deliver func(ShardUpdate)) error {
	f := &shardFollower{store: s, shard: shard, atLeast: atLeast, deliver: deliver}
	return s.follow(ctx, follower{
		prefixes: []string{s.keys.jobs(shard), s.keys.shardTriggers(shard)},
		list:     f.list,
		take:     f.take,
	})
}

type shardFollower struct {
	store   *Store
	shard   scheduler.Shard
	atLeast int64
	edits   int64 // delivered
	deliver func(ShardUpdate)
}

func (f *shardFollower) list(ctx context.Context) (int64, error) {
	s := f.store
	u := ShardUpdate{Shard: f.shard, Snapshot: true}
	states := map[scheduler.JobName]*mvccpb.KeyValue{}
	revision, err := s.paged(ctx, s.keys.states(f.shard), 0, func(page *clientv3.GetResponse) error {
		if at := page.Header.GetRevision(); at < f.atLeast {
			return fmt.Errorf("etcd answered at revision %d, before %d", at, f.atLeast)
		}
		for _, kv := range page.Kvs {
			if _, name, ok := s.keys.parseState(string(kv.Key)); ok {
				states[name] = kv
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	_, err = s.paged(ctx, s.keys.jobs(f.shard), revision, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			if name, ok := u.jobPut(s, kv); ok && !u.addState(s, len(u.Jobs)-1, states[name]) {
				u.Quarantined = append(u.Quarantined, s.stateless(f.shard, name))
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	_, err = s.paged(ctx, s.keys.shardTriggers(f.shard), revision, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			u.triggerPut(s, kv)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = s.readEntries(ctx, u.Jobs, func(r *JobRecord, fact EntryFact) { r.Facts = append(r.Facts, fact) })
	if err != nil {
		return 0, err
	}
	mark, err := s.get(ctx, s.keys.mark(f.shard), clientv3.WithRev(revision))
	if err != nil {
		return 0, err
	}
	f.edits = 0
	if len(mark.Kvs) > 0 {
		f.edits = mark.Kvs[0].Version
	}
	u.Revision, u.Edits = revision, f.edits
	f.deliver(u)
	return revision, nil
}

// take reads changes. States are not watched, for their owner is their writer; but an edit closes the
// books in the state, and a new job has one, so the state is read beside each changed definition. So are
// the triggers that wait: their watch may have been faster, when nobody knew the job yet.
func (f *shardFollower) take(ctx context.Context, events []*clientv3.Event) error {
	s := f.store
	u := ShardUpdate{Shard: f.shard}
	for _, e := range lastOf(events) {
		key, gone := string(e.Kv.Key), e.Type == clientv3.EventTypeDelete
		if _, name, id, ok := s.keys.parseTrigger(key); ok && gone {
			u.TriggersGone = append(u.TriggersGone, WaitingTrigger{Job: name, Trigger: scheduler.Trigger{ID: id, Revision: e.Kv.ModRevision}})
		} else if ok {
			u.triggerPut(s, e.Kv)
		} else if _, name, ok := s.keys.parseJob(key); ok && gone {
			u.Gone = append(u.Gone, name)
			s.kept.forget(s.keys.state(f.shard, name))
		} else if !gone {
			u.jobPut(s, e.Kv)
		}
	}
	if err := f.readBeside(ctx, &u); err != nil {
		return err
	}
	for i, e := range events { // each edit is a transaction, and puts the mark once
		again := i > 0 && events[i-1].Kv.ModRevision == e.Kv.ModRevision
		if !again && strings.HasPrefix(string(e.Kv.Key), s.keys.jobs(f.shard)) {
			f.edits++
		}
	}
	u.Edits = f.edits
	f.deliver(u)
	return nil
}

// readBeside reads the states and triggers of the changed definitions. A state that is not there, or is
// another uid's, belongs to a change that is still to come.
func (f *shardFollower) readBeside(ctx context.Context, u *ShardUpdate) error {
	const batch = 32
	for from := 0; from < len(u.Jobs); from += batch {
		jobs := u.Jobs[from:min(from+batch, len(u.Jobs))]
		var gets []clientv3.Op
		for _, r := range jobs {
			gets = append(gets, clientv3.OpGet(f.store.keys.state(f.shard, r.Job.Name)),
				clientv3.OpGet(f.store.keys.triggers(f.shard, r.Job.Name), clientv3.WithPrefix()))
		}
		resp, err := f.store.read(ctx, gets...)
		if err != nil {
			return err
		}
		for i := range jobs {
			u.addState(f.store, from+i, found(resp.Responses, 2*i))
			for _, kv := range kvs(resp.Responses, 2*i+1) {
				u.triggerPut(f.store, kv)
			}
		}
	}
	return nil
}

// jobPut takes in a definition.
func (u *ShardUpdate) jobPut(s *Store, kv *mvccpb.KeyValue) (scheduler.JobName, bool) {
	job, err := s.jobOf(kv)
	if err != nil {
		u.quarantine(s, kv, err)
		return scheduler.JobName{}, false
	}
	u.Jobs = append(u.Jobs, JobRecord{Job: job})
	return job.Name, true
}

// addState adds the state to job i. It reports false if there is none of that uid.
func (u *ShardUpdate) addState(s *Store, i int, kv *mvccpb.KeyValue) bool {
	if kv == nil {
		return false
	}
	state, err := s.stateOf(kv)
	if err != nil {
		u.quarantine(s, kv, err)
		return true
	}
	if state.UID != u.Jobs[i].Job.UID {
		return false
	}
	u.Jobs[i].State, u.Jobs[i].StateRevision = state, kv.ModRevision
	return true
}

func (u *ShardUpdate) triggerPut(s *Store, kv *mvccpb.KeyValue) {
	_, name, id, ok := s.keys.parseTrigger(string(kv.Key))
	if !ok {
		u.quarantine(s, kv, unreadable("no trigger can have this key"))
		return
	}
	var m storedv1.Trigger
	err := unmarshal(kv.Value, &m)
	if err == nil {
		var t scheduler.Trigger
		if t, err = decodeTrigger(id, kv.ModRevision, &m); err == nil {
			u.Triggers = append(u.Triggers, WaitingTrigger{Job: name, Trigger: t})
			return
		}
	}
	u.quarantine(s, kv, err)
}

func (u *ShardUpdate) quarantine(s *Store, kv *mvccpb.KeyValue, err error) {
	key := string(kv.Key)
	q := Quarantined{Key: s.keys.short(key), Err: err}
	for _, parse := range []func(string) (scheduler.Shard, scheduler.JobName, bool){s.keys.parseJob, s.keys.parseState} {
		if _, name, ok := parse(key); ok {
			q.Job = name
		}
	}
	if _, name, id, ok := s.keys.parseTrigger(key); ok {
		q.Job, q.Trigger = name, id
	}
	u.Quarantined = append(u.Quarantined, q)
}
