package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/scheduler"
)

// fakeNode is a member that keeps its cluster in maps. It obeys the contracts of api's interfaces, so that
// tests look at what a client gets and not at which method was called when.
type fakeNode struct {
	name string

	mu        sync.Mutex
	revision  int64
	jobs      map[scheduler.JobName]scheduler.JobView
	runs      map[scheduler.Firing]scheduler.Run
	requests  map[string]scheduler.TriggerRequest // by namespace and id
	firings   map[string]scheduler.Firing
	waiting   map[scheduler.Firing]bool
	calendars map[scheduler.CalendarName]scheduler.Calendar
	outputs   map[string][]byte // by firing and attempt
	members   []scheduler.MemberView
	status    scheduler.ClusterStatus
	draining  bool
	readiness scheduler.Readiness
	dead      error
	// trouble is what every operation returns instead of doing anything; alarm is what it panics with.
	trouble error
	alarm   any
	// deadline is that of the last call.
	deadline time.Time

	watchers map[chan scheduler.RunEvent]bool
	watching chan struct{} // gets a value for each new watcher
}

var _ api.Node = (*fakeNode)(nil)

func newFakeNode(name string) *fakeNode {
	return &fakeNode{
		name:      name,
		revision:  100,
		jobs:      make(map[scheduler.JobName]scheduler.JobView),
		calendars: make(map[scheduler.CalendarName]scheduler.Calendar),
		runs:      make(map[scheduler.Firing]scheduler.Run),
		requests:  make(map[string]scheduler.TriggerRequest),
		firings:   make(map[string]scheduler.Firing),
		waiting:   make(map[scheduler.Firing]bool),
		outputs:   make(map[string][]byte),
		readiness: scheduler.Readiness{Ready: true},
		watchers:  make(map[chan scheduler.RunEvent]bool),
		watching:  make(chan struct{}, 8), // more than any test has watchers
	}
}

// enter begins each operation: it takes the lock, or fails as the test wants. The caller unlocks.
func (n *fakeNode) enter(ctx context.Context) error {
	n.mu.Lock()
	n.deadline, _ = ctx.Deadline()
	if n.alarm != nil {
		panic(n.alarm)
	}
	return n.trouble
}

// testUID makes a uid of the right form from a number.
func testUID(i int) string { return fmt.Sprintf("01jd%022d", i) }

func (n *fakeNode) Apply(ctx context.Context, j scheduler.Job, expected int64) (scheduler.Edit, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.Edit{}, err
	}
	j = j.WithDefaults()
	if errs := j.Validate(); len(errs) > 0 {
		return scheduler.Edit{}, scheduler.FieldErrors(errs)
	}
	old, exists := n.jobs[j.Name]
	if err := checkToken(old.Job, expected); err != nil {
		return scheduler.Edit{}, err
	}
	edit := scheduler.Edit{Change: scheduler.Created, Warnings: []string{"pool all has no member"}}
	j.UID, j.Generation = testUID(len(n.jobs)), 1
	if exists {
		edit.Change = scheduler.Changed
		j.UID, j.Generation = old.Job.UID, old.Job.Generation
		j.Revision, j.Created, j.Edited = old.Job.Revision, old.Job.Created, old.Job.Edited
		if reflect.DeepEqual(j, old.Job) {
			edit.Job, edit.Change = j, scheduler.Unchanged
			return edit, nil
		}
		j.Generation++
	}
	n.revision++
	j.Revision = n.revision
	n.jobs[j.Name] = scheduler.JobView{Job: j}
	edit.Job = j
	return edit, nil
}

func checkToken(j scheduler.Job, expected int64) error {
	if expected != 0 && expected != j.Revision {
		return fmt.Errorf("%w: it is at revision %d now, not %d", scheduler.ErrConflict, j.Revision, expected)
	}
	return nil
}

// change is what Delete, Pause and Resume share.
func (n *fakeNode) change(
	ctx context.Context, name scheduler.JobName, expected int64, do func(*scheduler.Job),
) (scheduler.Edit, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.Edit{}, err
	}
	v, exists := n.jobs[name]
	if !exists {
		return scheduler.Edit{}, scheduler.ErrNotFound
	}
	if err := checkToken(v.Job, expected); err != nil {
		return scheduler.Edit{}, err
	}
	edit := scheduler.Edit{Job: v.Job, Change: scheduler.Unchanged, Running: len(v.Running)}
	if do == nil {
		delete(n.jobs, name)
		edit.Change = scheduler.Changed
		return edit, nil
	}
	do(&v.Job)
	if v.Job.Paused != edit.Job.Paused {
		n.revision++
		v.Job.Revision = n.revision
		edit.Job, edit.Change = v.Job, scheduler.Changed
		n.jobs[name] = v
	}
	return edit, nil
}

func (n *fakeNode) Delete(ctx context.Context, name scheduler.JobName, expected int64) (scheduler.Edit, error) {
	return n.change(ctx, name, expected, nil)
}

func (n *fakeNode) Pause(ctx context.Context, name scheduler.JobName, expected int64) (scheduler.Edit, error) {
	return n.change(ctx, name, expected, func(j *scheduler.Job) { j.Paused = true })
}

func (n *fakeNode) Resume(ctx context.Context, name scheduler.JobName, expected int64) (scheduler.Edit, error) {
	return n.change(ctx, name, expected, func(j *scheduler.Job) { j.Paused = false })
}

