package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ReadJob reads the definition, the state and the triggers of one job in one transaction, as an
// update that holds this job alone and tells its revision, not the shard's: for an owner whose write was
// refused for a reason it does not know. A job that is gone is among Gone.
func (s *Store) ReadJob(ctx context.Context, shard scheduler.Shard, name scheduler.JobName) (ShardUpdate, error) {
	resp, err := s.read(ctx,
		clientv3.OpGet(s.keys.job(shard, name)),
		clientv3.OpGet(s.keys.state(shard, name)),
		clientv3.OpGet(s.keys.triggers(shard, name), clientv3.WithPrefix()))
	if err != nil {
		return ShardUpdate{}, fmt.Errorf("read job %s: %w", name, err)
	}
	u := ShardUpdate{Shard: shard, Revision: resp.Header.GetRevision()}
	kv := found(resp.Responses, 0)
	if kv == nil {
		u.Gone = append(u.Gone, name)
		return u, nil
	}
	if _, ok := u.jobPut(s, kv); ok && !u.addState(s, 0, found(resp.Responses, 1)) {
		u.Quarantined = append(u.Quarantined, s.stateless(shard, name))
	}
	for _, kv := range kvs(resp.Responses, 2) {
		u.triggerPut(s, kv)
	}
	return u, nil
}

// ReadState reads a job's state, tokens filled in, and its mod revision; 0 if there is none.
func (s *Store) ReadState(ctx context.Context, shard scheduler.Shard, name scheduler.JobName) (scheduler.State, int64, error) {
	resp, err := s.get(ctx, s.keys.state(shard, name))
	if err != nil {
		return scheduler.State{}, 0, fmt.Errorf("read state of %s: %w", name, err)
	}
	if len(resp.Kvs) == 0 {
		return scheduler.State{}, 0, nil
	}
	state, err := s.stateOf(resp.Kvs[0])
	if err != nil {
		return scheduler.State{}, 0, fmt.Errorf("read state of %s: %w", name, err)
	}
	return state, resp.Kvs[0].ModRevision, nil
}

// stateless is the quarantine of a job that has a definition and no state.
func (s *Store) stateless(shard scheduler.Shard, name scheduler.JobName) Quarantined {
	return Quarantined{Key: s.keys.short(s.keys.state(shard, name)), Job: name, Err: unreadable("there is no state of this job")}
}
