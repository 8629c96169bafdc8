package node

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
	"github.com/quorumcron/quorumcron/store"
)

// This file is what people ask of a member. Any member can serve any call: it reads and writes etcd,
// and the owner learns of a change by its watch. Errors wrap the sentinels of package scheduler; a
// write that returns nil is committed.

// nextShown is how many instants a job is shown with.
const nextShown = 5

// Apply makes a definition hold, with what is left out filled in. expectedRevision is the edit token,
// 0 for whatever is there. All that is wrong with the definition is in one scheduler.FieldErrors.
func (n *Node) Apply(ctx context.Context, job scheduler.Job, expectedRevision int64) (scheduler.Edit, error) {
	n.makeRoom(ctx)
	now := n.moment()
	edit, err := n.store.Apply(ctx, store.ApplyRequest{
		Job: job, ExpectRevision: expectedRevision, Now: now, NotBeyond: n.notBeyond(now),
	})
	if err == nil {
		edit.Warnings = append(edit.Warnings, n.poolWarnings(edit.Job)...)
		n.addNext(ctx, &edit)
		if p := edit.Job.Policy; p.Retry.MaxAttempts > 1 && p.OnLost == scheduler.OnLostFail {
			edit.Warnings = append(edit.Warnings,
				"policy.retry.maxAttempts has no effect yet without policy.onLost: retry; failed attempts are not retried")
		}
	}
	return edit, err
}

// Delete leaves a tombstone: nothing of the job is granted after the reply.
func (n *Node) Delete(ctx context.Context, job scheduler.JobName, expectedRevision int64) (scheduler.Edit, error) {
	return n.store.Delete(ctx, n.edit(job, expectedRevision))
}

// Pause keeps a job from being granted by its schedule until Resume.
func (n *Node) Pause(ctx context.Context, job scheduler.JobName, expectedRevision int64) (scheduler.Edit, error) {
	return n.store.Pause(ctx, n.edit(job, expectedRevision))
}

// Resume ends a pause; its instants are SKIPPED(paused).
func (n *Node) Resume(ctx context.Context, job scheduler.JobName, expectedRevision int64) (scheduler.Edit, error) {
	edit, err := n.store.Resume(ctx, n.edit(job, expectedRevision))
	if err == nil {
		edit.Warnings = append(edit.Warnings, n.poolWarnings(edit.Job)...)
		n.addNext(ctx, &edit)
	}
	return edit, err
}

// addNext says when the edited job is due next, and warns if nothing lies ahead: that is no mistake by itself,
// for calendars can change, and an old file may be applied again. When the calendars cannot be read, nothing is
// said; the edit stands.
func (n *Node) addNext(ctx context.Context, edit *scheduler.Edit) {
	if edit.Job.Paused {
		return
	}
	calendars, err := n.store.CalendarsOf(ctx, edit.Job)
	if err != nil {
		return
	}
	now := n.cfg.Clock().Wall
	if next, err := nextInstants(edit.Job, calendars, now, 1); err == nil && len(next) > 0 {
		edit.Next = next[0]
		return
	}
	bare := edit.Job
	bare.Schedule.Exclude = nil
	next, err := nextInstants(bare, calendars, now, 1)
	if err != nil || len(next) == 0 { // an end before the interval's origin leaves nothing to compile
		edit.Warnings = append(edit.Warnings, "all instants of the schedule have passed: the job never fires by it")
	} else {
		edit.Warnings = append(edit.Warnings, fmt.Sprintf("the calendars in schedule.exclude (%s) leave no instant in the next years: the job never fires by its schedule",
			strings.Join(edit.Job.Schedule.Exclude, ", ")))
	}
}

func (n *Node) edit(job scheduler.JobName, expectedRevision int64) store.EditRequest {
	now := n.moment()
	return store.EditRequest{Name: job, ExpectRevision: expectedRevision, Now: now, NotBeyond: n.notBeyond(now)}
}

// notBeyond is as far as an edit may move a cursor: a clock that is ahead must not swallow instants.
func (n *Node) notBeyond(now scheduler.Reading) time.Time {
	if b := n.carried(now); b.Before(now.Wall) {
		return b
	}
	return now.Wall
}

// carried is the wall clock as it was last believed, carried on by the elapsed clock.
func (n *Node) carried(now scheduler.Reading) time.Time {
	if b := n.believed.Load(); b != nil {
		return b.Wall.Add(now.Elapsed - b.Elapsed)
	}
	return now.Wall
}

// moment is when a call is served, for what others reckon from it: the start deadline of a trigger and
// the memory of its request id, the instant from which a new job has a schedule. A clock that has stepped,
// and is not believed, must not put any of them an hour off.
func (n *Node) moment() scheduler.Reading {
	now := n.cfg.Clock()
	if b := n.carried(now); now.Wall.Sub(b).Abs() > scheduler.StepLimit {
		now.Wall = b
	}
	return now
}

// Trigger asks for a firing outside the schedule. A repeat of a request id within a day is answered
// with the first firing.
func (n *Node) Trigger(ctx context.Context, t scheduler.TriggerRequest) (scheduler.TriggerReceipt, error) {
	n.makeRoom(ctx)
	receipt, err := n.store.Trigger(ctx, t, n.moment())
	if err != nil {
		return receipt, err
	}
	if r, err := n.store.Job(ctx, t.Job); err == nil {
		receipt.Warnings = n.poolWarnings(r.Job)
	}
	return receipt, nil
}

