package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// EditRequest asks for a change of one job.
type EditRequest struct {
	Name scheduler.JobName
	// ExpectRevision is the edit token: the change is refused unless the definition is at this
	// revision. 0 expects nothing.
	ExpectRevision int64
	// Now is the reading of the member that serves the call; NotBeyond bounds it as in
	// scheduler.View: no cursor moves past it. Zero means Now.
	Now       scheduler.Reading
	NotBeyond time.Time
}

// mostTries bounds how often a change is planned again because what it was planned on had moved.
const mostTries = 10

// settled is the state without the attempts whose records are there already.
func (s *Store) settled(ctx context.Context, p present) (scheduler.State, error) {
	jobs := []JobRecord{{Job: *p.job, State: *p.state}}
	err := s.ShowSettled(ctx, jobs)
	return jobs[0].State, err
}

// present is a job as it was read, in one transaction, before a change.
type present struct {
	revision int64 // etcd's
	job      *scheduler.Job
	jobValue *storedv1.Job // as stored, for its unknown fields
	jobKV    *mvccpb.KeyValue
	jobErr   error
	state    *scheduler.State
	stateKV  *mvccpb.KeyValue
	stateErr error
	triggers []scheduler.Trigger
	// calendars are those that the definition names, and the wanted one; they are read after the rest.
	calendars named
}

// inFlight says whether the state holds attempts, or owes some, of which it is not known how they end.
func (p present) inFlight() bool {
	return p.state != nil && len(p.state.Entries)+len(p.state.Retries) > 0
}

// change is a planned change: what to compare and to write, and the answer when it is committed. One
// without operations changes nothing.
type change struct {
	cmps []clientv3.Cmp
	then []clientv3.Op
	edit scheduler.Edit
}

// edit reads a job, plans a change and commits it; if somebody was faster it reads and plans again.
// names are calendars that the plan needs besides those of the definition that is there.
func (s *Store) edit(ctx context.Context, name scheduler.JobName, names []scheduler.CalendarName, plan func(present) (change, error)) (scheduler.Edit, error) {
	for range mostTries {
		p, err := s.present(ctx, name)
		if err == nil {
			if p.job != nil && !p.job.Tombstone() {
				names = append(slices.Clip(names), namesIn(*p.job)...)
			}
			p.calendars, err = s.readNamed(ctx, slices.Compact(slices.SortedFunc(slices.Values(names), byName)))
		}
		if err != nil {
			return scheduler.Edit{}, err
		}
		c, err := plan(p)
		if err != nil || len(c.then) == 0 {
			return c.edit, err
		}
		p.calendars.guard(s, &c)
		resp, err := s.commit(ctx, c.cmps, c.then, nil)
		if err != nil {
			return scheduler.Edit{}, fmt.Errorf("job %s: %w", name, err)
		}
		if resp.Succeeded {
			c.edit.Job.Revision = resp.Header.GetRevision()
			return c.edit, nil
		}
	}
	return scheduler.Edit{}, fmt.Errorf("%w: job %s changed %d times while this was being committed; try again", scheduler.ErrConflict, name, mostTries)
}

func (s *Store) present(ctx context.Context, name scheduler.JobName) (present, error) {
	shard := scheduler.ShardOf(name)
	resp, err := s.read(ctx,
		clientv3.OpGet(s.keys.job(shard, name)),
		clientv3.OpGet(s.keys.state(shard, name)),
		clientv3.OpGet(s.keys.triggers(shard, name), clientv3.WithPrefix()))
	if err != nil {
		return present{}, fmt.Errorf("job %s: %w", name, err)
	}
	p := present{revision: resp.Header.GetRevision(), jobKV: found(resp.Responses, 0), stateKV: found(resp.Responses, 1)}
	if p.jobKV != nil {
		p.jobValue = &storedv1.Job{}
		if p.jobErr = unmarshal(p.jobKV.Value, p.jobValue); p.jobErr == nil {
			var job scheduler.Job
			if job, p.jobErr = decodeJob(name, p.jobValue); p.jobErr == nil {
				job.Revision = p.jobKV.ModRevision
				p.job = &job
			}
		}
	}
	if p.stateKV != nil {
		var state scheduler.State
		if state, p.stateErr = s.stateOf(p.stateKV); p.stateErr == nil {
			p.state = &state
		}
	}
	var u ShardUpdate
	for _, kv := range kvs(resp.Responses, 2) {
		u.triggerPut(s, kv)
	}
	for _, t := range u.Triggers {
		p.triggers = append(p.triggers, t.Trigger)
	}
	return p, nil
}

