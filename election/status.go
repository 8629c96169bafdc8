package election

import (
	"fmt"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Status is what the sessions are worth at one moment.
type Status struct {
	// Member is the member key's content, with Incarnation and CreateRevision; the zero value when this
	// process is not a member.
	Member scheduler.Member
	// MemberLease is the lease of the member key, 0 when there is none.
	MemberLease int64
	// Term is the guard of this member's term as dispatcher, the zero value outside one.
	Term scheduler.Guard
	// Locks are the lock leases that etcd is believed to have, oldest first.
	Locks []LockLeaseStatus
	// Orphaned is the reason given to Orphan; "" when the sessions are kept.
	Orphaned string
	// Reasons says why this member cannot do its work, one line each; empty when it can.
	Reasons []string
}

// LockLeaseStatus is one lock lease.
type LockLeaseStatus struct {
	ID   int64
	Held int // locks taken and not released
	Life scheduler.LockLife
	// Usable says whether it takes locks at this moment.
	Usable bool
}

// Status says what is held and, for /readyz, what is in the way.
func (s *Sessions) Status() Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Member: copyMember(s.member), MemberLease: s.memberLease, Term: s.term, Orphaned: s.orphaned}
	usable := false
	for _, l := range s.leases {
		if l.phase == leaseLost {
			continue
		}
		one := LockLeaseStatus{ID: l.id, Held: l.held, Life: s.life(l), Usable: s.usable(l, now)}
		usable = usable || one.Usable
		status.Locks = append(status.Locks, one)
	}
	if s.orphaned != "" {
		status.Reasons = append(status.Reasons, "sessions let die: "+s.orphaned)
	}
	if s.member.CreateRevision == 0 && s.orphaned == "" {
		status.Reasons = append(status.Reasons, "not a member yet")
	}
	if !usable && s.orphaned == "" {
		status.Reasons = append(status.Reasons, "no lock lease may take locks")
	}
	for _, t := range s.troubles {
		status.Reasons = append(status.Reasons, fmt.Sprintf("%s session: %s", t.part, t.reason))
	}
	return status
}

// Orphan lets all sessions die: nothing is kept alive any more and no lock is given out, so that the
// other members take over as if this process were dead. It is for a watchdog that finds the engine
// stuck: a dead engine must not look alive. What runs keeps its deadlines. Recover ends it.
func (s *Sessions) Orphan(reason string) {
	if reason == "" {
		reason = "no reason given"
	}
	s.mu.Lock()
	if s.orphaned != "" {
		s.mu.Unlock()
		return
	}
	s.orphaned = reason
	if s.letGo != nil {
		s.letGo(errOrphaned)
	}
	for _, l := range s.leases {
		s.doubtLocked(l)
	}
	s.mu.Unlock()
	s.log.Error("sessions orphaned", "reason", reason)
	s.handOut()
}

// Recover takes the sessions up again after Orphan. This process joins anew, with a new incarnation;
// its lock leases are kept if etcd still has them.
func (s *Sessions) Recover() {
	s.mu.Lock()
	if s.orphaned == "" {
		s.mu.Unlock()
		return
	}
	reason := s.orphaned
	s.orphaned = ""
	close(s.recovered)
	s.recovered = make(chan struct{})
	for _, l := range s.leases {
		l.wake()
	}
	s.mu.Unlock()
	signal(s.needLease)
	s.log.Info("sessions taken up again", "reason", reason)
}
