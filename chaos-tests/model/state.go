package main

// Bounds of a world. Instants are the firings 0 and 1; a trigger makes firing 2.
const (
	nFirings   = 3
	manual     = 2 // the firing that a trigger asks for
	nAttempts  = 2
	nSlots     = 4
	nOut       = 2 // requests of one member that may be unanswered at once
	nJobs      = 2
	maxMembers = 3
	nLeases    = 4 // lock leases of one member that may matter at once
)

// verdict is how a firing or an attempt ended.
type verdict uint8

const (
	none verdict = iota
	succeeded
	canceled
	killed // FAILED(lock lost): by its own supervisor, at the deadline of its lock
	lost
	skipped // SKIPPED or MISSED: never granted
)

// state is the whole world. Revisions are not numbers in it: a request remembers whether what it
// compares has been written since (its Stale bits), and a token is the number of the grant, which is
// what a create revision is up to renaming. Every field is a byte, so that a state is hashed and
// compared as plain memory.
type state struct {
	// What etcd holds.
	Jobs      [nJobs]jobState
	Def       definition // of job 0; the other one is never edited
	Locks     [nFirings]lock
	Ring      [nJobs][nSlots]record
	Trig      uint8 // the trigger waits
	Grants    uint8 // so many locks have been made
	Cancel    [nFirings]cancelKey
	Owner     uint8 // member + 1, as the rules say; 0 in a free world
	Named     uint8 // the rules name the incarnation that lives now
	Members   [maxMembers]member
	User      request // a user's transaction that travels (only where its guard was taken away)
	Now, Late uint8   // so many instants are due, and so many of these no longer on time
	Past      uint8   // the start deadline of everything has passed
	Sure      [nFirings]uint8
	// Faults and requests of users that are left.
	Crashes, Ends, Ambiguous, Edits, Triggers, Freezes, Moves, Panics, Cancels uint8
	// Ghosts: only invariants read them.
	Verdict [nFirings]verdict
	Started [nFirings][nAttempts]uint8
	Issued  uint8           // the trigger was asked for
	Taken   uint8           // it was consumed
	Frozen  uint8           // somebody was frozen beyond a hold
	Told    [nFirings]uint8 // a cancel was answered: the firing has ended
	Asked   [nFirings]uint8 // token of the attempt that a cancel was for
}

// entry is an attempt in flight, as the state of its job names it. With Attempt 0 and an owed retry
// only Slot counts: it stays promised.
type entry struct{ Attempt, Slot, Token uint8 }

// jobState is the value of state/<job>.
type jobState struct {
	Cursor  uint8
	In      [nFirings]entry
	Owed    [nFirings]uint8 // number of the attempt that a pending retry will have
	Next    uint8           // where the search for a slot begins
	Backlog uint8           // the late instant that waits for the catch-up policy, + 1
	Count   [nFirings]verdict
}

// definition is the value of jobs/<job>, as far as planning depends on it. UID 0 is no job.
type definition struct {
	UID       uint8
	Gone      uint8 // a tombstone
	Paused    uint8
	Once      uint8 // retry.maxAttempts was lowered to 1
	Elsewhere uint8 // its pool has no member
}

// lock is locks/<firing>; Lease 0 means that it is not there.
type lock struct{ Lease, Token, Nonce uint8 }

// record is one slot of runs/<uid>/: a line per attempt. At is its revision: the number of grants made
// before it was written.
type record struct {
	Firing, At uint8
	Lines      [nAttempts]verdict
}

// cancelKey is queue/<member>/cancel/<firing>; Member is the member + 1, 0 means that it is not there.
// Heard says that the process that runs has been told of it.
type cancelKey struct{ Member, Token, Heard uint8 }

// kind of a request.
type kind uint8

const (
	noRequest kind = iota
	begin
	skip // Skip and Miss
	lose
	fold
	sweep
	finish
	lateEnd
	edit        // by a user: Change says what
	triggerJob  // by a user
	cancelState // by a user: a waiting trigger, an owed retry
)

// blame is what a skip for overlap is blamed on.
type blame uint8

const (
	nothing blame = iota // paused, deleted, missed
	blameLock
	blameEntry
	blameRetry
)

// change is what an edit does.
type change uint8

const (
	plainEdit  change = iota // closes no books, writes no state
	reschedule               // closes the books
	pauseResume
	deletion
	lowerAttempts
	movePool // into a pool that has members
	creation // over nothing, or over a settled tombstone
	nChanges
)

// request is a transaction on its way to etcd: what it is about, what it compares, what it writes.
type request struct {
	Kind                                       kind
	Job, UID, Firing, Attempt                  uint8
	Token, Slot, Nonce, Lease                  uint8
	End                                        verdict // of finish and lateEnd
	Blame                                      blame
	Blamed                                     uint8 // the firing
	Trigger                                    uint8 // it consumes the trigger
	Stop                                       uint8 // it takes the cancel key with it
	Change                                     change
	StateStale, JobStale, RulesStale, RunStale uint8 // written since it was planned
	Former                                     uint8 // planned before its member forgot the job
	Forbidden                                  uint8 // planned although an edit or a deadline forbids it
	Next                                       jobState
}