func (n *fakeNode) Job(ctx context.Context, name scheduler.JobName) (scheduler.JobView, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.JobView{}, err
	}
	v, exists := n.jobs[name]
	if !exists {
		return v, scheduler.ErrNotFound
	}
	return v, nil
}

func (n *fakeNode) Jobs(ctx context.Context, q scheduler.JobQuery) ([]scheduler.JobView, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	names := slices.SortedFunc(maps.Keys(n.jobs), func(a, b scheduler.JobName) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	var page []scheduler.JobView
	for _, name := range names {
		if (q.Namespace == "" || q.Namespace == name.Namespace) && q.After.Before(name) && len(page) < q.Limit {
			page = append(page, n.jobs[name])
		}
	}
	return page, nil
}

func (n *fakeNode) Next(
	ctx context.Context, name scheduler.JobName, after time.Time, count int,
) ([]time.Time, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	v, exists := n.jobs[name]
	if !exists {
		return nil, scheduler.ErrNotFound
	}
	var instants []time.Time
	for i := range count {
		instants = append(instants, after.Add(time.Duration(i+1)*v.Job.Schedule.Every))
	}
	return instants, nil
}

func (n *fakeNode) Trigger(ctx context.Context, r scheduler.TriggerRequest) (scheduler.TriggerReceipt, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.TriggerReceipt{}, err
	}
	v, exists := n.jobs[r.Job]
	if !exists {
		return scheduler.TriggerReceipt{}, scheduler.ErrNotFound
	}
	key := r.Job.Namespace + "/" + r.RequestID
	first, repeated := n.requests[key]
	if repeated && first != r {
		return scheduler.TriggerReceipt{}, fmt.Errorf("%w: request id %s has triggered %s",
			scheduler.ErrConflict, r.RequestID, first.Job)
	}
	if !repeated {
		n.requests[key] = r
		n.firings[key] = scheduler.Triggered(v.Job.UID, r.RequestID)
		n.waiting[n.firings[key]] = true
	}
	return scheduler.TriggerReceipt{Firing: n.firings[key], Repeated: repeated}, nil
}

func (n *fakeNode) Cancel(ctx context.Context, f scheduler.Firing) (string, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return "", err
	}
	if n.waiting[f] {
		delete(n.waiting, f)
		return "", nil
	}
	run, exists := n.runs[f]
	switch {
	case !exists:
		return "", scheduler.ErrNotFound
	case run.Last().Verdict != "":
		return "", fmt.Errorf("%w: %s", scheduler.ErrEnded, run.Last().Verdict)
	}
	return run.Last().Member, nil
}

func (n *fakeNode) RunByFiring(ctx context.Context, f scheduler.Firing) (scheduler.Run, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.Run{}, err
	}
	run, exists := n.runs[f]
	if !exists {
		return run, scheduler.ErrNotFound
	}
	return run, nil
}

func (n *fakeNode) Runs(ctx context.Context, q scheduler.RunQuery) ([]scheduler.Run, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	all := slices.SortedFunc(maps.Values(n.runs), func(a, b scheduler.Run) int {
		return scheduler.NewestFirst(a.Place(), b.Place())
	})
	var page []scheduler.Run
	for _, r := range all {
		if (q.Namespace == "" || q.Namespace == r.Job.Namespace) && (q.Job == "" || q.Job == r.Job.Name) &&
			(q.After == nil || scheduler.NewestFirst(*q.After, r.Place()) < 0) && len(page) < q.Limit {
			page = append(page, r)
		}
	}
	return page, nil
}

func (n *fakeNode) Output(ctx context.Context, f scheduler.Firing, attempt int) (io.ReadCloser, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	output, exists := n.outputs[outputKey(f, attempt)]
	if !exists {
		return nil, scheduler.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(output)), nil
}

func outputKey(f scheduler.Firing, attempt int) string { return fmt.Sprintf("%s %d", f, attempt) }

func (n *fakeNode) WatchRuns(ctx context.Context, deliver func(scheduler.RunEvent) error) error {
	err := n.enter(ctx)
	events := make(chan scheduler.RunEvent, 16) // more than any test sends
	n.watchers[events] = true
	n.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		n.mu.Lock()
		delete(n.watchers, events)
		n.mu.Unlock()
	}()
	n.watching <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			if err := deliver(e); err != nil {
				return err
			}
		}
	}
}

// happen tells every watcher of an event.
func (n *fakeNode) happen(e scheduler.RunEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for events := range n.watchers {
		events <- e
	}
}

func (n *fakeNode) Status(ctx context.Context) (scheduler.ClusterStatus, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return scheduler.ClusterStatus{}, err
	}
	status := n.status
	status.Members, status.Readiness = n.members, n.readiness
	return status, nil
}

func (n *fakeNode) Members(ctx context.Context) ([]scheduler.MemberView, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	return n.members, nil
}

func (n *fakeNode) Drain(ctx context.Context) (bool, error) {
	defer n.mu.Unlock()
	if err := n.enter(ctx); err != nil {
		return false, err
	}
	already := n.draining
	n.draining = true
	return already, nil
}

func (n *fakeNode) Ready() scheduler.Readiness {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.readiness
}

func (n *fakeNode) Alive() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// set changes the fake under its lock.
func (n *fakeNode) set(do func(*fakeNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do(n)
}
