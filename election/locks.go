package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

const (
	// MaxLocks is how many locks hang on one lease at most: under etcd's authentication each put under
	// a lease checks every key of it.
	MaxLocks = 256
	// spareLocks is the room below which another lease is opened, so that a burst seldom waits for one.
	spareLocks = MaxLocks / 4
	// keepSpare is how long an empty surplus lease is kept.
	keepSpare = time.Minute
	// askPause is the shortest time between two keep-alives of a lease.
	askPause = 100 * time.Millisecond
)

// ErrNoLockLease says that no lock lease may take a lock at this moment. LockLeaseOpened or
// LockLeaseRenewed says when to ask again.
var ErrNoLockLease = errors.New("no lock lease may take locks")

// leasePhase is the life of a lock lease; doc.go draws it.
type leasePhase int

const (
	leaseOpen    leasePhase = iota // takes locks until K + 2/3 TTL
	leaseDoubted                   // unanswered for 2/3 TTL, or orphaned: takes none until it is answered
	leaseRetired                   // being revoked: takes none, is not kept alive
	leaseLost                      // etcd has it no more; known as long as something counts on its life
)

// lockLease is one lock lease. Sessions.mu guards its fields but the first and the last.
type lockLease struct {
	id    int64
	phase leasePhase
	sent  time.Duration // K: when the last answered keep-alive was sent
	held  int           // locks taken and not released
	empty time.Duration // since when held is 0
	poke  chan struct{} // size 1: "look now"
}

func (l *lockLease) wake() { signal(l.poke) }

func (s *Sessions) life(l *lockLease) scheduler.LockLife {
	return scheduler.LockLife{Sent: l.sent, TTL: s.cfg.TTL, Grace: s.cfg.Grace}
}

func (s *Sessions) usable(l *lockLease, now scheduler.Reading) bool {
	return s.orphaned == "" && l.phase == leaseOpen && now.Elapsed < s.life(l).ClaimUntil()
}

// keepLocks keeps lock leases open until the context ends.
func (s *Sessions) keepLocks(ctx context.Context) {
	var keepers sync.WaitGroup
	defer keepers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		for try := 0; ctx.Err() == nil && s.shortOfLocks(); try++ {
			l, err := s.openLockLease(ctx)
			if err != nil {
				if ctx.Err() == nil {
					s.setTrouble("lock", err.Error())
				}
				pause(ctx, try)
				continue
			}
			s.clearTrouble("lock")
			keepers.Go(func() { s.keep(ctx, l) })
			s.handOut()
		}
		s.dropSpare()
		timer.Reset(s.cfg.TTL)
		select {
		case <-ctx.Done():
		case <-s.needLease:
		case <-timer.C:
		}
	}
}

// shortOfLocks says whether another lease is to be opened. A doubted one counts: if etcd answers the
// grant of another, it answers its keep-alive too.
func (s *Sessions) shortOfLocks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphaned == "" && s.roomLocked(nil) < spareLocks
}

// roomLocked is how many locks the leases but one can still take.
func (s *Sessions) roomLocked(except *lockLease) int {
	room := 0
	for _, l := range s.leases {
		if l != except && (l.phase == leaseOpen || l.phase == leaseDoubted) {
			room += MaxLocks - l.held
		}
	}
	return room
}

func (s *Sessions) openLockLease(ctx context.Context) (*lockLease, error) {
	id, sent, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lockLease{id: id, sent: sent, empty: sent, poke: make(chan struct{}, 1)}
	s.leases = append(s.leases, l)
	s.emitLocked(LockLeaseOpened{ID: id})
	if s.orphaned != "" {
		s.doubtLocked(l)
	}
	return l, nil
}

// dropSpare retires a lease that has been empty for a while, if the others have room enough.
func (s *Sessions) dropSpare() {
	now := s.cfg.Clock().Elapsed
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range slices.Backward(s.leases) {
		if l.phase == leaseOpen && l.held == 0 && now-l.empty >= keepSpare && s.roomLocked(l) >= MaxLocks {
			l.phase = leaseRetired
			l.wake()
			return // One at a time is soon enough.
		}
	}
}