// usable refuses what a change cannot be planned on: no job, its tombstone, an outdated edit token,
// or records that cannot be read.
func (p present) usable(r EditRequest) error {
	switch {
	case p.jobKV == nil:
		return fmt.Errorf("%w: job %s does not exist; `job list` shows what does", scheduler.ErrNotFound, r.Name)
	case p.jobErr != nil:
		return fmt.Errorf("%w: the stored definition of job %s: %w; apply the job again", scheduler.ErrConflict, r.Name, p.jobErr)
	case p.job.Tombstone():
		return fmt.Errorf("%w: job %s was deleted at %s", scheduler.ErrNotFound, r.Name, p.job.Deleted.Format(time.RFC3339))
	case r.ExpectRevision > 0 && r.ExpectRevision != p.job.Revision:
		return outdated(r, p.job.Revision)
	case p.state == nil:
		err := p.stateErr
		if err == nil {
			err = unreadable("there is none")
		}
		return fmt.Errorf("%w: the stored state of job %s: %w", scheduler.ErrConflict, r.Name, err)
	}
	return nil
}

func outdated(r EditRequest, revision int64) error {
	return fmt.Errorf("%w: job %s is at revision %d, not %d; read it again and repeat the change", scheduler.ErrConflict, r.Name, revision, r.ExpectRevision)
}

// put adds the definition and its mark, whose put tells followers that lost the event.
func (c *change) put(s *Store, shard scheduler.Shard, p present, job scheduler.Job) error {
	value, err := encodeJob(job)
	if err != nil {
		return fmt.Errorf("%w: job %s: %w", scheduler.ErrInvalid, job.Name, err)
	}
	if p.jobValue != nil && p.jobValue.GetUid() == job.UID {
		carryUnknown(p.jobValue, value)
	}
	bytes, err := marshal(value)
	if err != nil {
		return fmt.Errorf("%w: job %s: %w", scheduler.ErrInvalid, job.Name, err)
	}
	key := s.keys.job(shard, job.Name)
	if !cutEditJobCompare {
		// The definition is the one that was read: no edit overwrites another unseen.
		c.cmps = append(c.cmps, unchanged(key, revisionOf(p.jobKV)))
	}
	c.then = append(c.then, clientv3.OpPut(key, bytes), clientv3.OpPut(s.keys.mark(shard), ""))
	c.edit.Job = job
	return nil
}

// putState adds a state that follows from the one that was read.
func (c *change) putState(s *Store, shard scheduler.Shard, p present, name scheduler.JobName, state scheduler.State) error {
	value, err := encodeState(state)
	if err != nil {
		return fmt.Errorf("%w: state of job %s: %w", scheduler.ErrInvalid, name, err)
	}
	key := s.keys.state(shard, name)
	if p.state != nil && p.state.UID == state.UID {
		s.kept.carry(key, revisionOf(p.stateKV), value)
	}
	bytes, err := marshal(value)
	if err != nil {
		return fmt.Errorf("%w: state of job %s: %w", scheduler.ErrInvalid, name, err)
	}
	if !cutEditStateCompare {
		// The state is the one that was read: nothing was granted, ended or decided since, so that the
		// books that are closed here are complete.
		c.cmps = append(c.cmps, unchanged(key, revisionOf(p.stateKV)))
	}
	c.then = append(c.then, clientv3.OpPut(key, bytes))
	return nil
}

