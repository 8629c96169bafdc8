package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// users asks for this and that until the end, one call at a time, as operators and programs do. What they
// are told must be true: an error is one of those that are promised, and success is committed.
func (d *day) users(rng *rand.Rand, end time.Time) {
	for n := 0; time.Now().Before(end); n++ {
		time.Sleep(time.Duration(rng.IntN(600)) * time.Second)
		job := jobOfTheDay(rng, rng.IntN(24))
		ctx, cancel := context.WithTimeout(d.t.Context(), 8*time.Second)
		d.ask(ctx, rng, n, job)
		cancel()
	}
}

func (d *day) ask(ctx context.Context, rng *rand.Rand, n int, job scheduler.Job) {
	var edit scheduler.Edit
	var err error
	what := []string{"relabel", "reschedule", "pause", "resume", "delete", "apply", "trigger", "trigger", "cancel"}[rng.IntN(9)]
	switch what {
	case "relabel", "reschedule":
		view, read := d.desk.Job(ctx, job.Name)
		if err = read; err != nil {
			break
		}
		changed := view.Job
		if what == "relabel" {
			changed.Labels = map[string]string{"edit": fmt.Sprint(n)}
		} else {
			changed.Schedule = job.Schedule
		}
		edit, err = d.desk.Apply(ctx, changed, view.Job.Revision)
	case "apply":
		edit, err = d.desk.Apply(ctx, job, 0)
	case "pause":
		edit, err = d.desk.Pause(ctx, job.Name, 0)
	case "resume":
		edit, err = d.desk.Resume(ctx, job.Name, 0)
	case "delete":
		if rng.IntN(2) == 0 { // it comes back with the next apply of its name
			edit, err = d.desk.Delete(ctx, job.Name, 0)
		}
	case "trigger":
		err = d.trigger(ctx, n, job.Name)
	case "cancel":
		err = d.cancel(ctx, job.Name)
	}
	switch {
	case err == nil && edit.Change != "" && edit.Change != scheduler.Unchanged:
		if !d.ledger.defined(job.Name.String(), edit.Job.Revision) {
			d.t.Errorf("%s of job %s was answered with revision %d, at which nothing was committed", what, job.Name, edit.Job.Revision)
		}
		d.edits++
	case err != nil && !promised(err):
		d.t.Errorf("%s of job %s: %v, which is no error that is promised", what, job.Name, err)
	}
}

// promised says whether an error is one that callers are told of.
func promised(err error) bool {
	for _, e := range []error{scheduler.ErrUnknown, scheduler.ErrUnavailable, scheduler.ErrConflict, scheduler.ErrNotFound,
		scheduler.ErrPaused, scheduler.ErrEnded, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// trigger asks for a run, and asks again while it is not told what became of it.
func (d *day) trigger(ctx context.Context, n int, job scheduler.JobName) error {
	request := scheduler.TriggerRequest{Job: job, RequestID: fmt.Sprint("request-", n)}
	receipt, err := d.desk.Trigger(ctx, request)
	for try := 0; try < 20 && (errors.Is(err, scheduler.ErrUnknown) || errors.Is(err, scheduler.ErrUnavailable)); try++ {
		again, cancel := context.WithTimeout(d.t.Context(), 8*time.Second)
		receipt, err = d.desk.Trigger(again, request)
		cancel()
		time.Sleep(time.Second)
	}
	if err == nil && !d.ledger.asked(job.String(), receipt.Firing.Trigger) {
		d.t.Errorf("trigger of job %s was answered with firing %s, which nobody asked for", job, receipt.Firing)
	}
	return err
}

// cancel ends what runs, if something does.
func (d *day) cancel(ctx context.Context, job scheduler.JobName) error {
	view, err := d.desk.Job(ctx, job)
	if err != nil || view.State == nil || len(view.State.Entries) == 0 {
		return err
	}
	_, err = d.desk.Cancel(ctx, view.State.Entries[0].Firing)
	return err
}