// keep sends a lease's keep-alives until it is lost or revoked, or the context ends. A keep-alive is
// not waited for before the next is sent: one that a slow link or a dead connection holds up must not
// delay the others. Each has the TTL to be answered, so that at most five are on their way.
func (s *Sessions) keep(ctx context.Context, l *lockLease) {
	var asks sync.WaitGroup
	defer asks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	asked, poked := s.sentOf(l), false
	for ctx.Err() == nil {
		now := s.cfg.Clock().Elapsed
		wait, ask := s.next(l, now, asked, poked)
		if ask {
			asked, poked = now, false
			asks.Go(func() { s.ask(ctx, l, now) })
			continue
		}
		switch s.phaseOf(l) {
		case leaseLost:
			return
		case leaseRetired:
			s.finishRetired(ctx, l)
			return
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.poke:
			poked = true
		}
	}
}

// next says whether a keep-alive is due now, and if not, how long to wait for the next thing to do; it
// doubts the lease when its time has come.
func (s *Sessions) next(l *lockLease, now, asked time.Duration, poked bool) (wait time.Duration, ask bool) {
	s.mu.Lock()
	defer s.handOut()
	defer s.mu.Unlock()
	if until := s.life(l).ClaimUntil(); l.phase == leaseOpen && now >= until {
		s.doubtLocked(l)
	}
	if s.orphaned != "" || l.phase > leaseDoubted {
		return s.cfg.TTL, false
	}
	due := asked + s.cfg.TTL/4
	if poked {
		due = min(due, asked+askPause)
	}
	if now >= due {
		return 0, true
	}
	if l.phase == leaseOpen {
		due = min(due, s.life(l).ClaimUntil())
	}
	return due - now, false
}

// ask sends one keep-alive. An answer counts from when it was sent, however late it comes.
func (s *Sessions) ask(ctx context.Context, l *lockLease, sent time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.TTL)
	defer cancel()
	_, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(l.id))
	switch {
	case err == nil:
		s.answered(l, sent)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.lost(l)
	default:
		s.log.Debug("keep-alive not answered", "lease", leaseText(l.id), "err", err)
	}
}

func (s *Sessions) answered(l *lockLease, sent time.Duration) {
	now := s.cfg.Clock().Elapsed
	s.mu.Lock()
	l.sent = max(l.sent, sent)
	renewed := l.phase == leaseDoubted && s.orphaned == "" && now < s.life(l).ClaimUntil()
	if renewed {
		l.phase = leaseOpen
		s.emitLocked(LockLeaseRenewed{ID: l.id})
	}
	s.mu.Unlock()
	if renewed {
		s.handOut()
	}
}

// doubtLocked stops claims under a lease and says so.
func (s *Sessions) doubtLocked(l *lockLease) {
	if l.phase != leaseOpen {
		return
	}
	l.phase = leaseDoubted
	s.emitLocked(LockLeaseDoubted{ID: l.id, Held: l.held})
}

// lost notes that etcd has no such lease.
func (s *Sessions) lost(l *lockLease) {
	s.mu.Lock()
	if l.phase == leaseLost {
		s.mu.Unlock()
		return
	}
	if l.phase != leaseRetired { // whoever retired it does not wait for the news
		s.emitLocked(LockLeaseLost{ID: l.id, Held: l.held})
	}
	l.phase = leaseLost
	s.clearOutLocked()
	s.mu.Unlock()
	l.wake()
	s.forget(l.id)
	signal(s.needLease)
	s.handOut()
}

// clearOutLocked drops what is lost and counted on by nobody.
func (s *Sessions) clearOutLocked() {
	s.leases = slices.DeleteFunc(s.leases, func(l *lockLease) bool { return l.phase == leaseLost && l.held == 0 })
}

// finishRetired revokes a lease until etcd says that it is gone.
func (s *Sessions) finishRetired(ctx context.Context, l *lockLease) {
	for try := 0; ctx.Err() == nil; try++ {
		err := s.revoke(ctx, l.id)
		if err == nil {
			s.lost(l)
			return
		}
		s.log.Debug("retired lease not revoked yet", "lease", leaseText(l.id), "err", err)
		pause(ctx, try)
	}
}