// closed is the state with the books closed under the old definition. A schedule that does not
// compile any more has nothing that could be accounted.
func (p present) closed(r EditRequest, reason scheduler.Reason) scheduler.State {
	timetable, _ := cron.Compile(p.job.Schedule.Spec())
	excluded, _ := p.calendars.compiled().Of(*p.job) // none with an error: what they exclude cannot be known
	view := scheduler.View{
		Job: *p.job, Timetable: timetable, Excluded: excluded, State: *p.state, StateRevision: p.stateKV.ModRevision,
		Triggers: p.triggers, NotBeyond: r.NotBeyond,
	}
	return scheduler.CloseBooks(view, r.Now, reason)
}

// Pause stops a job from being granted; what is due and undecided is SKIPPED(paused) in the same
// transaction. After the reply nothing is granted by its schedule. Rule 9.
func (s *Store) Pause(ctx context.Context, r EditRequest) (scheduler.Edit, error) {
	return s.setPaused(ctx, r, true)
}

// Resume lets a paused job be granted again; the instants of the pause are SKIPPED(paused). Rule 9.
func (s *Store) Resume(ctx context.Context, r EditRequest) (scheduler.Edit, error) {
	return s.setPaused(ctx, r, false)
}

func (s *Store) setPaused(ctx context.Context, r EditRequest, paused bool) (scheduler.Edit, error) {
	shard := scheduler.ShardOf(r.Name)
	return s.edit(ctx, r.Name, nil, func(p present) (c change, err error) {
		if err := p.usable(r); err != nil {
			return c, err
		}
		settled, err := s.settled(ctx, p)
		if err != nil {
			return c, err
		}
		c.edit = scheduler.Edit{Job: *p.job, Change: scheduler.Unchanged, Running: len(settled.Entries)}
		if p.job.Paused == paused {
			return c, nil
		}
		c.edit.Change = scheduler.Changed
		job := *p.job
		job.Paused, job.Edited = paused, r.Now.Wall.UTC()
		job.Generation++
		if err := c.put(s, shard, p, job); err != nil {
			return c, err
		}
		return c, c.putState(s, shard, p, r.Name, p.closed(r, scheduler.ReasonPaused))
	})
}

// Delete leaves a tombstone: nothing is granted after the reply, what is due and waiting is
// SKIPPED(deleted), owed retries end with their last attempt's verdict, and what is in flight is
// settled by the owner, who sweeps everything an hour later. What has ended is folded here, so that a
// settled name can be applied again at once. Rules 7 and 9.
func (s *Store) Delete(ctx context.Context, r EditRequest) (scheduler.Edit, error) {
	shard := scheduler.ShardOf(r.Name)
	return s.edit(ctx, r.Name, nil, func(p present) (c change, err error) {
		if err := p.usable(r); err != nil {
			return c, err
		}
		settled, err := s.settled(ctx, p)
		if err != nil {
			return c, err
		}
		p.state = &settled
		c.edit = scheduler.Edit{Change: scheduler.Changed, Running: len(settled.Entries)}
		job := *p.job
		job.Deleted = r.Now.Wall.UTC()
		if err := c.put(s, shard, p, job); err != nil {
			return c, err
		}
		if err := c.putState(s, shard, p, r.Name, p.closed(r, scheduler.ReasonDeleted)); err != nil {
			return c, err
		}
		triggers := s.keys.triggers(shard, r.Name)
		if !cutDeleteTriggers {
			// No trigger came after those that were counted. One that was consumed since has moved the
			// state.
			c.cmps = append(c.cmps, clientv3.Compare(clientv3.ModRevision(triggers).WithPrefix(), "<", p.revision+1))
		}
		c.then = append(c.then, clientv3.OpDelete(triggers, clientv3.WithPrefix()))
		return c, nil
	})
}

// newUID draws the uid of a new job.
func newUID(now time.Time) (string, error) {
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("draw a uid: %w", err)
	}
	return strings.ToLower(id.String()), nil
}
