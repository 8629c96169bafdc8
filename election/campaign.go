package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumcron/quorumcron/scheduler"
)

// The election's keys are below this and a slash, one for each candidate.
func (s *Sessions) electionPrefix() string { return s.cfg.Prefix + "election/dispatcher" }

// recheck is how long a watch is believed without a look at the key itself.
func (s *Sessions) recheck() time.Duration { return 3 * s.cfg.TTL }

// campaign stands for dispatcher, again after each term, until the context ends. lose is called when
// etcd refuses the candidacy because the lease is gone.
func (s *Sessions) campaign(ctx context.Context, attached *attachment, lose context.CancelCauseFunc) {
	for try := 0; ctx.Err() == nil; try++ {
		guard, err := s.elect(ctx, attached)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			lose(errLeaseGone)
			return
		}
		if err != nil {
			s.log.Debug("candidacy interrupted", "err", err)
			pause(ctx, try)
			continue
		}
		try = 0
		s.beginTerm(guard)
		if s.untilKeyGone(ctx, guard.Key, guard.CreateRevision) {
			s.endTerm("election key is gone")
		}
	}
}

// elect waits until this member is the dispatcher. The wait of concurrency.Election is a watch, and a
// watch is a hint: it is started again when it has missed that it is our turn.
func (s *Sessions) elect(ctx context.Context, attached *attachment) (scheduler.Guard, error) {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	election := concurrency.NewElection(attached.session, s.electionPrefix())
	group.Go(func() {
		own := fmt.Sprintf("%s/%x", s.electionPrefix(), attached.lease)
		ticker := time.NewTicker(s.recheck())
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if first, _, err := s.first(ctx); err == nil && (first.Key == "" || first.Key == own) {
				cancel()
			}
		}
	})
	if err := election.Campaign(ctx, s.cfg.Member.Name); err != nil {
		return scheduler.Guard{}, err
	}
	return scheduler.Guard{Key: election.Key(), CreateRevision: election.Rev()}, nil
}

// first returns the election key that was created first, and the candidate's name: the dispatcher. The
// key is "" when there is no candidate.
func (s *Sessions) first(ctx context.Context) (scheduler.Guard, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.Get(ctx, s.electionPrefix()+"/", clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return scheduler.Guard{}, "", err
	}
	kv := resp.Kvs[0]
	return scheduler.Guard{Key: string(kv.Key), CreateRevision: kv.CreateRevision}, string(kv.Value), nil
}

// Dispatcher asks etcd which member is the dispatcher; "" while there is none.
func (s *Sessions) Dispatcher(ctx context.Context) (string, error) {
	_, name, err := s.first(ctx)
	if err != nil {
		return "", fmt.Errorf("read the dispatcher: %w", err)
	}
	return name, nil
}

func (s *Sessions) beginTerm(guard scheduler.Guard) {
	s.mu.Lock()
	s.term = guard
	s.emitLocked(TermBegan{Guard: guard})
	s.mu.Unlock()
	s.handOut()
}

func (s *Sessions) endTerm(reason string) {
	s.mu.Lock()
	if s.term != (scheduler.Guard{}) {
		s.emitLocked(TermEnded{Guard: s.term, Reason: reason})
		s.term = scheduler.Guard{}
	}
	s.mu.Unlock()
	s.handOut()
}

// untilKeyGone waits until a key with that create revision is no more, and returns true; false when
// the context ends first. The watch only says when to look.
func (s *Sessions) untilKeyGone(ctx context.Context, key string, created int64) bool {
	for try := 0; ctx.Err() == nil; {
		resp, err := s.read(ctx, key)
		if err != nil {
			pause(ctx, try)
			try++
			continue
		}
		if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != created {
			return true
		}
		if s.untilTouched(ctx, key, resp.Header.Revision) {
			try = 0
			continue
		}
		pause(ctx, try)
		try = min(try+1, 10)
	}
	return false
}

func (s *Sessions) read(ctx context.Context, key string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	return s.client.Get(ctx, key)
}

// untilTouched watches a key, which exists at a revision, for its deletion from there on. It returns true when it is time to look at the key, and
// false when the watch broke.
func (s *Sessions) untilTouched(ctx context.Context, key string, since int64) bool {
	watch, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.recheck())
	defer cancel()
	for resp := range s.client.Watch(watch, key, clientv3.WithRev(since), clientv3.WithFilterPut()) {
		if resp.Err() != nil {
			return false
		}
		if len(resp.Events) > 0 {
			return true
		}
	}
	return watch.Err() != nil // the time was up
}
