package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ApplyRequest asks for a definition to hold.
type ApplyRequest struct {
	// Job is the definition. Its uid, generation, revision and dates are ignored; an origin left open
	// is filled in.
	Job scheduler.Job
	// ExpectRevision is the edit token, 0 for none.
	ExpectRevision int64
	// Now and NotBeyond are as in EditRequest.
	Now       scheduler.Reading
	NotBeyond time.Time
}

// Apply makes a definition hold: it creates the job or changes it, and writes nothing if the job is
// already so, which makes a repeat after an unknown outcome safe. When the schedule or the pause
// changes, or which calendars exclude instants, what is due under the old definition gets its verdict in the same transaction; other edits
// keep the cursor. After the reply nothing is granted under an older definition. Rule 9.
//
// Over a settled tombstone it starts a new uid, and the former one's records go; over one with an
// attempt in flight it is an ErrConflict that names the member.
func (s *Store) Apply(ctx context.Context, r ApplyRequest) (scheduler.Edit, error) {
	r.Job = r.Job.WithDefaults()
	if problems := r.Job.Validate(); len(problems) > 0 {
		return scheduler.Edit{}, scheduler.FieldErrors(problems)
	}
	e := EditRequest{Name: r.Job.Name, ExpectRevision: r.ExpectRevision, Now: r.Now, NotBeyond: r.NotBeyond}
	return s.edit(ctx, r.Job.Name, namesIn(r.Job), func(p present) (change, error) {
		if unchanged := p.job != nil && r.Job.Anchored(*p.job, r.Now.Wall).SameDefinition(*p.job); !unchanged {
			if err := s.missing(ctx, r.Job, p.calendars); err != nil {
				return change{}, err
			}
		}
		switch {
		case r.ExpectRevision > 0 && r.ExpectRevision != revisionOf(p.jobKV):
			return change{}, outdated(e, revisionOf(p.jobKV))
		case p.stateErr != nil:
			return change{}, fmt.Errorf("%w: the stored state of job %s: %w", scheduler.ErrConflict, e.Name, p.stateErr)
		case p.jobKV == nil && !p.inFlight(), p.job != nil && p.job.Tombstone():
			return s.create(ctx, p, r, e)
		case p.jobErr != nil || p.state == nil || p.jobKV == nil: // the last: removed by hand, and its attempts are nobody's
			return s.repair(p, r, e)
		}
		return s.replace(ctx, p, r, e)
	})
}

// create starts a new uid, over nothing or over a settled tombstone. An attempt whose record is there has ended,
// though its owner takes a while to fold it.
func (s *Store) create(ctx context.Context, p present, r ApplyRequest, e EditRequest) (c change, err error) {
	shard := scheduler.ShardOf(e.Name)
	if p.job != nil && p.state != nil {
		settled, err := s.settled(ctx, p)
		if err != nil {
			return c, err
		}
		p.state = &settled
	}
	if p.inFlight() {
		return c, fmt.Errorf("%w: job %s was deleted, and an attempt of it still runs on %s; apply it again when that has ended",
			scheduler.ErrConflict, e.Name, strings.Join(membersOf(*p.state), ", "))
	}
	if err := s.room(); err != nil {
		return c, fmt.Errorf("job %s is new: %w", e.Name, err)
	}
	now := r.Now.Wall.UTC()
	job := r.Job.Anchored(scheduler.Job{}, now)
	if job.UID, err = newUID(now); err != nil {
		return c, err
	}
	job.Generation, job.Created, job.Edited, job.Deleted = 1, now, now, time.Time{}
	c.edit.Change = scheduler.Created
	if err := c.put(s, shard, p, job); err != nil {
		return c, err
	}
	if err := c.putState(s, shard, p, e.Name, scheduler.NewState(job, e.instant())); err != nil {
		return c, err
	}
	if p.job != nil {
		// The former uid is settled; nobody would sweep its records under the new one.
		c.then = append(c.then,
			clientv3.OpDelete(s.keys.runs(p.job.UID), clientv3.WithPrefix()),
			clientv3.OpDelete(s.keys.triggers(shard, e.Name), clientv3.WithPrefix()))
	}
	return c, c.putPool(s, job)
}

