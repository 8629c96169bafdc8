package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// mostWaiting bounds the triggers that wait for one job.
const mostWaiting = 1000

// Trigger stores a request for a firing outside the schedule. A repeat of its request id is answered
// with the first firing (Repeated); the same id for another job or by another caller is an
// ErrConflict. After ErrUnknown a repeat with the same id is safe and tells which firing it is. Rule 8.
func (s *Store) Trigger(ctx context.Context, r scheduler.TriggerRequest, now scheduler.Reading) (scheduler.TriggerReceipt, error) {
	if problems := r.Validate(); len(problems) > 0 {
		return scheduler.TriggerReceipt{}, scheduler.FieldErrors(problems)
	}
	id, err := newUID(now.Wall)
	if err != nil {
		return scheduler.TriggerReceipt{}, err
	}
	for range mostTries {
		receipt, done, err := s.triggerOnce(ctx, r, id, now)
		if err != nil {
			return receipt, fmt.Errorf("trigger of job %s: %w", r.Job, err)
		}
		if done {
			return receipt, nil
		}
	}
	return scheduler.TriggerReceipt{}, fmt.Errorf("%w: job %s changed %d times while its trigger was being committed; try again", scheduler.ErrConflict, r.Job, mostTries)
}

func (s *Store) triggerOnce(ctx context.Context, r scheduler.TriggerRequest, id string, now scheduler.Reading) (receipt scheduler.TriggerReceipt, done bool, err error) {
	shard := scheduler.ShardOf(r.Job)
	jobKey, requestKey := s.keys.job(shard, r.Job), s.keys.request(r.Job.Namespace, r.RequestID)
	read, err := s.read(ctx, clientv3.OpGet(jobKey), clientv3.OpGet(requestKey),
		clientv3.OpGet(s.keys.triggers(shard, r.Job), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return receipt, false, err
	}
	if kv := found(read.Responses, 1); kv != nil {
		receipt, err = served(r, kv.Value)
		return receipt, true, err
	}
	kv := found(read.Responses, 0)
	if kv == nil {
		return receipt, false, fmt.Errorf("%w: it does not exist; `job list` shows what does", scheduler.ErrNotFound)
	}
	job, err := s.jobOf(kv)
	switch {
	case err != nil:
		return receipt, false, fmt.Errorf("%w: its definition: %w; apply the job again", scheduler.ErrConflict, err)
	case job.Tombstone():
		return receipt, false, fmt.Errorf("%w: it was deleted at %s", scheduler.ErrNotFound, job.Deleted.Format(time.RFC3339))
	case job.Paused:
		return receipt, false, fmt.Errorf("%w: resume it first (`job resume %s`)", scheduler.ErrPaused, argument(r.Job))
	case read.Responses[2].GetResponseRange().GetCount() >= mostWaiting:
		return receipt, false, fmt.Errorf("%w: %d triggers of it are waiting already", scheduler.ErrExhausted, mostWaiting)
	}
	if err := s.room(); err != nil { // after the repeats, which are answered whatever the size
		return receipt, false, err
	}
	receipt.Firing = scheduler.Triggered(job.UID, id)
	trigger, err := marshal(encodeTrigger(scheduler.Trigger{Requested: now.Wall, Caller: r.Caller}))
	if err != nil {
		return receipt, false, fmt.Errorf("%w: %w", scheduler.ErrInvalid, err)
	}
	request, err := marshal(&storedv1.Request{
		Job: r.Job.Name, Uid: job.UID, Firing: encodeFiring(receipt.Firing), Caller: r.Caller,
		Parameters: parametersOf(r), Requested: encodeTime(now.Wall),
	})
	if err != nil {
		return receipt, false, fmt.Errorf("%w: %w", scheduler.ErrInvalid, err)
	}
	triggerKey := s.keys.trigger(shard, r.Job, id)
	cmps, then := []clientv3.Cmp{absent(triggerKey)}, []clientv3.Op{clientv3.OpPut(triggerKey, trigger)}
	if !cutTriggerJobCompare {
		// The job is the one that was read, so that no trigger outlives a delete unseen.
		cmps = append(cmps, unchanged(jobKey, kv.ModRevision))
	}
	if !cutRequestID {
		// The request id was not served meanwhile, by this member or another, and will not be again.
		cmps, then = append(cmps, absent(requestKey)), append(then, clientv3.OpPut(requestKey, request))
	}
	resp, err := s.commit(ctx, cmps, then, nil)
	if err != nil {
		return receipt, false, err
	}
	return receipt, resp.Succeeded, nil
}

// served answers a repeat.
func served(r scheduler.TriggerRequest, value []byte) (scheduler.TriggerReceipt, error) {
	var m storedv1.Request
	if err := unmarshal(value, &m); err != nil {
		return scheduler.TriggerReceipt{}, fmt.Errorf("%w: request id %q was served, but its record: %w", scheduler.ErrConflict, r.RequestID, err)
	}
	if m.GetJob() != r.Job.Name || m.GetCaller() != r.Caller || !bytes.Equal(m.GetParameters(), parametersOf(r)) {
		return scheduler.TriggerReceipt{}, fmt.Errorf("%w: request id %q has served another request (job %q); use a new id", scheduler.ErrConflict, r.RequestID, m.GetJob())
	}
	return scheduler.TriggerReceipt{Firing: decodeFiring(m.GetUid(), m.GetFiring()), Repeated: true}, nil
}

// parametersOf is the hash of everything a trigger asks for beside its request id.
func parametersOf(r scheduler.TriggerRequest) []byte {
	sum := sha256.Sum256([]byte("trigger\x00" + r.Job.String()))
	return sum[:16]
}