// phase of an attempt in the memory of the member that was granted it.
type phase uint8

const (
	idle phase = iota
	granted
	running
	ended
	late // ended, and its lock was gone when the end was sent
)

// attempt is one attempt as its member's memory knows it.
type attempt struct {
	Phase              phase
	Token, Slot, Lease uint8
	End                verdict
	Stop               uint8 // a cancel was delivered to it
}

// wait says how far a request of a member is.
type wait uint8

const (
	free wait = iota
	awaiting
	unknown // unanswered for too long: it may have been applied, or may yet be
)

// member is one node process. Lock leases are numbered per member: Alive says which etcd still has,
// Mine which this process opened, Lease which one it claims under, Doubt that it does not trust that.
type member struct {
	Up, Lease, Alive, Mine, Doubt uint8
	Wait                          [nOut]wait
	Sent, Astray                  [nOut]request // Astray: cut off from its caller, still in flight
	Joint, AstrayJoint            uint8         // both travel in one group
	Run                           [nFirings][nAttempts]attempt
	Noted                         uint8 // (a cut) what it held before it listed its leases
	Mind                          mind
}

// fact is what an owner knows of an entry beyond the state.
type fact uint8

const (
	unheard  fact = iota
	alive         // its lock was seen
	gone          // its lock was seen gone, without a record
	recorded      // its record was seen
)

// mind is what the loop of one member knows of job 0 (node/view.go). Only owned worlds have one.
type mind struct {
	Loaded  uint8 // the shard was read since the member became its owner
	Behind  uint8 // the rules have moved since
	Fresh   uint8 // the copy of the state is the newest; else it is View
	View    jobState
	Def     definition
	DefOld  uint8 // it is not the newest definition
	DefDue  uint8 // the watch has a definition to deliver
	Trig    uint8
	TrigDue uint8
	Facts   [nFirings]fact
	Follows [nFirings]uint8 // a follower was started for the entry: 1 it watches, 2 it has ended
	Stuck   uint8           // (a cut) busy with a write whose answer it will not take in
	Read    reading
}

// reading is one job read again (node/follow.go reload): 1 asked, 2 read and not yet taken in.
type reading struct {
	Phase, UID, Trig uint8
	Def              definition
	Old              uint8 // the definition was changed since
	DefPassed        uint8 // the watch has delivered a later definition
	TrigPassed       uint8 // ... or a change of the trigger
}

// leaseOf numbers lease i of member m through all members; 0 is none.
func leaseOf(m int, i uint8) uint8 { return uint8(m)*nLeases + i + 1 }

func (s *state) leaseAlive(id uint8) bool {
	return id != 0 && s.Members[(id-1)/nLeases].Alive>>((id-1)%nLeases)&1 == 1
}

// requests calls f for everything that is on its way or unresolved.
func (s *state) requests(f func(*request)) {
	for m := range s.Members {
		for o := range nOut {
			f(&s.Members[m].Sent[o])
			f(&s.Members[m].Astray[o])
		}
	}
	f(&s.User)
}

// minds calls f for every mind that has read the job.
func (s *state) minds(f func(*mind)) {
	for m := range s.Members {
		if s.Members[m].Mind.Loaded == 1 {
			f(&s.Members[m].Mind)
		}
	}
}

// recordOf tells whether the ring holds the end of the entry of f in j, and which.
func (s *state) recordOf(job uint8, j *jobState, f uint8) (verdict, bool) {
	e := j.In[f]
	r := s.Ring[job][e.Slot]
	if e.Attempt == 0 || r.Firing != f || r.At < e.Token || r.Lines[e.Attempt-1] == none {
		return none, false
	}
	return r.Lines[e.Attempt-1], true
}

// renamed returns s with member i renamed to places[i].
func (s *state) renamed(places []int) state {
	t := *s
	lease := func(x *uint8) {
		if *x != 0 {
			*x = uint8(places[(*x-1)/nLeases])*nLeases + (*x-1)%nLeases + 1
		}
	}
	member := func(x *uint8) {
		if *x != 0 {
			*x = uint8(places[*x-1]) + 1
		}
	}
	member(&t.Owner)
	for f := range t.Locks {
		lease(&t.Locks[f].Lease)
		member(&t.Cancel[f].Member)
	}
	for i, place := range places {
		m := s.Members[i]
		for o := range nOut {
			lease(&m.Sent[o].Lease)
			lease(&m.Astray[o].Lease)
		}
		for f := range m.Run {
			for a := range m.Run[f] {
				lease(&m.Run[f][a].Lease)
			}
		}
		t.Members[place] = m
	}
	return t
}
