package history

import (
	"sort"
	"time"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// steps is C12. Every write of a job is a step that the state graph has: see the functions below, one
// for each kind of key. What is out of the graph is a broken guard, even where nobody was hurt.
//
//	            Begin: state + lock                 Finish: lock gone + record
//	waiting ───────────────────────▶ in flight ─────────────────────────────▶ ended ──fold──▶ counted
//	   ▲                                 │ lock gone, hold + 2 s                                  or
//	   └──────── a retry is owed ◀───────┴── Lose: state + record LOST, in one write         a retry owed
//
// Guarantee: G1, G5, G6. Evidence: etcd's log alone, by revision.
func (t *trial) steps(*Judgement) int {
	if t.etcd == nil {
		return 0
	}
	t.definitions()
	for i, s := range t.etcd.states {
		var before state
		if i > 0 {
			before = t.etcd.states[i-1]
			t.onlyGrows(before, s)
			t.leaving(before, s)
		}
		t.oneAtATime(s)
		t.entering(before, s)
		t.owing(before, s)
	}
	t.locksAreGrants()
	t.recordsAreEnds()
	return len(t.etcd.states) + len(t.etcd.locks) + len(t.etcd.records)
}

// step reports a breach of the graph at a revision.
func (t *trial) step(at time.Time, revision int64, firing, want, what string, a ...any) {
	t.report("C12", at, firing, want, "etcd's log, revision "+itoa(revision), what, a...)
}

// definitions: generations of one uid count up by one from 1, and nothing follows a tombstone.
func (t *trial) definitions() {
	var before *definition
	for i := range t.etcd.definitions {
		d := &t.etcd.definitions[i]
		switch {
		case before != nil && before.deleted():
			t.step(d.at, d.revision, "", "nothing after a tombstone", "generation %d was written over the tombstone of its own uid", d.GetGeneration())
		case before != nil && !d.deleted() && d.GetGeneration() != before.GetGeneration()+1:
			t.step(d.at, d.revision, "", "generations that count up by one", "generation %d follows generation %d", d.GetGeneration(), before.GetGeneration())
		}
		before = d
	}
}

// onlyGrows: cursor, counters and the ring of slots never go back.
func (t *trial) onlyGrows(a, b state) {
	if b.GetCursor().AsTime().Before(a.GetCursor().AsTime()) {
		t.step(b.at, b.revision, "", "a cursor that never moves back", "the cursor went from %s back to %s", clock(a.GetCursor().AsTime()), clock(b.GetCursor().AsTime()))
	}
	if b.GetSlots() < a.GetSlots() {
		t.step(b.at, b.revision, "", "a ring that only grows", "the ring shrank from %d to %d slots", a.GetSlots(), b.GetSlots())
	}
	now := b.counted()
	for end, n := range a.counted() {
		if now[end] < n {
			t.step(b.at, b.revision, "", "counters that only grow", "%s went from %d back to %d", end, n, now[end])
		}
	}
}

// oneAtATime: a job has at most one attempt in flight or owed, each firing one entry, and each promised
// slot one firing.
func (t *trial) oneAtATime(s state) {
	if n := len(s.GetEntries()) + len(s.GetRetries()); n > 1 {
		t.step(s.at, s.revision, "", "one attempt in flight or owed", "%d attempts are in flight or owed", n)
	}
	slots, firings := map[int32]bool{}, map[string]bool{}
	promise := func(f *storedv1.Firing, slot int32) {
		firing := firingOf(t.uid, f)
		if firings[firing] {
			t.step(s.at, s.revision, firing, "one entry for each firing", "%s is in the state twice", firing)
		}
		if slots[slot] || slot >= s.GetSlots() {
			t.step(s.at, s.revision, firing, "a slot of its own", "%s was given slot %d of %d, which is taken or none", firing, slot, s.GetSlots())
		}
		firings[firing], slots[slot] = true, true
	}
	for _, e := range s.GetEntries() {
		promise(e.GetFiring(), e.GetSlot())
	}
	for _, r := range s.GetRetries() {
		promise(r.GetFiring(), r.GetSlot())
	}
}

// owing: a further attempt is owed only after one that was lost or failed.
func (t *trial) owing(a, b state) {
	for _, r := range b.GetRetries() {
		if a.State != nil && a.owed(r.GetFiring()) != nil {
			continue
		}
		past := r.GetPast()
		if n := len(past); n == 0 || !triedAgain(verdictOf(past[n-1].GetVerdict())) || past[n-1].GetNumber()+1 != r.GetAttempt() {
			t.step(b.at, b.revision, firingOf(t.uid, r.GetFiring()), "a retry of what was lost or failed", "attempt %d of %s is owed, and the %d before it do not ask for it",
				r.GetAttempt(), firingOf(t.uid, r.GetFiring()), n)
		}
	}
}

// entering: a new entry was granted by the very write that shows it, with a lock of the same attempt;
// it is a first attempt, or the one that was owed; and its token stays what it was.
func (t *trial) entering(a, b state) {
	for _, e := range b.GetEntries() {
		firing := firingOf(t.uid, e.GetFiring())
		if a.State != nil {
			if was := a.entry(e.GetFiring()); was != nil && was.GetAttempt() == e.GetAttempt() {
				if a.token(was) != b.token(e) {
					t.step(b.at, b.revision, firing, "the token of its grant", "the token of %s went from %d to %d", firing, a.token(was), b.token(e))
				}
				continue
			}
		}
		if b.token(e) != b.revision {
			t.step(b.at, b.revision, firing, "a token that is the revision of the grant", "%s entered the state with token %d", firing, b.token(e))
		}
		k := t.lockOf(b.revision)
		if k == nil || k.firing != firing || k.GetNonce() != e.GetNonce() || k.GetMember() != e.GetMember() || k.GetAttempt() != e.GetAttempt() {
			t.step(b.at, b.revision, firing, "a lock with each grant", "%s attempt %d entered the state without its lock", firing, e.GetAttempt())
		}
		next := int32(1)
		if a.State != nil && a.owed(e.GetFiring()) != nil {
			next = a.owed(e.GetFiring()).GetAttempt()
		} else if len(e.GetPast()) > 0 {
			next = int32(len(e.GetPast())) + 1 // derived from an entry that was folded in the same write
		}
		if e.GetAttempt() != next {
			t.step(b.at, b.revision, firing, "the attempt that is owed", "attempt %d of %s was granted, and %d was next", e.GetAttempt(), firing, next)
		}
	}
}

// leaving: an entry leaves the state only once its record is in its slot. That it is counted then, or
// owed a retry, is for the books (C11).
func (t *trial) leaving(a, b state) {
	for _, e := range a.GetEntries() {
		if now := b.entry(e.GetFiring()); now != nil && now.GetAttempt() == e.GetAttempt() {
			continue
		}
		firing := firingOf(t.uid, e.GetFiring())
		if !t.recorded(e, a.token(e), b.revision) {
			t.step(b.at, b.revision, firing, "its record in its slot first", "%s attempt %d left the state, and slot %d has no record of it", firing, e.GetAttempt(), e.GetSlot())
		}
	}
}

// recorded says whether the record of an entry's attempt lay in its slot at a revision.
func (t *trial) recorded(e *storedv1.Entry, token, revision int64) bool {
	for _, r := range t.etcd.recordsOf[firingOf(t.uid, e.GetFiring())] {
		if r.revision > revision || r.slot != int(e.GetSlot()) {
			continue
		}
		for _, a := range r.GetAttempts() {
			if a.GetNumber() == e.GetAttempt() && a.GetVerdict() != 0 && (a.GetToken() == token || a.GetToken() == 0) {
				return true
			}
		}
	}
	return false
}

// locksAreGrants: a lock is created by the write that puts its entry, under a lease, and never changed.
func (t *trial) locksAreGrants() {
	states := map[int64]state{}
	for _, s := range t.etcd.states {
		states[s.revision] = s
	}
	for _, k := range t.etcd.locks {
		if k.deleted {
			continue
		}
		switch s, ok := states[k.revision]; {
		case k.created != k.revision:
			t.step(k.at, k.revision, k.firing, "locks that nobody rewrites", "the lock of %s was written again", k.firing)
		case !ok || !hasNonce(s, k.GetNonce()):
			t.step(k.at, k.revision, k.firing, "an entry with each lock", "%s got a lock, and its state no entry", k.firing)
		case !k.leased:
			t.step(k.at, k.revision, k.firing, "a lock that dies with its member", "the lock of %s hangs on no lease", k.firing)
		}
	}
}

func hasNonce(s state, nonce string) bool {
	for _, e := range s.GetEntries() {
		if e.GetNonce() == nonce {
			return true
		}
	}
	return false
}

// recordsAreEnds: a record is written into the slot that its entry was promised, with the end of its
// lock or of its entry, and never changes a verdict that is there; LOST only hold + 2 s after the lock
// was gone, or by its holder when the command has ended.
func (t *trial) recordsAreEnds() {
	said := map[string]string{} // by firing and attempt
	for _, r := range t.etcd.records {
		firing, last := firingOf(t.uid, r.GetFiring()), r.last()
		before, now := t.around(r.revision)
		entry := before.State.GetEntries()
		var mine *storedv1.Entry
		for _, e := range entry {
			if same(e.GetFiring(), r.GetFiring()) && e.GetAttempt() == last.GetNumber() {
				mine = e
			}
		}
		at := t.seenAt(r.revision, now)
		switch {
		case mine == nil || int(mine.GetSlot()) != r.slot:
			t.step(at, r.revision, firing, "a record in the slot that was promised", "attempt %d of %s was recorded in slot %d, which was not promised to it", last.GetNumber(), firing, r.slot)
		case !t.freed(r) && (now.State == nil || now.entry(r.GetFiring()) != nil && now.entry(r.GetFiring()).GetAttempt() == last.GetNumber()):
			t.step(at, r.revision, firing, "a record with the end of its lock or entry", "attempt %d of %s was recorded, and neither its lock nor its entry went with it", last.GetNumber(), firing)
		case ending(last.GetVerdict(), last.GetReason()) != "LOST(member lost)":
		case t.freed(r):
			t.surelyEnded(r, at)
		default:
			t.surelyDead(r, mine, now)
		}
		for _, a := range r.GetAttempts() {
			id, end := firing+" attempt "+itoa(int64(a.GetNumber())), ending(a.GetVerdict(), a.GetReason())
			if was, ok := said[id]; ok && was != end {
				t.step(at, r.revision, firing, "a verdict that stays", "%s was %s, and is now %s", id, was, end)
			}
			said[id] = end
		}
	}
}

// around are the last state before a revision, and the one of the revision itself.
func (t *trial) around(revision int64) (before, now state) {
	all := t.etcd.states
	i := sort.Search(len(all), func(i int) bool { return all[i].revision >= revision })
	if i < len(all) && all[i].revision == revision {
		now = all[i]
	}
	if i > 0 {
		before = all[i-1]
	}
	return before, now
}

// seenAt is when a revision was seen, by any event of the job.
func (t *trial) seenAt(revision int64, now state) time.Time {
	if now.State != nil {
		return now.at
	}
	if k := t.lockAt(revision); k != nil {
		return k.at
	}
	return time.Time{}
}

// lockAt is the lock that was written or deleted at a revision; a job has one at most.
func (t *trial) lockAt(revision int64) *lock {
	all := t.etcd.locks
	i := sort.Search(len(all), func(i int) bool { return all[i].revision >= revision })
	if i == len(all) || all[i].revision != revision {
		return nil
	}
	return &all[i]
}

// freed says whether the lock of a record's attempt was deleted by the write of the record.
func (t *trial) freed(r record) bool {
	k := t.lockAt(r.revision)
	return k != nil && k.deleted && k.firing == firingOf(t.uid, r.GetFiring())
}

// surelyEnded: a holder that could not record an end closes its own lock, and calls the attempt lost. It knows that
// nothing of it runs; the others have to wait.
func (t *trial) surelyEnded(r record, at time.Time) {
	const moment = time.Second
	firing, number := firingOf(t.uid, r.GetFiring()), itoa(int64(r.last().GetNumber()))
	for _, l := range t.last {
		if l.Firing == firing && l.Attempt == number && !at.IsZero() && l.Wall().After(at.Add(moment)) {
			t.step(at, r.revision, firing, "a command that has ended", "attempt %s was called lost by its holder, and ran on for %s", number, l.Wall().Sub(at).Round(time.Millisecond))
			return
		}
	}
}

// surelyDead: nothing is called lost before it must have been killed. What was seen late is not judged,
// and what was seen at once may have been seen a moment late.
func (t *trial) surelyDead(r record, e *storedv1.Entry, now state) {
	const margin, moment = 2 * time.Second, time.Second
	var gone lock
	for _, k := range t.etcd.locks {
		if k.firing == firingOf(t.uid, r.GetFiring()) && k.revision < r.revision {
			gone = k
		}
	}
	if gone.Lock == nil || !gone.deleted {
		t.step(now.at, r.revision, gone.firing, "a lock that is gone", "attempt %d was called lost, and its lock was there", e.GetAttempt())
		return
	}
	if waited := now.at.Sub(gone.at); !gone.late && !now.late && waited < e.GetHold().AsDuration()+margin-moment {
		t.step(now.at, r.revision, gone.firing, "hold + 2 s first", "%s was called lost %s after its lock was gone, and may live on for %s",
			gone.firing, waited.Round(time.Millisecond), e.GetHold().AsDuration())
	}
}
