package memetcd

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The errors of a connection, as gRPC words them. All of them leave a write's outcome unknown.
var (
	errReset   = status.Error(codes.Unavailable, "error reading from server: connection reset by peer")
	errPings   = status.Error(codes.Unavailable, "keepalive ping failed to receive ACK within timeout")
	errClosing = status.Error(codes.Unavailable, "transport is closing")
	errDropped = status.Error(codes.Unavailable, "error reading from server: EOF")
	errGone    = status.Error(codes.Canceled, "memetcd: the store is closed") // which etcd's client does not retry
	errClosed  = status.Error(codes.Canceled, "grpc: the client connection is closing")
)

// Link is the way between some clients and the cluster, with its faults. It starts without any.
// All its methods are safe for concurrent use, and act on what is under way too.
type Link struct {
	s    *Store
	name string
	dead deadline

	// guarded by s.mu
	counts       Counts
	generation   int  // a broken connection ends all that began before
	refused      bool // no connection can be made
	paused       bool // both ways stand still, nothing is lost
	cutRequests  bool
	cutReplies   bool
	frozen       bool // watches stand still
	requestDelay time.Duration
	replyDelay   time.Duration
	gate         chan struct{} // closed and replaced whenever a waiting call has to look again
	queue        []*request    // held up on the way to the server, in order
	waiting      []*request    // whose callers wait for them to arrive
	renewals     []*renewal    // keep-alives that wait for a leader
	streams      []*stream
	rules        []*rule
	eventRules   []*eventRule
}

// Link makes a new way to the cluster. The name stands in Revision.By and in Call.Link.
func (s *Store) Link(name string) *Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &Link{s: s, name: name, gate: make(chan struct{}), requestDelay: s.cfg.Latency, replyDelay: s.cfg.Latency}
	l.dead.expired = l.foundDead
	s.links = append(s.links, l)
	return l
}

// Client makes a client of its own, such as one process has. It closes when ctx ends, too.
func (s *Store) Client(ctx context.Context) *clientv3.Client { return s.Link("").Client(ctx) }

func (l *Link) requestsHeld() bool { return l.paused || l.cutRequests }
func (l *Link) repliesHeld() bool  { return l.paused || l.cutReplies }

// change runs f and wakes everything that waits on the link.
func (l *Link) change(f func()) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	f()
	if !l.requestsHeld() {
		l.release()
	}
	l.wake()
	if l.cutRequests || l.cutReplies {
		l.dead.start(l.s.cfg.DeadAfter)
	} else {
		l.dead.stop()
	}
}

func (l *Link) wake() {
	close(l.gate)
	l.gate = make(chan struct{})
	for _, st := range slices.Clone(l.streams) {
		st.resume()
	}
}

// Cut makes the link a black hole in both directions: calls hang until their deadline. If it is mended
// within Config.DeadAfter, what was sent and is still waited for arrives late, as TCP would have it;
// else the connection is found dead: what is under way fails as unavailable, its requests are lost,
// and new calls wait for a connection until their deadline.
func (l *Link) Cut() { l.change(func() { l.cutRequests, l.cutReplies = true, true; l.counts.Cuts++ }) }

// CutRequests is Cut in the direction to the server only.
func (l *Link) CutRequests() { l.change(func() { l.cutRequests = true; l.counts.Cuts++ }) }

// CutReplies is Cut in the direction to the client only: requests are carried out, nobody hears of it.
func (l *Link) CutReplies() { l.change(func() { l.cutReplies = true; l.counts.Cuts++ }) }

// Refuse breaks the connection (what is under way fails as unavailable, sent requests that have arrived
// stay carried out) and lets none be made: new calls wait for one until their deadline, since
// clients wait for a connection by default.
func (l *Link) Refuse() {
	l.change(func() { l.refused = true; l.counts.Refusals++; l.breakLocked(errReset) })
}

// Reset breaks the connection once; the next call finds a new one.
func (l *Link) Reset() { l.change(func() { l.counts.Resets++; l.breakLocked(errReset) }) }

// Mend ends Cut, CutRequests, CutReplies and Refuse.
func (l *Link) Mend() {
	l.change(func() { l.cutRequests, l.cutReplies, l.refused = false, false, false })
}

// Pause holds all traffic up, as a stalled network or a stopped process does. Nothing is lost and no
// ping fails: on Resume all of it arrives in order, also requests whose callers have given up.
func (l *Link) Pause() { l.change(func() { l.paused = true; l.counts.Pauses++ }) }

// Resume ends Pause.
func (l *Link) Resume() { l.change(func() { l.paused = false }) }

// FreezeWatches holds up the watches alone: no events, no answers to new watches or to progress
// requests. Thawed, they catch up from the history, or are cancelled if it has been compacted.
func (l *Link) FreezeWatches() { l.change(func() { l.frozen = true; l.counts.Freezes++ }) }

// ThawWatches ends FreezeWatches.
func (l *Link) ThawWatches() { l.change(func() { l.frozen = false }) }

// Delay sets how long each request and each reply (and watch response) is under way.
func (l *Link) Delay(request, reply time.Duration) {
	l.change(func() { l.requestDelay, l.replyDelay = request, reply })
}

func (l *Link) foundDead() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed || !l.cutRequests && !l.cutReplies {
		return
	}
	l.counts.FoundDead++
	l.refused = true // no new connection can be made through the cut
	l.breakLocked(errPings)
	close(l.gate)
	l.gate = make(chan struct{})
}

// breakLocked ends all calls and streams under way with err, and drops the requests held up.
func (l *Link) breakLocked(err error) {
	l.generation++
	l.counts.RequestsLost += int64(len(l.queue))
	l.queue, l.renewals = nil, nil
	for _, r := range l.waiting {
		r.finish(nil, err) // one that a rule holds may still land
	}
	for _, st := range slices.Clone(l.streams) {
		l.counts.StreamsBroken++
		st.end(err)
	}
}

func (l *Link) forget(r *request) {
	l.waiting = slices.DeleteFunc(l.waiting, func(o *request) bool { return o == r })
}

// release carries out the requests held up, in order. Of those whose caller has given up, only the
// ones held by a pause are: a cut has lost them.
func (l *Link) release() {
	queue := l.queue
	l.queue = nil
	for _, r := range queue {
		if r.orphan && !r.keep {
			l.counts.RequestsLost++
			continue
		}
		_, _ = r.arrive(l)
	}
}

// deadline is a timer that can be started twice and stopped.
type deadline struct {
	timer   *time.Timer
	running bool
	expired func()
}

func (d *deadline) start(after time.Duration) {
	if d.running {
		return
	}
	d.running = true
	if d.timer == nil {
		d.timer = time.AfterFunc(after, d.expired)
		return
	}
	d.timer.Reset(after)
}

func (d *deadline) stop() {
	if d.running {
		d.timer.Stop()
		d.running = false
	}
}
