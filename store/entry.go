package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// stateOf reads a state value, tokens filled in, and remembers its unknown fields.
func (s *Store) stateOf(kv *mvccpb.KeyValue) (scheduler.State, error) {
	var m storedv1.State
	if err := unmarshal(kv.Value, &m); err != nil {
		return scheduler.State{}, err
	}
	state, err := decodeState(&m)
	if err != nil {
		return scheduler.State{}, err
	}
	s.kept.read(string(kv.Key), kv.ModRevision, &m, stateHasUnknown(&m))
	return scheduler.Fill(state, kv.ModRevision), nil
}

// jobOf reads a definition with its revision.
func (s *Store) jobOf(kv *mvccpb.KeyValue) (scheduler.Job, error) {
	_, name, ok := s.keys.parseJob(string(kv.Key))
	if !ok {
		return scheduler.Job{}, unreadable("no job can have this key")
	}
	var m storedv1.Job
	if err := unmarshal(kv.Value, &m); err != nil {
		return scheduler.Job{}, err
	}
	job, err := decodeJob(name, &m)
	job.Revision = kv.ModRevision
	return job, err
}

// runOf reads the record in a slot.
func (s *Store) runOf(kv *mvccpb.KeyValue) (scheduler.Run, error) {
	uid, slot, ok := s.keys.parseRun(string(kv.Key))
	if !ok {
		return scheduler.Run{}, unreadable("no run record can have this key")
	}
	return readRun(uid, slot, kv)
}

func readRun(uid string, slot int, kv *mvccpb.KeyValue) (scheduler.Run, error) {
	var m storedv1.Run
	if err := unmarshal(kv.Value, &m); err != nil {
		return scheduler.Run{}, err
	}
	return decodeRun(uid, slot, &m)
}

// factOf reads what lock and slot say of the entry. The slot holds its end if it was written at or
// after the grant, for until then it is promised to nobody else.
func factOf(e scheduler.Entry, lock, slot *mvccpb.KeyValue, revision int64) EntryFact {
	fact := EntryFact{Firing: e.Firing, Attempt: e.Attempt, Token: e.Token, Revision: revision}
	if lock != nil && lock.CreateRevision == e.Token {
		fact.Lock = lock.CreateRevision
	}
	if slot == nil || slot.ModRevision < e.Token {
		return fact
	}
	run, err := readRun(e.Firing.UID, e.Slot, slot)
	if err != nil {
		fact.Unreadable = err
		run = scheduler.Run{
			Firing: e.Firing, Generation: e.Generation, Slot: e.Slot,
			Attempts: append(e.Past[:len(e.Past):len(e.Past)], scheduler.Attempt{
				Number: e.Attempt, Token: e.Token, Member: e.Member, Granted: e.Granted,
				Verdict: scheduler.Failed, Reason: scheduler.ReasonError, Message: "the record of its end cannot be read: " + err.Error(),
			}),
		}
	}
	if last := run.Last(); run.Firing == e.Firing && last.Number == e.Attempt && last.Verdict != "" {
		fact.Record = &run
	}
	return fact
}

// ReadEntry reads lock and slot of an attempt in flight in one transaction. Rule 12.
func (s *Store) ReadEntry(ctx context.Context, e scheduler.Entry) (EntryFact, error) {
	resp, err := s.read(ctx, clientv3.OpGet(s.keys.lock(e.Firing, 0)), clientv3.OpGet(s.keys.run(e.Firing.UID, e.Slot)))
	if err != nil {
		return EntryFact{}, fmt.Errorf("read lock and record of %s: %w", e.Firing, err)
	}
	return factOf(e, found(resp.Responses, 0), found(resp.Responses, 1), resp.Header.GetRevision()), nil
}

