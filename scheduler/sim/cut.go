package sim

// Cut names a protection that a sabotaged history goes without. With any of them a promise breaks; the
// scripts in testdata/without show how, each with the shortest history that does it.
type Cut string

// What can be taken out, with the rules of docs/architecture.md that ask for it. The empty Cut is
// the whole protocol.
const (
	CutStateCompare   Cut = "state-compare"   // every write of a state compares the revision planned on (1, 5, 10)
	CutJobCompare     Cut = "job-compare"     // claims compare the definition's revision (1, 10)
	CutRulesGuard     Cut = "rules-guard"     // claims compare the rules revision (groups)
	CutTriggerCompare Cut = "trigger-compare" // a Begin compares the trigger's revision (1, 8)
	CutTriggerDelete  Cut = "trigger-delete"  // a Begin deletes its trigger (1, 8)
	CutLockLease      Cut = "lock-lease"      // the lock hangs on the member's lock lease (1)
	CutFence          Cut = "fence"           // an unknown Begin is resolved (2); without, it is taken for refused
	CutUnknownGranted Cut = "unknown-granted" // the same; without, it is taken for granted
	CutNonce          Cut = "nonce"           // only a lock with my nonce is mine (2)
	CutResolvedState  Cut = "resolved-state"  // a resolution reads the state, too (2)
	CutOrphans        Cut = "orphans"         // locks that nobody holds are closed (3)
	CutListFirst      Cut = "list-first"      // the listing comes first, what is held is compared then (3)
	CutFinishLock     Cut = "finish-lock"     // Finish compares the lock (4)
	CutHold           Cut = "hold"            // the wait before an attempt is called lost (5)
	CutLateCompare    Cut = "late-compare"    // a late result compares state and slot (6)
	CutFoldUnseen     Cut = "fold-unseen"     // an entry leaves the state only when its record was seen (7)
	CutFill           Cut = "fill"            // whoever rewrites a state fills in the tokens (5)
	CutEditCompare    Cut = "edit-compare"    // an edit compares the state (9)
	CutBooks          Cut = "books"           // an edit of the schedule closes the books (9)
	CutDeleteState    Cut = "delete-state"    // a delete keeps the state (9)
	CutBlame          Cut = "blame"           // a skip compares what it blames (10)
	CutReload         Cut = "reload"          // a shard that is gained is read anew (12)
	CutIncarnation    Cut = "incarnation"     // assignments name the incarnation (12)
	CutKill           Cut = "kill"            // a member ends its attempts before they can be called lost
	CutAge            Cut = "age"             // an old grant, or one under a doubted session, is not started (11)
	CutMarks          Cut = "marks"           // lost watch events are looked for
	CutClock          Cut = "clock"           // a member with a stepped clock grants nothing
	CutCatchUp        Cut = "catch-up"        // a new owner goes on from the stored cursor, not from its clock
)

// Cuts are all of them.
func Cuts() []Cut {
	return []Cut{
		CutStateCompare, CutJobCompare, CutRulesGuard, CutTriggerCompare, CutTriggerDelete, CutLockLease, CutFence,
		CutUnknownGranted, CutNonce, CutResolvedState, CutOrphans, CutListFirst, CutFinishLock, CutHold, CutLateCompare,
		CutFoldUnseen, CutFill, CutEditCompare, CutBooks, CutDeleteState, CutBlame, CutReload,
		CutIncarnation, CutKill, CutAge, CutMarks, CutClock, CutCatchUp,
	}
}
