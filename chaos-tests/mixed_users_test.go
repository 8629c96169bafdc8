package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
	v1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// callWithin is how long a user waits for an answer; then the outcome is unknown.
const callWithin = 4 * time.Second

// crowd are the users of a mixed run: they change, read and trigger through any node, while it may be
// dead, and write down what they were told.
type crowd struct {
	b     *bed
	nodes []string // who can be asked

	mu       sync.Mutex // guards all below
	changes  []history.Change
	reads    []history.Read
	previews []history.Preview
	problems []error // answers that no fault excuses
}

func newCrowd(b *bed) *crowd {
	c := &crowd{b: b}
	for _, n := range b.nodes {
		c.nodes = append(c.nodes, n.name)
	}
	return c
}

// resultOf says what a caller knows after a call: only a refusal is one, anything else may have been
// done.
func resultOf(err error) string {
	switch grpcstatus.Code(err) {
	case codes.OK:
		return history.OK
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.ResourceExhausted, codes.Unimplemented:
		return history.Failed
	}
	return history.Unknown
}

// change makes one call and notes it; call fills in what the reply says.
func (c *crowd) change(op, job string, call func(ctx context.Context, h *history.Change) error) history.Change {
	h := history.Change{Op: op, Job: job, Invoked: time.Now()}
	ctx, cancel := soon(callWithin)
	err := call(ctx, &h)
	cancel()
	h.Returned, h.Result = time.Now(), resultOf(err)
	if err != nil {
		h.Error = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, h)
	return h
}

// fill takes what an answer says of a job that it has changed.
func (h *reply) fill(j *v1.Job, change string) {
	if change != "unchanged" {
		h.UID, h.Generation, h.Revision = j.GetUid(), j.GetGeneration(), j.GetRevision()
	}
}

// reply is a change, seen as what the answer says.
type reply history.Change

func (c *crowd) jobs(node string) v1.JobServiceClient {
	return v1.NewJobServiceClient(c.b.users[node])
}

func (c *crowd) apply(node string, w wanted) history.Change {
	return c.change(history.Apply, w.name, func(ctx context.Context, h *history.Change) error {
		h.Spec = w.Spec
		text, err := json.Marshal(w.document())
		if err != nil {
			return err
		}
		job := &v1.Job{}
		if err := protojson.Unmarshal(text, job); err != nil {
			return grpcstatus.Error(codes.InvalidArgument, err.Error())
		}
		answer, err := c.jobs(node).Apply(ctx, &v1.JobServiceApplyRequest{Job: job})
		(*reply)(h).fill(answer.GetJob(), answer.GetChange())
		return err
	})
}

func (c *crowd) pause(node, job string) history.Change {
	return c.change(history.Pause, job, func(ctx context.Context, h *history.Change) error {
		answer, err := c.jobs(node).Pause(ctx, &v1.JobServicePauseRequest{Name: job})
		(*reply)(h).fill(answer.GetJob(), answer.GetChange())
		return err
	})
}

func (c *crowd) resume(node, job string) history.Change {
	return c.change(history.Resume, job, func(ctx context.Context, h *history.Change) error {
		answer, err := c.jobs(node).Resume(ctx, &v1.JobServiceResumeRequest{Name: job})
		(*reply)(h).fill(answer.GetJob(), answer.GetChange())
		return err
	})
}

func (c *crowd) remove(node, job string) history.Change {
	return c.change(history.Delete, job, func(ctx context.Context, h *history.Change) error {
		_, err := c.jobs(node).Delete(ctx, &v1.JobServiceDeleteRequest{Name: job})
		return err
	})
}

// trigger asks for a firing, and asks again with the same id while it does not know what became of it:
// one change in the eyes of the checker.
func (c *crowd) trigger(r *rand.Rand, job string) {
	id := fmt.Sprintf("r-%d", r.Int64())
	c.change(history.Trigger, job, func(_ context.Context, h *history.Change) error {
		var err error
		for range 3 {
			ctx, cancel := soon(callWithin)
			var answer *v1.JobServiceTriggerResponse
			answer, err = c.jobs(c.any(r)).Trigger(ctx, &v1.JobServiceTriggerRequest{Name: job, RequestId: id})
			cancel()
			if err == nil {
				h.Firing = answer.Firing
			}
			if resultOf(err) != history.Unknown {
				break
			}
		}
		return err
	})
}

