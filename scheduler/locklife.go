package scheduler

import "time"

// LockLife is how long the locks under one lock lease are surely held. Sent is when the last
// *answered* keep-alive was sent, on the elapsed clock; only an answered keep-alive pushes it on.
// The zero LockLife is a lease that was never answered: it permits nothing.
type LockLife struct {
	Sent  time.Duration
	TTL   time.Duration
	Grace time.Duration
}

// TermMargin is how long before it must be dead an attempt is told to end.
const TermMargin = 3 * time.Second

// ClaimUntil is the end of claiming under the lease.
func (l LockLife) ClaimUntil() time.Duration { return l.Sent + l.TTL*2/3 }

// TermAt is when attempts under the lease are told to end.
func (l LockLife) TermAt() time.Duration { return l.KillAt() - TermMargin }

// KillAt is when attempts under the lease must be dead: no other member starts before it.
func (l LockLife) KillAt() time.Duration { return l.Sent + l.TTL + l.Grace }

// MayStart says whether an attempt whose Begin was sent at begun may still be started now: not when
// that is more than TTL/2 ago, nor when the attempt would be told to end within a second.
func (l LockLife) MayStart(begun, now time.Duration) bool {
	young := now-begun <= l.TTL/2 || cutAgeCheck
	return young && now+time.Second < l.TermAt()
}

// Held says whether the locks are surely still there, whatever etcd did with the lease meanwhile
// short of a revocation: the last keep-alive was answered less than a TTL ago.
func (l LockLife) Held(now time.Duration) bool { return now < l.Sent+l.TTL }
