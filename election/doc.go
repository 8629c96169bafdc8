// Package election holds the rights that hang on a lease, and gives the proof of each: being a member,
// being the dispatcher, holding locks. It also makes the client (Dial) and the clock (BootClock).
//
// # Who is authoritative
//
// etcd is, and nobody else: not a flag in this process, not a channel that has not closed, not the time
// since the last answer. A right is a key under a live lease, and its proof is the comparison of that
// key's create revision inside the very transaction that uses the right:
//
//	right        key                                lease         proof
//	member       members/<name>                     member lease  the incarnation in the assignment
//	dispatcher   election/dispatcher/<lease>        member lease  scheduler.Guard: every write of the term
//	lock         locks/<uid>/<firing>/<part>        lock lease    put under the lease: refused if it is gone
//
// What this package tells its caller (Event, Status, LockLife) is a hint when to start and when to stop.
// A caller that is told too late is refused by etcd; it does no harm.
//
// A term is the life of one election key. Its Guard is the key and its create revision, which etcd gives
// once and never again. Terms do not overlap, since a candidate is elected by the deletion of all older
// keys, and every write of a deposed term fails from that deletion on, whether the deposed one has heard
// of it or not. TermBegan and TermEnded say when it is worth trying.
//
// A membership is the life of one member key. The incarnation in Member.ID is the create revision of
// that key, so that every join has a new, higher one: that of a restarted process, and that of a process
// that lost its session and joined again. What was assigned to the former ID belongs to nobody until an
// assignment names the new one, and that assignment moves rules/head, so that no claim of the former life
// commits after it (rule 12 of docs/architecture.md). A number in the data folder alone would not do: with a lost
// folder it starts from 1 again, and meets an assignment that still names name#1.
//
// # The two sessions
//
// The member lease is that of a concurrency.Session. It may be taken from us (by an expiry, an operator,
// later by the dispatcher) without a running attempt noticing:
//
//	        grant, put key if absent             Done: no answer for a TTL
//	(none) ───────────────────────────▶ member ───────────────────────────▶ unknown ─┐
//	   ▲    Joined                       │  ▲                               │    ▲   │ no answer:
//	   │                                 │  └── lease found: attach again ──┘    └───┘ ask again
//	   │     key or lease gone, Orphan   │                                  │
//	   └──────────── MemberLost ◀────────┴─────────── lease not found ◀─────┘
//
// A session that is done is no lost session: while etcd has no leader no lease expires, and every new
// leader starts all of them afresh. Only the answer that there is no such lease is believed. The
// process never ends because etcd is away; it ends (ErrNameTaken) if another live process has its name.
//
// Lock leases have keep-alives of their own, one each TTL/4, not waiting for each other:
//
//	         K + 2/3 TTL passed, or Orphan                 Retire
//	open ─────────────────────────────────▶ doubted ──────────────────▶ retired
//	 │ ▲                                     │   │                         │ revoked
//	 │ └─────────── answered in time ────────┘   │ lease not found         ▼
//	 └────────────── lease not found ────────────┴──────────────────────▶ lost
//
// Doubted: nothing new starts under it; LockLeaseDoubted tells the caller to drop what is granted and not
// started, and to call Retire when nothing runs under it. Answered in time: LockLeaseRenewed; its keys are
// listed at once (ListLocks), since a claim may have committed unheard. A lease holds at most 256 locks.
//
// # How long a lock is trusted
//
// All on the elapsed clock of this machine, which goes on while it is suspended:
//
//	K         when the newest *answered* keep-alive (or the grant) was sent
//	K + 2/3 TTL           the last claim is sent       LockLife.ClaimUntil
//	K + TTL               the lease may end: no earlier, for etcd got the keep-alive after K
//	K + TTL + grace - 3 s attempts are told to end     LockLife.TermAt
//	K + TTL + grace       attempts are dead            LockLife.KillAt
//
// A late answer moves K to where its question was sent, not to now; a frozen process wakes to find its
// deadlines passed. Others see the lock gone at K + TTL at the earliest by expiry, or at any moment R > K by
// a revocation; an attempt under it is dead by K + TTL + grace < R + hold, with hold = TTL + grace, and they
// call it lost at R + hold + 2 s at the earliest.
//
// # What happens when
//
//	etcd does not answer         claims stop by K + 2/3 TTL; TERM and KILL as above; the membership stays as
//	                             it is, its claims and terms are decided by etcd when it answers
//	quorum back, leases alive    sessions attached again, locks renewed; nothing was killed if that was
//	                             before TERM; no event for the member but a term that ends and begins
//	lease not found              MemberLost and Joined, or LockLeaseLost and LockLeaseOpened, at once
//	lease revoked from outside   the same: a watch on the member key; for locks the next keep-alive, or
//	                             Suspect when a claim was refused
//	member or election key       the membership or term is over; the lease of a membership is revoked, so
//	deleted by hand              that nothing of it is left, and the process joins anew
//	process frozen past TTL      found lost on waking; whatever it sends meanwhile is refused
//	engine stuck (watchdog)      Orphan: nothing is kept alive, the rest of the cluster sees a death;
//	                             Recover joins anew and asks for the lock leases
//	process killed, restarted    the data folder's flock proves it dead with all its commands: its leases
//	                             are revoked before the new process joins; without a folder they expire
//	name in use                  the key is given 2 TTL (of its lease or ours, the longer) to go, counting
//	                             only while etcd answers; then ErrNameTaken names its holder
//	Run's context ends           everything is revoked under a context of its own, for at most 3 s
//	watch silent or broken       the key itself is read again each 3 TTL; the members' watch is asked for a
//	                             sign of life after 5 s of silence and listed anew without one
//
// # What is left to others
//
// Package store turns guards into comparisons and puts locks under leases; package node decides what
// to do with an event, and when nothing runs any more under a doubted lease.
//
// # Goroutines
//
// Run starts all of them and waits for them: one for the membership with, while it lasts, one each for the
// candidacy (and its check), the watch on the key and its content; one that opens lock leases; one for
// each lock lease and one for each keep-alive on its way. FollowMembers and everything else run in the
// goroutine of the caller. Notify is called by whichever of these made the event, one at a time.
package election