// Cancel ends a firing: it tells the member that runs it, and returns its name; a trigger or a retry
// that waits is taken out, and the name is "".
func (n *Node) Cancel(ctx context.Context, f scheduler.Firing) (member string, err error) {
	run, err := n.store.RunByFiring(ctx, f)
	if err != nil {
		return "", err
	}
	receipt, err := n.store.Cancel(ctx, run.Job, f, "", n.moment())
	return receipt.Member, err
}

// Job reads one job with what is known of it.
func (n *Node) Job(ctx context.Context, name scheduler.JobName) (scheduler.JobView, error) {
	r, err := n.store.Job(ctx, name)
	if err != nil {
		return scheduler.JobView{}, err
	}
	records := []store.JobRecord{r}
	if err := n.store.ShowSettled(ctx, records); err != nil {
		return scheduler.JobView{}, err
	}
	calendars, err := n.store.CalendarsOf(ctx, r.Job)
	if err != nil {
		return scheduler.JobView{}, err
	}
	return n.jobView(records[0], calendars, n.cfg.Clock().Wall, true), nil
}

// Jobs reads the next jobs by namespace and name; fewer than q.Limit means that there are no more.
func (n *Node) Jobs(ctx context.Context, q scheduler.JobQuery) ([]scheduler.JobView, error) {
	records, err := n.store.Jobs(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := n.store.ShowSettled(ctx, records); err != nil {
		return nil, err
	}
	jobs := make([]scheduler.Job, len(records))
	for i, r := range records {
		jobs[i] = r.Job
	}
	calendars, err := n.store.CalendarsOf(ctx, jobs...)
	if err != nil {
		return nil, err
	}
	now := n.cfg.Clock().Wall
	views := make([]scheduler.JobView, len(records))
	for i, r := range records {
		views[i] = n.jobView(r, calendars, now, false)
	}
	return views, nil
}

func (n *Node) jobView(r store.JobRecord, calendars *scheduler.Calendars, now time.Time, running bool) scheduler.JobView {
	pool := scheduler.PoolOf(r.Job)
	v := scheduler.JobView{Job: r.Job, Pool: pool.ID, Owner: n.ownerOf(pool.ID, r.Job.Name)}
	if r.StateRevision != 0 {
		v.State = shown(r, calendars, now)
		if running {
			v.Running = store.InFlight(r.Job.Name, r.State)
		}
	} else {
		v.Problem = "its state cannot be read"
	}
	if _, shut := calendars.Of(r.Job); shut != nil {
		v.Problem = shut.Error()
	}
	next, err := nextInstants(r.Job, calendars, now, nextShown)
	if err != nil && v.Problem == "" { // a newer version's schedule
		v.Problem = err.Error()
	}
	if !r.Job.Paused {
		v.Next = next
	}
	return v
}

// Next computes the next instants of a job after a time, now if it is zero.
func (n *Node) Next(ctx context.Context, name scheduler.JobName, after time.Time, count int) ([]time.Time, error) {
	r, err := n.store.Job(ctx, name)
	if err != nil {
		return nil, err
	}
	if after.IsZero() {
		after = n.cfg.Clock().Wall
	}
	calendars, err := n.store.CalendarsOf(ctx, r.Job)
	if err != nil {
		return nil, err
	}
	return nextInstants(r.Job, calendars, after, count)
}

// shown is a job's state with what is decided though it is not written yet.
func shown(r store.JobRecord, calendars *scheduler.Calendars, now time.Time) *scheduler.State {
	if len(r.Job.Schedule.Exclude) == 0 {
		return &r.State
	}
	table, err := cron.Compile(r.Job.Schedule.Spec())
	excluded, shut := calendars.Of(r.Job)
	if err != nil || shut != nil {
		return &r.State // it is put aside
	}
	state := scheduler.ShowExcluded(scheduler.View{Job: r.Job, Timetable: table, Excluded: excluded, State: r.State}, now)
	return &state
}

func nextInstants(job scheduler.Job, calendars *scheduler.Calendars, after time.Time, count int) ([]time.Time, error) {
	table, err := cron.Compile(job.Schedule.Spec())
	if err != nil {
		return nil, fmt.Errorf("schedule of job %s: %w", job.Name, err)
	}
	excluded, err := calendars.Of(job)
	if err != nil {
		return nil, fmt.Errorf("%w: job %s is put aside: %w", scheduler.ErrUnavailable, job.Name, err)
	}
	var instants []time.Time
	for at := excluded.Next(table, after); !at.IsZero() && len(instants) < count; at = excluded.Next(table, at) {
		instants = append(instants, at)
	}
	return instants, nil
}

// RunByFiring reads one run, running or ended.
func (n *Node) RunByFiring(ctx context.Context, f scheduler.Firing) (scheduler.Run, error) {
	return n.store.RunByFiring(ctx, f)
}

// Runs reads the next runs, newest first; fewer than q.Limit means that there are no more.
func (n *Node) Runs(ctx context.Context, q scheduler.RunQuery) ([]scheduler.Run, error) {
	return n.store.Runs(ctx, q)
}

// Output opens the output of an attempt that ran on this member.
func (n *Node) Output(_ context.Context, f scheduler.Firing, attempt int) (io.ReadCloser, error) {
	n.mu.Lock()
	e := n.executor
	n.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("%w: this member has not started yet", scheduler.ErrUnavailable)
	}
	return e.Output(f, attempt)
}
