package node

import (
	"context"
	"sync"

	"github.com/quorumcron/quorumcron/executor"
	"github.com/quorumcron/quorumcron/scheduler"
)

// held is an attempt of this process, from before its Begin is sent until its end is recorded: what
// the orphan check compares the locks in etcd with (rule 3).
type held struct {
	job     scheduler.JobName
	firing  scheduler.Firing
	attempt int
	nonce   string
	lease   int64
	command bool
	cancel  context.CancelCauseFunc // ends the attempt
	// unsure: it is let go without knowing that its lock is gone. Only its own goroutine touches it.
	unsure bool

	mu              sync.Mutex // guards the two below
	token, canceled int64      // of the grant once it is known; of the attempt that a cancel named, 0 for none
}

// granted notes the token of the grant, and ends the attempt if that has been asked for already: the
// cancel may overtake the answer to the Begin.
func (a *held) granted(token int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = token
	if a.canceled == token && !cutCancelEarly {
		a.cancel(executor.ErrCanceled)
	}
}

// wanted ends the attempt if it is the one with this token. It reports whether it is, or may be.
func (a *held) wanted(token int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != 0 && a.token != token {
		return false
	}
	a.canceled = token
	if a.token == token {
		a.cancel(executor.ErrCanceled)
	}
	return true
}

// askedToEnd says whether a cancel was taken for this attempt.
func (a *held) askedToEnd() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.canceled != 0
}

// kind is the executor's name, for metrics.
func (a *held) kind() string {
	if a.command {
		return "command"
	}
	return "handler"
}

// holdings is what this process holds. It is safe for concurrent use.
type holdings struct {
	mu       sync.Mutex // guards the fields below
	byNonce  map[string]*held
	firings  map[scheduler.Firing]int // how many are held of each
	commands int
	doubted  map[int64]bool // lock leases that are not to be started under any more
	// unwritten are attempts, by nonce, that ran and were let go without their end in etcd, with the reason:
	// who closes their lock must not say that they never started.
	unwritten map[string]error
}

func newHoldings() *holdings {
	return &holdings{byNonce: map[string]*held{}, firings: map[scheduler.Firing]int{}, doubted: map[int64]bool{}, unwritten: map[string]error{}}
}

func (h *holdings) add(a *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byNonce[a.nonce] = a
	h.firings[a.firing]++
	if a.command {
		h.commands++
	}
}

func (h *holdings) remove(a *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byNonce[a.nonce] == nil {
		return
	}
	delete(h.byNonce, a.nonce)
	if h.firings[a.firing]--; h.firings[a.firing] == 0 {
		delete(h.firings, a.firing)
	}
	if a.command {
		h.commands--
	}
}

// has says whether an attempt with this nonce is held.
func (h *holdings) has(nonce string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byNonce[nonce] != nil
}

// sound says whether an attempt with this nonce is held, under a lease that is not doubted.
func (h *holdings) sound(nonce string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.byNonce[nonce]
	return a != nil && !h.doubted[a.lease]
}

// of says whether an attempt of the firing is held.
func (h *holdings) of(f scheduler.Firing) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.firings[f] > 0
}

// cancelAttempt ends the attempt of a firing that has the token. It reports whether one may have it.
func (h *holdings) cancelAttempt(f scheduler.Firing, token int64) bool {
	for _, a := range h.all() { // a lost attempt may still run here beside the one that followed it
		if a.firing == f && a.wanted(token) {
			return true
		}
	}
	return false
}

// count returns how many attempts of a kind are held.
func (h *holdings) count(k kind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k == commands {
		return h.commands
	}
	return len(h.byNonce) - h.commands
}

// all returns what is held, in no order.
func (h *holdings) all() []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*held, 0, len(h.byNonce))
	for _, a := range h.byNonce {
		list = append(list, a)
	}
	return list
}

// doubt marks a lock lease: grants under it that have not started are never started (rule 11).
func (h *holdings) doubt(lease int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubted[lease] = true
}

// trust takes a doubt back: the lease was answered after all.
func (h *holdings) trust(lease int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.doubted, lease)
}

// notWritten notes that an attempt ran whose end etcd did not take.
func (h *holdings) notWritten(nonce string, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unwritten[nonce] = why
}

// whyUnwritten says why the end of an attempt that ran is not in etcd; nil if it did not run.
func (h *holdings) whyUnwritten(nonce string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unwritten[nonce]
}

// ended forgets what notWritten noted: the attempt has its end.
func (h *holdings) ended(nonce string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unwritten, nonce)
}

// under says whether anything is held under the lease.
func (h *holdings) under(lease int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.byNonce {
		if a.lease == lease {
			return true
		}
	}
	return false
}

// none says whether nothing is held.
func (h *holdings) none() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byNonce) == 0
}

func (h *holdings) isDoubted(lease int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubted[lease]
}
