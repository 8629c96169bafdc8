package election

import "github.com/quorumcron/quorumcron/scheduler"

// Event is one change of what this process may do. Events are hints: they say when to look again,
// and no right follows from one. A right is proved by a guard in the transaction that uses it.
type Event interface{ event() }

// Joined says that the member key is there: this process is a live member. It comes at the start and
// after each loss of the member session. Every join draws a new, higher incarnation, so that Member.ID
// changes: what was assigned to the former ID is assigned to nobody, and the member owns nothing until
// an assignment names the new ID.
type Joined struct {
	Member scheduler.Member // with its Incarnation and CreateRevision
}

// MemberLost says that the member key is gone: other members will own this one's shards. Attempts
// that run are not concerned; their locks hang on lock leases.
type MemberLost struct{ Reason string }

// TermBegan says that this member is the dispatcher. Every write of the term compares the guard.
type TermBegan struct{ Guard scheduler.Guard }

// TermEnded says that the term of this guard is over. Its writes were being refused before this
// event; the event only says to stop trying.
type TermEnded struct {
	Guard  scheduler.Guard
	Reason string
}

// LockLeaseOpened says that there is a new lock lease with room.
type LockLeaseOpened struct{ ID int64 }

// LockLeaseDoubted says that K + 2/3 TTL passed without an answer, or that the sessions were
// orphaned: drop what is granted under the lease and not yet started. When nothing runs under it,
// call Retire.
type LockLeaseDoubted struct {
	ID   int64
	Held int // locks taken under it and not released
}

// LockLeaseRenewed says that a doubted lease is alive after all: it takes locks again, and its keys
// are to be listed at once (rule 3).
type LockLeaseRenewed struct{ ID int64 }

// LockLeaseLost says that etcd has no such lease: its locks are gone. What runs under it goes on
// until its deadlines, which nothing pushes on any more.
type LockLeaseLost struct {
	ID   int64
	Held int
}

func (Joined) event()           {}
func (MemberLost) event()       {}
func (TermBegan) event()        {}
func (TermEnded) event()        {}
func (LockLeaseOpened) event()  {}
func (LockLeaseDoubted) event() {}
func (LockLeaseRenewed) event() {}
func (LockLeaseLost) event()    {}
