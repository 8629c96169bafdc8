package executor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// tether is the node's end of the link to one supervisor, and the attempts that it carries.
type tether struct {
	link  *os.File
	log   *slog.Logger
	out   *outbox[order]
	ready chan struct{} // closed when hello has come
	gone  chan struct{} // closed when nothing will come any more
	hello hello         // set before ready is closed

	mu      sync.Mutex
	flights map[int64]*flight
	last    int64         // id of the newest flight
	pinged  int64         // number of the newest ping
	ponged  int64         // number of the newest answer
	landed  chan struct{} // one token: a flight has ended
	closed  bool          // takes no flights
}

// flight is one attempt on its way.
type flight struct {
	id    int64
	pid   int // leader of its session; 0 until it is started
	marks []string
	ended chan endedReport // buffered: the one report is never waited for
}

func newTether(link *os.File, log *slog.Logger) *tether {
	return &tether{
		link: link, log: log,
		out:     newOutbox[order](),
		ready:   make(chan struct{}),
		gone:    make(chan struct{}),
		flights: map[int64]*flight{},
		landed:  make(chan struct{}, 1),
	}
}

// start hands an attempt over. Its end comes from the flight, whatever happens.
func (t *tether) start(o startOrder) (*flight, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errStopped
	}
	t.last++
	o.ID = t.last
	f := &flight{id: o.ID, marks: o.Marks, ended: make(chan endedReport, 1)}
	t.flights[f.id] = f
	t.out.send(order{Start: &o})
	return f, nil
}

// readReports takes what the supervisor reports until the link ends.
func (t *tether) readReports(ctx context.Context) {
	defer close(t.gone)
	next := gobReports(t.link)
	for {
		r, err := next()
		if err != nil {
			return
		}
		t.take(ctx, r)
	}
}

func (t *tether) take(ctx context.Context, r report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.Hello != nil:
		t.hello = *r.Hello
		close(t.ready)
	case r.Pong != 0:
		t.ponged = r.Pong
	case r.Started != nil:
		if f := t.flights[r.Started.ID]; f != nil {
			f.pid = r.Started.Pid
		}
	case r.Ended != nil:
		t.land(*r.Ended)
	case r.Event != nil:
		facts := make([]any, len(r.Event.Facts))
		for i, fact := range r.Event.Facts {
			facts[i] = fact
		}
		t.log.Log(ctx, r.Event.Level, r.Event.Message, facts...)
	}
}

// land ends a flight. Each lands once.
func (t *tether) land(r endedReport) {
	f := t.flights[r.ID]
	if f == nil {
		return
	}
	delete(t.flights, r.ID)
	f.ended <- r
	select {
	case t.landed <- struct{}{}:
	default:
	}
}

// ping asks for a sign of life and returns how many have been asked for since the last one came.
func (t *tether) ping() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	missed := t.pinged - t.ponged
	t.pinged++
	t.out.send(order{Ping: t.pinged})
	return missed
}

// stop ends all flights as the node stopping and waits until they have landed, for at most stopLimit.
func (t *tether) stop() {
	t.mu.Lock()
	t.closed = true
	for id := range t.flights {
		t.out.send(order{End: &endOrder{ID: id, Cause: causeStopping}})
	}
	t.mu.Unlock()
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	for {
		t.mu.Lock()
		left := len(t.flights)
		t.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-t.landed:
		case <-t.gone:
			return
		case <-limit.C:
			return
		}
	}
}

// abandon lands what is left when the supervisor has ended, after all that it ran is dead.
func (t *tether) abandon(why cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if err := t.sweep(); err != nil {
		t.log.Error("processes of a dead supervisor left", "err", err)
	}
	for id := range t.flights {
		t.land(endedReport{ID: id, Died: true, Cause: why})
	}
}

// sweepLimit bounds how long the processes of a dead supervisor are hunted.
const sweepLimit = 5 * time.Second

// sweep kills what the attempts of a dead supervisor have left. Their main processes the kernel has
// killed (PDEATHSIG); what these had started has new parents now, and is known by its control group,
// its session and its environment.
func (t *tether) sweep() error {
	if len(t.flights) == 0 {
		return nil
	}
	var errs error
	if t.hello.Cgroup != "" {
		errs = killCgroup(t.hello.Cgroup)
	}
	deadline := bootNow() + sweepLimit
	retry := time.NewTicker(killRetry)
	defer retry.Stop()
	for {
		all, err := allProcesses()
		if err != nil {
			return errors.Join(errs, err)
		}
		left := 0
		all = descendants(all, 0)
		for _, f := range t.flights {
			for _, p := range ofAttempt(all, sessionOf(all, f), f.marks) {
				left++
				if err := killProcess(p); err != nil {
					errs = errors.Join(errs, err)
				}
			}
		}
		if left == 0 {
			break
		}
		if bootNow() > deadline {
			return errors.Join(errs, errors.New("they do not end though they were killed"))
		}
		<-retry.C
	}
	if t.hello.Cgroup != "" {
		removeCgroup(t.hello.Cgroup)
	}
	return nil
}

// sessionOf is the number of the session that the flight's main process led, 0 if it is another's by
// now. A number is not given out again while a process is in its session; so if it has a leader that
// is not the flight's, the flight's session is over.
func sessionOf(all []process, f *flight) int {
	for _, p := range all {
		if p.pid == f.pid && !carries(p.pid, f.marks) {
			return 0
		}
	}
	return f.pid
}