// replace changes a job that is there. Attempts whose records are there are folded, for whether another one
// follows is settled by the definition under which they ended: their entries may wait for an hour, and a
// firing that people have seen end must not go on because of an edit after it.
func (s *Store) replace(ctx context.Context, p present, r ApplyRequest, e EditRequest) (c change, err error) {
	shard, old := scheduler.ShardOf(e.Name), *p.job
	now := r.Now.Wall.UTC()
	job := r.Job.Anchored(old, now)
	settled, err := s.settled(ctx, p)
	if err != nil {
		return c, err
	}
	moved := len(settled.Entries) < len(p.state.Entries)
	p.state = &settled
	c.edit = scheduler.Edit{Job: old, Change: scheduler.Unchanged, Running: len(settled.Entries)}
	if job.SameDefinition(old) {
		return c, nil
	}
	job.UID, job.Generation, job.Created, job.Edited, job.Deleted = old.UID, old.Generation+1, old.Created, now, time.Time{}
	c.edit.Change = scheduler.Changed
	if err := c.put(s, shard, p, job); err != nil {
		return c, err
	}
	if scheduler.ClosesBooks(old, job) && !cutEditPast {
		reason := scheduler.ReasonEdited
		if job.Paused && !old.Paused {
			reason = scheduler.ReasonPaused
		}
		settled, moved = p.closed(e, reason), true
	}
	if moved {
		if err := c.putState(s, shard, p, e.Name, settled); err != nil {
			return c, err
		}
	}
	return c, c.putPool(s, job)
}

// repair applies over a definition that cannot be read, or has no state. What was due under a
// definition that nobody can read cannot be accounted: the cursor becomes now.
func (s *Store) repair(p present, r ApplyRequest, e EditRequest) (c change, err error) {
	shard := scheduler.ShardOf(e.Name)
	now := r.Now.Wall.UTC()
	job := r.Job.Anchored(scheduler.Job{}, now)
	job.Generation, job.Created, job.Edited, job.Deleted = p.jobValue.GetGeneration()+1, now, now, time.Time{}
	var state scheduler.State
	switch {
	case p.state != nil:
		job.UID, state = p.state.UID, *p.state
		state.Backlog = nil
		if at := e.instant(); at.After(state.Cursor) || cutRepairCursor {
			state.Cursor = time.Unix(at.Unix(), 0).UTC()
		}
		for _, entry := range state.Entries {
			job.Generation = max(job.Generation, entry.Generation+1)
		}
	case p.job != nil:
		job.UID, job.Created = p.job.UID, p.job.Created
		state = scheduler.NewState(job, e.instant())
	default:
		if job.UID, err = newUID(now); err != nil {
			return c, err
		}
		state = scheduler.NewState(job, e.instant())
	}
	s.log.Warn("job repaired", "job", e.Name.String(), "err", p.jobErr)
	c.edit = scheduler.Edit{Change: scheduler.Changed, Running: len(state.Entries)}
	if err := c.put(s, shard, p, job); err != nil {
		return c, err
	}
	if err := c.putState(s, shard, p, e.Name, state); err != nil {
		return c, err
	}
	return c, c.putPool(s, job)
}

// putPool adds the job's pool if it is not there. A pool never changes, so that nothing is compared.
func (c *change) putPool(s *Store, job scheduler.Job) error {
	pool := scheduler.PoolOf(job)
	value, err := marshal(encodePool(pool))
	if err != nil {
		return fmt.Errorf("%w: pool of job %s: %w", scheduler.ErrInvalid, job.Name, err)
	}
	key := s.keys.pool(pool.ID)
	c.then = append(c.then, clientv3.OpTxn([]clientv3.Cmp{absent(key)}, []clientv3.Op{clientv3.OpPut(key, value)}, nil))
	return nil
}

// instant is the latest instant that a cursor may be moved to.
func (r EditRequest) instant() time.Time {
	if !r.NotBeyond.IsZero() && r.NotBeyond.Before(r.Now.Wall) {
		return r.NotBeyond.UTC()
	}
	return r.Now.Wall.UTC()
}

// membersOf are the members that run attempts of a state, each once.
func membersOf(s scheduler.State) []string {
	var members []string
	seen := map[string]bool{}
	for _, e := range s.Entries {
		if !seen[e.Member] {
			seen[e.Member] = true
			members = append(members, e.Member)
		}
	}
	return members
}