// cancelOne cancels a firing of the job that is running, if one is.
func (c *crowd) cancelOne(node, job string) {
	ctx, cancel := soon(callWithin)
	list, err := v1.NewRunServiceClient(c.b.users[node]).List(ctx, &v1.RunServiceListRequest{Job: job, PageSize: 5})
	cancel()
	if err != nil {
		return
	}
	for _, run := range list.Runs {
		if run.Verdict != "" {
			continue
		}
		c.change(history.Cancel, job, func(ctx context.Context, h *history.Change) error {
			h.Firing = run.Firing
			_, err := v1.NewRunServiceClient(c.b.users[node]).Cancel(ctx, &v1.RunServiceCancelRequest{Firing: run.Firing})
			return err
		})
		return
	}
}

// read notes what a node shows of a job, and of its next instants.
func (c *crowd) read(node, job string) {
	h := history.Read{Job: job, Node: node, Invoked: time.Now()}
	ctx, cancel := soon(callWithin)
	answer, err := c.jobs(node).Get(ctx, &v1.JobServiceGetRequest{Name: job})
	cancel()
	h.Returned, h.Result = time.Now(), resultOf(err)
	if grpcstatus.Code(err) == codes.NotFound {
		h.Result = history.OK
	}
	var p history.Preview
	if j := answer.GetJob(); j != nil {
		h.Found, h.UID, h.Generation, h.Revision, h.Paused = true, j.Uid, j.Generation, j.Revision, j.Paused
	}
	if j := answer.GetJob(); j != nil && h.Returned.Sub(h.Invoked) < 200*time.Millisecond { // else nobody knows when it was looked up
		p = history.Preview{At: h.Invoked, Node: node, Job: job}
		for _, next := range j.NextInstants {
			p.Next = append(p.Next, next.AsTime())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, h)
	if len(p.Next) > 0 {
		c.previews = append(c.previews, p)
	}
}

func (c *crowd) any(r *rand.Rand) string { return c.nodes[r.IntN(len(c.nodes))] }

// users do something every second or so until stop is closed. What they do is drawn from the seed; what
// they are answered is not. Each job has one user who changes it, one call after the other.
func (c *crowd) work(seed uint64, end time.Time, stop <-chan struct{}) (wait func()) {
	var all sync.WaitGroup
	each := func(number uint64, every time.Duration, do func(r *rand.Rand, turn int)) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, number))
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				case <-time.After(every/2 + time.Duration(r.Int64N(int64(every)))):
					do(r, turn)
				}
			}
		})
	}
	specs := map[string]history.Spec{}
	for _, w := range usersLoad(end) {
		specs[w.name] = w.Spec
	}
	edited := specs[editedJob]
	each(1, 3*time.Second, func(r *rand.Rand, turn int) {
		edited.Version, edited.Exit = turn+1, r.IntN(3)
		c.apply(c.any(r), wanted{editedJob, edited})
	})
	rescheduled := specs[rescheduledJob]
	each(2, 4*time.Second, func(r *rand.Rand, turn int) {
		rescheduled.Version = turn + 1
		rescheduled.Period = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}[r.IntN(3)]
		c.apply(c.any(r), wanted{rescheduledJob, rescheduled})
	})
	each(3, 4*time.Second, func(r *rand.Rand, turn int) {
		if turn%2 == 0 {
			c.pause(c.any(r), pausedJob)
		} else {
			c.resume(c.any(r), pausedJob)
		}
	})
	recreated := specs[recreatedJob]
	each(4, 5*time.Second, func(r *rand.Rand, turn int) {
		if turn%2 == 0 {
			c.remove(c.any(r), recreatedJob)
			return
		}
		recreated.Version = turn
		c.apply(c.any(r), wanted{recreatedJob, recreated})
	})
	each(5, 2*time.Second, func(r *rand.Rand, _ int) { c.trigger(r, triggeredJob) })
	each(6, 7*time.Second, func(r *rand.Rand, _ int) { c.cancelOne(c.any(r), canceledJob) })
	shown := []string{editedJob, rescheduledJob, pausedJob, recreatedJob, "short-1", "minutely-1"}
	each(7, time.Second, func(r *rand.Rand, _ int) { c.read(c.any(r), shown[r.IntN(len(shown))]) })
	return all.Wait
}
