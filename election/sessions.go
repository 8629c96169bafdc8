package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

const (
	// leastCall and mostCall bound callTimeout.
	leastCall, mostCall = time.Second, 3 * time.Second
	// closeTimeout bounds the end of Run: what is not revoked by then is left to expire.
	closeTimeout = 3 * time.Second
	// maxBackoff bounds the pause between tries while etcd is away.
	maxBackoff = time.Second
)

// Sessions holds the leases of one node: that of its member key, and those of its locks. It is safe
// for concurrent use.
type Sessions struct {
	cfg    Config
	client *clientv3.Client
	log    *slog.Logger

	needLease chan struct{} // size 1: "see whether another lock lease is needed"
	needWrite chan struct{} // size 1: "the member key does not show what it should"
	writing   chan struct{} // size 1: held by whoever writes the member key's content

	mu          sync.Mutex // guards all below
	started     bool
	events      []Event                 // not yet handed out, oldest first
	handing     bool                    // someone hands them out
	wish        scheduler.Member        // what the member key is to show
	member      scheduler.Member        // what it shows; the zero value when this process is no member
	written     string                  // its value
	memberLease int64                   // from its grant until etcd says that it is gone; 0 then
	term        scheduler.Guard         // of this member's term as dispatcher; zero outside one
	orphaned    string                  // why the sessions are let die; "" when they are not
	letGo       context.CancelCauseFunc // ends the membership; Orphan calls it
	recovered   chan struct{}           // closed and replaced by Recover
	troubles    []trouble
	leases      []*lockLease // in the order they were opened
}

// trouble is one thing that stands in the way of work.
type trouble struct{ part, reason string }

// New returns sessions that Run will open. It starts nothing.
func New(config Config) (*Sessions, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return &Sessions{
		cfg:       config,
		client:    config.Client,
		log:       config.Logger.With("member", config.Member.Name),
		wish:      config.Member,
		recovered: make(chan struct{}),
		needLease: make(chan struct{}, 1),
		needWrite: make(chan struct{}, 1),
		writing:   make(chan struct{}, 1),
	}, nil
}

// Run opens the sessions and keeps them until the context ends; then it revokes their leases within a
// bounded time, so that it is to be stopped last. It returns nil after a stop that was asked for, and
// an error only when this process must not go on: ErrNameTaken. It never ends because etcd is away.
// It can be called once.
func (s *Sessions) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return errors.New("sessions: Run was called twice")
	}
	s.started = true
	s.mu.Unlock()

	defer s.close(ctx)
	life, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	if s.cfg.Folder != nil && s.cfg.Folder.note != "" {
		s.log.Warn("data folder repaired", "note", s.cfg.Folder.note)
	}
	s.revokePredecessors(life)
	joined := make(chan struct{})
	group.Go(func() {
		// Locks only for members: a process whose name is taken leaves no lease behind.
		select {
		case <-joined:
			s.keepLocks(life)
		case <-life.Done():
		}
	})
	return s.keepMember(life, joined)
}

// callTimeout bounds every call to etcd but the keep-alives. A member of etcd that hangs holds up what is
// sent to it, and the next try goes to another: several must fit into the life of a lease.
func (s *Sessions) callTimeout() time.Duration { return min(mostCall, max(leastCall, s.cfg.TTL/3)) }

// close revokes what is left, under a context of its own: that of Run has ended, and a session closed
// under an ended context lives on for its whole TTL.
func (s *Sessions) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	s.mu.Lock()
	var ids []int64
	if s.memberLease != 0 {
		ids = append(ids, s.memberLease)
	}
	for _, l := range s.leases {
		if l.phase != leaseLost {
			ids = append(ids, l.id)
		}
	}
	s.memberLease = 0
	s.mu.Unlock()

	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			if err := s.revoke(ctx, id); err != nil {
				s.log.Warn("lease left to expire", "lease", leaseText(id), "err", err)
			}
		})
	}
	group.Wait()
	s.mu.Lock()
	for _, l := range s.leases {
		l.phase = leaseLost
	}
	s.mu.Unlock()
}

// revokePredecessors ends the leases of the process that held the data folder before: holding its
// flock proves that it and all it started are dead.
func (s *Sessions) revokePredecessors(ctx context.Context) {
	if s.cfg.Folder == nil {
		return
	}
	for _, id := range s.cfg.Folder.takePredecessors() {
		s.untilDone(ctx, "member", func(ctx context.Context) error {
			if err := s.revoke(ctx, id); err != nil {
				return fmt.Errorf("revoke lease %s of the process before: %w", leaseText(id), err)
			}
			return nil
		})
		if ctx.Err() == nil {
			s.log.Info("lease of the process before revoked", "lease", leaseText(id))
		}
	}
}

// revoke ends a lease and forgets it in the data folder. A lease that is gone is no error.
func (s *Sessions) revoke(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	_, err := s.client.Revoke(ctx, clientv3.LeaseID(id))
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	s.forget(id)
	return nil
}

