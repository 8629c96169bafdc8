package store

import (
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func encodeRun(r scheduler.Run) (*storedv1.Run, error) {
	var e encoder
	m := &storedv1.Run{
		Namespace:     r.Job.Namespace,
		Name:          r.Job.Name,
		Firing:        encodeFiring(r.Firing),
		Generation:    r.Generation,
		Attempts:      e.attempts(r.Attempts),
		Output:        r.Output,
		OutputBytes:   r.OutputBytes,
		OutputDropped: r.OutputDropped,
		Shortened:     r.Shortened,
	}
	return m, e.err
}

// decodeRun reads the record found in a slot of the job uid.
func decodeRun(uid string, slot int, m *storedv1.Run) (scheduler.Run, error) {
	var d decoder
	if len(m.GetAttempts()) == 0 {
		d.fail("no attempt")
	}
	r := scheduler.Run{
		Job:           scheduler.JobName{Namespace: m.GetNamespace(), Name: m.GetName()},
		Firing:        decodeFiring(uid, m.GetFiring()),
		Generation:    m.GetGeneration(),
		Slot:          slot,
		Attempts:      d.attempts(m.GetAttempts()),
		Output:        m.GetOutput(),
		OutputBytes:   m.GetOutputBytes(),
		OutputDropped: m.GetOutputDropped(),
		Shortened:     m.GetShortened(),
	}
	return r, d.err
}

func encodePool(p scheduler.Pool) *storedv1.Pool {
	return &storedv1.Pool{Selector: p.Selector, Handler: p.Handler}
}

func decodePool(id string, m *storedv1.Pool) scheduler.Pool {
	return scheduler.Pool{ID: id, Selector: m.GetSelector(), Handler: m.GetHandler()}
}

func encodeAssignment(a scheduler.Assignment) *storedv1.Assignment {
	return &storedv1.Assignment{Members: a.Members, Owners: a.Owners[:]}
}

func decodeAssignment(pool string, m *storedv1.Assignment) (scheduler.Assignment, error) {
	var d decoder
	a := scheduler.Assignment{Pool: pool, Members: m.GetMembers()}
	if n := len(m.GetOwners()); n != scheduler.ShardCount {
		d.fail("owners of %d shards", n)
		return a, d.err
	}
	copy(a.Owners[:], m.GetOwners())
	for s, owner := range a.Owners {
		if int(owner) > len(a.Members) {
			d.fail("shard %02x is assigned to member %d of %d", s, owner, len(a.Members))
		}
	}
	return a, d.err
}

func encodeTrigger(t scheduler.Trigger) *storedv1.Trigger {
	return &storedv1.Trigger{Requested: encodeTime(t.Requested), Caller: t.Caller}
}

func decodeTrigger(id string, revision int64, m *storedv1.Trigger) (scheduler.Trigger, error) {
	var d decoder
	t := scheduler.Trigger{ID: id, Revision: revision, Requested: d.time("requested", m.GetRequested()), Caller: m.GetCaller()}
	return t, d.err
}