func (s *Sessions) phaseOf(l *lockLease) leasePhase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.phase
}

func (s *Sessions) sentOf(l *lockLease) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.sent
}

func (s *Sessions) findLocked(id int64) *lockLease {
	if i := slices.IndexFunc(s.leases, func(l *lockLease) bool { return l.id == id }); i >= 0 {
		return s.leases[i]
	}
	return nil
}

// LockLease returns a lease that may take one more lock, and counts that lock; Release gives it back.
// Hold it from before the Begin is sent until the lock is known to be gone or never to have been.
func (s *Sessions) LockLease(now scheduler.Reading) (scheduler.LockLease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The first with room, so that what is claimed together hangs on one lease: a group of claims
	// closes where the lease changes.
	for _, l := range s.leases {
		if l.held < MaxLocks && s.usable(l, now) {
			l.held++
			if s.roomLocked(nil) < spareLocks {
				signal(s.needLease)
			}
			return scheduler.LockLease{ID: l.id, Hold: s.cfg.TTL + s.cfg.Grace}, nil
		}
	}
	if s.orphaned != "" {
		return scheduler.LockLease{}, fmt.Errorf("%w: sessions let die: %s", ErrNoLockLease, s.orphaned)
	}
	return scheduler.LockLease{}, ErrNoLockLease
}

// Release gives back one lock of a lease that LockLease returned.
func (s *Sessions) Release(id int64) {
	now := s.cfg.Clock().Elapsed
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.findLocked(id)
	if l == nil || l.held == 0 {
		s.log.Error("lock released more often than taken", "lease", leaseText(id))
		return
	}
	l.held--
	l.empty = now
	s.clearOutLocked()
}

// LockLife returns how long the locks under a lease may be trusted. It stands still when the lease is
// lost; for a lease that nothing is held under all deadlines have passed.
func (s *Sessions) LockLife(id int64) scheduler.LockLife {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.findLocked(id); l != nil {
		return s.life(l)
	}
	// Deadlines at or before the machine's start.
	return scheduler.LockLife{Sent: -s.cfg.TTL - s.cfg.Grace, TTL: s.cfg.TTL, Grace: s.cfg.Grace}
}

// Suspect asks etcd about a lease at once: for a caller whose put was refused because the lease is
// gone. The answer comes as an event.
func (s *Sessions) Suspect(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.findLocked(id); l != nil {
		l.wake()
	}
}

// Retire gives up a doubted lock lease under which nothing runs: it takes no locks any more, is revoked
// as soon as etcd answers, and another is opened in its place. Claims still unresolved under it can
// then no longer commit. A lease that was renewed meanwhile is kept: others may count on it again.
func (s *Sessions) Retire(id int64) {
	s.mu.Lock()
	l := s.findLocked(id)
	if l != nil && l.phase == leaseDoubted {
		l.phase = leaseRetired
		l.wake()
	}
	s.mu.Unlock()
	signal(s.needLease)
}

// ListLocks asks etcd which keys hang on each lock lease (rule 3). Leases that are lost are left out.
// With an error the map has those that were answered.
func (s *Sessions) ListLocks(ctx context.Context) (map[int64][]string, error) {
	s.mu.Lock()
	var asked []*lockLease
	for _, l := range s.leases {
		if l.phase != leaseLost {
			asked = append(asked, l)
		}
	}
	s.mu.Unlock()
	keys := make(map[int64][]string, len(asked))
	var errs []error
	for _, l := range asked {
		found, err := s.keysOf(ctx, l.id)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.lost(l)
		case err != nil:
			errs = append(errs, fmt.Errorf("list locks of lease %s: %w", leaseText(l.id), err))
		default:
			keys[l.id] = found
		}
	}
	return keys, errors.Join(errs...)
}

func (s *Sessions) keysOf(ctx context.Context, id int64) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
	if err != nil {
		return nil, err
	}
	if gone(resp) {
		return nil, rpctypes.ErrLeaseNotFound
	}
	keys := make([]string, len(resp.Keys))
	for i, key := range resp.Keys {
		keys[i] = string(key)
	}
	return keys, nil
}