// grant opens a lease and writes its id down before anyone uses it. sent is when it was asked for:
// the lease lives until sent + TTL at least.
func (s *Sessions) grant(ctx context.Context) (id int64, sent time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	sent = s.cfg.Clock().Elapsed
	seconds := int64(s.cfg.TTL / time.Second)
	resp, err := s.client.Grant(ctx, seconds)
	if err != nil {
		return 0, 0, fmt.Errorf("open a lease: %w", err)
	}
	id = int64(resp.ID)
	if resp.TTL != seconds {
		// Nothing is unsafe about a longer life, but a dead member is noticed later than promised.
		s.log.Warn("etcd granted another TTL than asked for", "asked", s.cfg.TTL, "granted", time.Duration(resp.TTL)*time.Second)
	}
	s.remember(id)
	return id, sent, nil
}

// remember and forget keep the data folder's list of leases. A full disk costs the quick restart only.
func (s *Sessions) remember(id int64) {
	if s.cfg.Folder != nil {
		s.noteFolder(s.cfg.Folder.addLease(id))
	}
}

func (s *Sessions) forget(id int64) {
	if s.cfg.Folder != nil {
		s.noteFolder(s.cfg.Folder.dropLease(id))
	}
}

func (s *Sessions) noteFolder(err error) {
	if err != nil {
		s.log.Warn("data folder not written", "err", err)
	}
}

// alive asks etcd whether it has a lease: the only answer that is believed. An error means unknown.
func (s *Sessions) alive(ctx context.Context, id int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for lease %s: %w", leaseText(id), err)
	}
	return !gone(resp), nil
}

// gone says whether etcd answered that it has no such lease. The remaining TTL does not tell: it is 0
// in the last second of a lease, and negative while an expired one waits to be revoked with its keys.
func gone(resp *clientv3.LeaseTimeToLiveResponse) bool { return resp.GrantedTTL == 0 }

// untilDone repeats a call until it succeeds or the context ends, and shows meanwhile, as a trouble of
// that part, what stands in the way.
func (s *Sessions) untilDone(ctx context.Context, part string, call func(context.Context) error) {
	for try := 0; ctx.Err() == nil; try++ {
		err := call(ctx)
		if err == nil {
			s.clearTrouble(part)
			return
		}
		if ctx.Err() == nil {
			s.setTrouble(part, err.Error())
			pause(ctx, try)
		}
	}
	s.dropTrouble(part) // Nobody tries any more.
}

// pause waits before the next try: 50 ms, doubling up to maxBackoff, with a fifth of it random so that
// a fleet does not come back in step.
func pause(ctx context.Context, try int) {
	wait := min(maxBackoff, 50*time.Millisecond<<min(try, 10))
	wait -= rand.N(wait / 5)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// signal leaves a token in a channel of size 1, if there is none.
func signal(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// emitLocked queues an event; handOut delivers it after the caller has let go of mu. Queueing under mu
// keeps the events in the order of the changes they tell of.
func (s *Sessions) emitLocked(event Event) { s.events = append(s.events, event) }

// handOut delivers what is queued, one event at a time. Whoever finds another at it leaves its events to
// that one, which may be its own caller: Notify may call Orphan.
func (s *Sessions) handOut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handing {
		return
	}
	s.handing = true
	for len(s.events) > 0 {
		event := s.events[0]
		s.events = s.events[1:]
		s.mu.Unlock()
		s.logEvent(event)
		s.cfg.Notify(event)
		s.mu.Lock()
	}
	s.handing = false
}

func (s *Sessions) logEvent(event Event) {
	switch e := event.(type) {
	case Joined:
		s.log.Info("joined", "incarnation", e.Member.Incarnation)
	case MemberLost:
		if e.Reason == reasonOf(context.Canceled) { // as it was told to
			s.log.Info("membership given up", "reason", e.Reason)
		} else {
			s.log.Warn("membership lost", "reason", e.Reason)
		}
	case TermBegan:
		s.log.Info("term began", "key", e.Guard.Key, "revision", e.Guard.CreateRevision)
	case TermEnded:
		s.log.Info("term ended", "key", e.Guard.Key, "revision", e.Guard.CreateRevision, "reason", e.Reason)
	case LockLeaseOpened:
		s.log.Info("lock lease opened", "lease", leaseText(e.ID))
	case LockLeaseDoubted:
		s.log.Warn("lock lease doubted", "lease", leaseText(e.ID), "held", e.Held)
	case LockLeaseRenewed:
		s.log.Info("lock lease renewed", "lease", leaseText(e.ID))
	case LockLeaseLost:
		s.log.Warn("lock lease lost", "lease", leaseText(e.ID), "held", e.Held)
	}
}

// setTrouble and clearTrouble keep the list that Status shows. The log hears of a part that becomes
// troubled and of one that recovers, not of each try.
func (s *Sessions) setTrouble(part, reason string) {
	s.mu.Lock()
	i := slices.IndexFunc(s.troubles, func(t trouble) bool { return t.part == part })
	if i >= 0 {
		s.troubles[i].reason = reason
	} else {
		s.troubles = append(s.troubles, trouble{part, reason})
	}
	s.mu.Unlock()
	if i < 0 {
		s.log.Warn("session troubled", "part", part, "err", reason)
	}
}

func (s *Sessions) clearTrouble(part string) {
	if s.dropTrouble(part) {
		s.log.Info("session recovered", "part", part)
	}
}

func (s *Sessions) dropTrouble(part string) (dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.troubles)
	s.troubles = slices.DeleteFunc(s.troubles, func(t trouble) bool { return t.part == part })
	return len(s.troubles) < before
}