// FollowEntry delivers what is known of an attempt in flight whose token is filled in: at once, and
// when its lock goes. It returns nil after it has delivered the record, or that the lock is gone
// without one: nobody but the owner's Lose and the member's late result can write one then, and both
// write the state. Otherwise it returns when ctx ends. Rule 12.
func (s *Store) FollowEntry(ctx context.Context, e scheduler.Entry, deliver func(EntryFact)) error {
	look := func(ctx context.Context) (int64, error) {
		fact, err := s.ReadEntry(ctx, e)
		if err != nil {
			return 0, err
		}
		deliver(fact)
		if fact.Lock == 0 {
			return 0, errGone
		}
		return fact.Revision, nil
	}
	err := s.follow(ctx, follower{
		prefixes: []string{s.keys.lock(e.Firing, 0)},
		every:    lookAgain,
		list:     look,
		take: func(ctx context.Context, _ []*clientv3.Event) error {
			_, err := look(ctx)
			return err
		},
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// LockView is a lock as it lies in etcd.
type LockView struct {
	Job     scheduler.JobName
	Firing  scheduler.Firing
	Part    int
	Token   int64 // its create revision
	Member  string
	Nonce   string
	Attempt int
	Slot    int
	Lease   int64
}

// ReadLock reads a lock by its key, as the listing of a lease shows it; nil if it is gone. The member
// compares the nonce with what it holds (rule 3).
func (s *Store) ReadLock(ctx context.Context, key string) (*LockView, error) {
	f, part, ok := s.keys.parseLock(key)
	if !ok {
		return nil, fmt.Errorf("lock %q: %w", s.keys.short(key), unreadable("no lock can have this key"))
	}
	resp, err := s.get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", s.keys.short(key), err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	kv := resp.Kvs[0]
	var m storedv1.Lock
	if err := unmarshal(kv.Value, &m); err != nil {
		return nil, fmt.Errorf("lock %q: %w", s.keys.short(key), err)
	}
	return &LockView{
		Job:    scheduler.JobName{Namespace: m.GetNamespace(), Name: m.GetName()},
		Firing: f, Part: part, Token: kv.CreateRevision, Member: m.GetMember(), Nonce: m.GetNonce(),
		Attempt: int(m.GetAttempt()), Slot: int(m.GetSlot()), Lease: kv.Lease,
	}, nil
}

// Cancel is a request to end a running attempt of this member.
type Cancel struct {
	Job    scheduler.JobName
	Firing scheduler.Firing
	// Token is the attempt's; a later attempt is not concerned.
	Token  int64
	Caller string
}

// FollowQueue delivers every cancel addressed to the member, those waiting at first and again after
// each doubt: delivering one twice must do no harm. It returns when ctx ends. Rule 13.
func (s *Store) FollowQueue(ctx context.Context, member string, deliver func(Cancel)) error {
	put := func(kv *mvccpb.KeyValue) {
		_, f, ok := s.keys.parseCancel(string(kv.Key))
		var m storedv1.Cancel
		if err := unmarshal(kv.Value, &m); !ok || err != nil {
			s.log.Warn("cancel not readable", "key", s.keys.short(string(kv.Key)), "err", err)
			return
		}
		deliver(Cancel{
			Job:    scheduler.JobName{Namespace: m.GetNamespace(), Name: m.GetName()},
			Firing: f, Token: m.GetToken(), Caller: m.GetCaller(),
		})
	}
	return s.follow(ctx, follower{
		prefixes: []string{s.keys.cancels(member)},
		every:    lookAgain,
		list: func(ctx context.Context) (int64, error) {
			return s.paged(ctx, s.keys.cancels(member), 0, func(page *clientv3.GetResponse) error {
				for _, kv := range page.Kvs {
					put(kv)
				}
				return nil
			})
		},
		take: func(_ context.Context, events []*clientv3.Event) error {
			for _, e := range events {
				if e.Type == clientv3.EventTypePut {
					put(e.Kv)
				}
			}
			return nil
		},
	})
}

// DropCancel removes a cancel of the member that concerns nothing it runs.
func (s *Store) DropCancel(ctx context.Context, member string, f scheduler.Firing) error {
	_, err := s.commit(ctx, nil, []clientv3.Op{clientv3.OpDelete(s.keys.cancel(member, f))}, nil)
	return err
}
