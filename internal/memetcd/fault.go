package memetcd

import (
	"errors"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Counts says how often the faults of a link have taken hold: a test of a fault that did not is no test.
type Counts struct {
	Calls  int64 // unary calls begun
	Opened int64 // streams opened

	Cuts, Refusals, Resets, Pauses, Freezes int64 // how often the methods of these names were called
	FoundDead                               int64 // cut connections found dead by their pings
	StreamsBroken                           int64

	CallsRefused   int64 // gave up while there was no connection: certainly not carried out
	CallsHung      int64 // gave up while their request was held up
	Delayed        int64 // calls that were under way for some time
	RequestsHeld   int64 // requests held up by a cut or a pause
	RequestsLost   int64 // requests that never arrived
	RepliesLost    int64 // carried out, but the caller gave up or lost the connection before it knew
	RepliesDropped int64 // carried out, and answered with an error by DropReplies or Inject
	LateCommits    int64 // carried out after the caller had given up
	EventsDropped  int64 // by DropEvents
	WatchesHeld    int64 // watches that had to wait for events because of a freeze, pause or cut
	MessagesHeld   int64 // messages of streams held up on the way to the server
}

// Counts answers the counters.
func (l *Link) Counts() Counts {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.counts
}

// Fate is what a rule does with a call. The zero Fate lets it pass.
type Fate struct {
	RequestDelay, ReplyDelay time.Duration
	LoseRequest              bool          // not carried out; the caller gets an unknown error
	LoseReply                bool          // carried out; the caller gets an unknown error
	Late                     time.Duration // carried out after this, even if the caller has given up by then
	Err                      error         // not carried out; the caller gets this
}

// fate is the sum of what the rules of a link do with a call.
type fate struct {
	Fate
	hold *Held
}

// rule is one fault for calls that match.
type rule struct {
	left  int // calls still to be hit; negative is no limit
	match func(Call) bool
	fate  func(Call) Fate
	hold  *Held
}

// eventRule drops watch events that match.
type eventRule struct {
	left  int
	match func(*clientv3.Event) bool
}

// Writes matches every call that can change the store, except keep-alives.
func Writes(c Call) bool { return c.Write && c.Method != "KeepAlive" }

// WritesTo matches the puts, deletes and transactions that write a key with the prefix in any branch.
func WritesTo(prefix string) func(Call) bool {
	return func(c Call) bool {
		switch r := c.Request.(type) {
		case *pb.PutRequest:
			return strings.HasPrefix(string(r.Key), prefix)
		case *pb.DeleteRangeRequest:
			return strings.HasPrefix(string(r.Key), prefix)
		case *pb.TxnRequest:
			return txnWrites(r, prefix)
		}
		return false
	}
}

func txnWrites(r *pb.TxnRequest, prefix string) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		switch {
		case op.GetRequestPut() != nil:
			return strings.HasPrefix(string(op.GetRequestPut().Key), prefix)
		case op.GetRequestDeleteRange() != nil:
			return strings.HasPrefix(string(op.GetRequestDeleteRange().Key), prefix)
		case op.GetRequestTxn() != nil:
			return txnWrites(op.GetRequestTxn(), prefix)
		}
		return false
	})
}

func (l *Link) addRule(r *rule) {
	if r.match == nil {
		r.match = Writes
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.rules = append(l.rules, r)
}

// DropReplies has the next n matching calls carried out and then answered with an error that leaves
// the outcome unknown. n < 0 is all of them; a nil match is Writes.
func (l *Link) DropReplies(n int, match func(Call) bool) {
	l.addRule(&rule{left: n, match: match, fate: func(Call) Fate { return Fate{LoseReply: true} }})
}

// DropRequests has the next n matching calls fail with the same error, without being carried out.
func (l *Link) DropRequests(n int, match func(Call) bool) {
	l.addRule(&rule{left: n, match: match, fate: func(Call) Fate { return Fate{LoseRequest: true} }})
}

// CommitLate has the next n matching calls arrive only after the time given, no matter whether the
// caller still waits for them then.
func (l *Link) CommitLate(n int, after time.Duration, match func(Call) bool) {
	l.addRule(&rule{left: n, match: match, fate: func(Call) Fate { return Fate{Late: after} }})
}

// Inject asks f about every call: for faults drawn at random from a seed. f must not call the store.
func (l *Link) Inject(f func(Call) Fate) {
	l.addRule(&rule{left: -1, match: func(Call) bool { return true }, fate: f})
}

// ClearRules takes back DropReplies, DropRequests, CommitLate, Inject, DropEvents and unused Holds.
func (l *Link) ClearRules() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.rules, l.eventRules = nil, nil
}

// DropEvents has the next n matching events left out of what watches are sent, as a server with a
// bug once did. n < 0 is all of them; a nil match is any event.
func (l *Link) DropEvents(n int, match func(*clientv3.Event) bool) {
	if match == nil {
		match = func(*clientv3.Event) bool { return true }
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.eventRules = append(l.eventRules, &eventRule{n, match})
}

func (l *Link) dropEvents(events []*clientv3.Event) []*clientv3.Event {
	if len(l.eventRules) == 0 {
		return events
	}
	return slices.DeleteFunc(events, func(ev *clientv3.Event) bool {
		for _, r := range l.eventRules {
			if r.left != 0 && r.match(ev) {
				r.left--
				l.counts.EventsDropped++
				return true
			}
		}
		return false
	})
}

// fate asks the rules. The first that has anything to do with the call decides.
func (l *Link) fate(c Call) fate {
	for i, r := range l.rules {
		if r.left == 0 || !r.match(c) {
			continue
		}
		f := fate{hold: r.hold}
		if r.fate != nil {
			f.Fate = r.fate(c)
		}
		if f == (fate{}) {
			continue
		}
		if r.left--; r.left == 0 {
			l.rules = slices.Delete(l.rules, i, i+1)
		}
		return f
	}
	return fate{}
}

// Held is a request that is kept from arriving until the test lets it.
type Held struct {
	l      *Link
	caught chan struct{}
	r      *request
}

// ErrNotHeld is returned by Land if there is nothing to land.
var ErrNotHeld = errors.New("memetcd: no request is held")

// Hold keeps the next matching call from arriving. Its caller hangs until its deadline; the request
// arrives at Land. A nil match is Writes.
func (l *Link) Hold(match func(Call) bool) *Held {
	h := &Held{l: l, caught: make(chan struct{})}
	l.addRule(&rule{left: 1, match: match, hold: h})
	return h
}

// Caught is closed when a request has been caught.
func (h *Held) Caught() <-chan struct{} { return h.caught }

func (h *Held) catch(r *request) {
	h.r = r
	r.keep = true
	h.l.counts.RequestsHeld++
	close(h.caught)
}

// Land lets the request arrive now, and answers what the server says to it: for a transaction a
// *pb.TxnResponse. The caller gets it too if it still waits.
func (h *Held) Land() (any, error) {
	h.l.s.mu.Lock()
	defer h.l.s.mu.Unlock()
	r := h.r
	if r == nil {
		return nil, ErrNotHeld
	}
	h.r = nil
	return r.arrive(h.l)
}

// Lose has the request never arrive.
func (h *Held) Lose() {
	h.l.s.mu.Lock()
	defer h.l.s.mu.Unlock()
	if h.r != nil {
		h.r.finish(nil, errDropped)
		h.l.counts.RequestsLost++
	}
	h.r = nil
}
