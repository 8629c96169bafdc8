package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/internal/sabotage"
)

// row is how one cut is caught.
type row struct {
	cut string // as internal/sabotage names it
	// pkg is the package whose tests catch it, and test the one that does, after the names of the tests
	// it is part of.
	pkg, test string
	// says is part of what the failure says: a test that fails for another reason has not caught it.
	says string
	// slow leaves it to the full run.
	slow bool
}

// split parts the name of a test from those it is part of.
func (r row) split() (parent, name string) {
	i := strings.LastIndexByte(r.test, '/') + 1
	return r.test[:i], r.test[i:]
}

// markdown is the row for people.
func (r row) markdown(took time.Duration) string {
	without := ""
	for _, c := range sabotage.Cuts() {
		if c.Name == r.cut {
			without = c.Without
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s: `%s` | %.1f s |", r.cut, without, r.pkg, r.test, took.Seconds())
}

// suite holds the statements about guards that every etcd must make true.
const suite = "TestStore/"

// table has a row for each cut, in their order, and then a few that are caught once more.
func table() []row {
	var all []row
	for _, some := range [][]row{claims(), unknown(), starts(), locks(), ends(), users(), owners(), clocks(), processes()} {
		all = append(all, some...)
	}
	return all
}

func claims() []row {
	const died = "TestAttemptOfAMemberThatDiedGetsItsVerdict"
	return []row{
		{cut: "state-compare", pkg: "store", test: suite + "AFoldIsRefusedOnAnOlderState", says: "the same fold again was committed"},
		{cut: "job-compare", pkg: "store", test: suite + "NothingIsGrantedAfterAnEdit", says: "a begin after an acknowledged edit was committed"},
		{cut: "lock-lease", pkg: "node", test: died, says: "and counters [] are left, want no entry and one verdict"},
		{cut: "lock-only", pkg: "node", test: died, says: "entries [] and counters [] are left"},
		{cut: "rules-guard", pkg: "store", test: suite + "NothingIsClaimedUnderOlderRules", says: "a claim under older rules was committed"},
		{cut: "calendar-rules", pkg: "store", test: suite + "NothingIsClaimedUnderAnOlderCalendar", says: "a claim under an older calendar was committed"},
		{cut: "calendar-guard", pkg: "store", test: "TestAJobIsNeverStoredWithoutItsCalendar/the_calendar_goes_while_an_apply_is_on_its_way", says: "want it refused: the calendar is gone"},
		{cut: "trigger-compare", pkg: "store", test: suite + "ATriggerIsConsumedOnce", says: "a begin of a trigger at another revision was committed"},
		{cut: "trigger-delete", pkg: "store", test: suite + "ATriggerIsConsumedOnce", says: "and 1 triggers, want it granted and consumed"},
		{cut: "skip-job-compare", pkg: "store", test: suite + "ASkipIsRefusedAfterAnEdit", says: "a skip after an edit was committed"},
		{cut: "skip-lock", pkg: "store", test: suite + "ASkipBlamesALivingLockOnly", says: "a skip that blames a vanished lock was committed"},
		{cut: "skip-slot", pkg: "store", test: suite + "ASkipBlamesAnUnendedAttemptOnly", says: "a skip that blames an ended attempt was committed"},
		{cut: "overlap-memory", pkg: "scheduler", test: "TestRandomWorldsDecideEveryFiringOnce", says: " overlaps: "},
		{cut: "group-jobs", pkg: "store", test: "TestGroupsKeepTheirRules", says: "share a group"},
	}
}

func unknown() []row {
	const once = "TestUnknownClaimIsRunOnceUnderItsGrant/"
	return []row{
		{cut: "fence", pkg: "store", test: "TestALateBeginNeverCommitsAfterItWasResolved", says: "want it fenced"},
		{cut: "fence-guard", pkg: "store", test: "TestALateBeginIsFoundByItsResolver", says: "want the grant that came after the read"},
		{cut: "nonce", pkg: "store", test: suite + "AResolvedClaimIsNotFooledByAnotherGrant", says: "want it not granted, and the other's entry shown"},
		{cut: "resolution-state", pkg: "node", test: once + "reply_lost", says: "and counters [] are left, want no entry and one verdict"},
		{cut: "unknown-refused", pkg: "node", test: once + "reply_lost", says: "started 0 times, want once"},
		{cut: "unknown-granted", pkg: "node", test: once + "request_lost", says: "and granted with 0"},
		{cut: "unknown-repeated", pkg: "node", test: once + "reply_lost", says: "it was started with token"},
		{cut: "unknown-forgotten", pkg: "node", test: "TestUnknownClaimOfADoubtedSessionIsSettled", says: "and counters [] are left, want no entry and one verdict"},
	}
}

func starts() []row {
	const trusted = "TestGrantThatCannotBeTrustedIsNotStarted/"
	return []row{
		{cut: "session-check", pkg: "node", test: trusted + "its_session_is_gone", says: "it was started 1 times"},
		{cut: "age-check", pkg: "node", test: trusted + "it_is_old", says: "it was started 1 times"},
		{cut: "token-memory", pkg: "node", test: "TestUnknownClaimIsRunOnceUnderItsGrant/reply_lost", says: "it was started with token 1, and granted with"},
	}
}

func locks() []row {
	const taken = "TestLockTakenWhileLocksAreListedIsNotClosed/"
	return []row{
		{cut: "orphan-rule", pkg: "node", test: "TestForgottenLockIsClosed", says: "no run is LOST"},
		{cut: "listing-first", pkg: "node", test: taken + "granted_meanwhile", says: "started 1 times ended LOST(never started)"},
		{cut: "held-early", pkg: "node", test: taken + "granted_meanwhile_and_not_answered_yet", says: "started 1 times ended LOST(never started)"},
	}
}

func ends() []row {
	return []row{
		{cut: "finish-compare", pkg: "store", test: suite + "AFinishNeverOverwritesAVerdict", says: "the verdict is SUCCEEDED, want LOST"},
		{cut: "lose-lock", pkg: "store", test: suite + "LostIsRefusedWhileTheLockLives", says: "a lose beside a living lock was committed"},
		{cut: "lose-slot", pkg: "store", test: suite + "LostNeverOverwritesARecord", says: "the verdict is LOST, want SUCCEEDED"},
		{cut: "lose-hold", pkg: "node", test: "TestLostAttemptEndsLostAndBlocksItsJobUntilItIsSurelyDead", says: "before its hold of"},
		{cut: "handler-deadline", pkg: "node", test: "TestPartitionedMembersAttemptEndsBeforeAnotherStarts", says: "had not been told that its lock is lost"},
		{cut: "command-deadline", pkg: "executor", test: "TestCommandEndsWithItsLock", says: "no result within 30s", slow: true},
		{cut: "late-compare", pkg: "store", test: "TestALateResultThatMeetsALoseIsDropped", says: "want it dropped"},
		{cut: "late-over-lost", pkg: "store", test: suite + "ALateResultNeverCorrectsLost", says: "the verdict is SUCCEEDED, want LOST"},
		{cut: "fold-early", pkg: "node", test: "TestEntryStaysUntilItsRecordIsSeen", says: "are counted as SUCCEEDED, and no record says so"},
		{cut: "fold-count", pkg: "node", test: "TestJobFiresOnTimeOnOneMember", says: "but 0 verdicts and"},
		{cut: "slots-shared", pkg: "scheduler", test: "TestPromisedSlotsAreJumpedOver", says: "the slot of an entry, whose record is its only proof: got slot 1 of 4, want 2 of 4"},
		{cut: "retry-slot", pkg: "scheduler", test: "TestRandomWorldsDecideEveryFiringOnce", says: "has another slot than the attempt before"},
	}
}

func users() []row {
	return []row{
		{cut: "request-id", pkg: "store", test: suite + "ARepeatedTriggerIsOneFiring", says: "want one firing of"},
		{cut: "trigger-job-compare", pkg: "store", test: "TestATriggerNeverOutlivesADelete", says: "triggers wait below a tombstone"},
		{cut: "edit-job-compare", pkg: "store", test: "TestTwoAppliesAreTwoGenerations", says: "want the third, and the later one's limit"},
		{cut: "edit-state-compare", pkg: "store", test: "TestAnEditNeverLosesAGrant", says: "want the attempt in flight and its minute not skipped as well"},
		{cut: "books", pkg: "store", test: suite + "AnEditOfTheScheduleClosesTheBooks", says: "want now and three SKIPPED(edited)"},
		{cut: "edit-past", pkg: "node", test: "TestEditActsOnlyOnInstantsAfterIt", says: "4 starts in the 150 s after the edit"},
		{cut: "delete-state", pkg: "store", test: suite + "ADeleteAccountsForEverythingThatWaits", says: "SKIPPED(deleted) and entries [], want 4 and the attempt"},
		{cut: "delete-retries", pkg: "store", test: suite + "ADeleteEndsOwedRetries", says: "want none and one LOST"},
		{cut: "delete-triggers", pkg: "store", test: "TestADeleteCountsATriggerThatCameMeanwhile", says: "and counters []"},
		{cut: "sweep-compare", pkg: "store", test: suite + "ASweepIsRefusedAfterAnApply", says: "a sweep after the name was applied again was committed"},
		{cut: "repair-cursor", pkg: "store", test: suite + "ARepairNeverMovesTheCursorBack", says: "what was decided stays decided"},
		{cut: "cancel-early", pkg: "node", test: "TestCancelThatOvertakesTheAnswerOfABeginEndsTheAttempt", says: "no run is ended after 5s"},
	}
}

func owners() []row {
	return []row{
		{cut: "incarnation", pkg: "node", test: "TestClaimOfAFormerLifeIsRefused", says: "left an entry that nobody settles"},
		{cut: "reload", pkg: "node", test: "TestShardThatWasAnothersInBetweenIsReadAnew", says: "and counters [] are left, want no entry and one verdict"},
		{cut: "marks", pkg: "node", test: "TestLostEventOfAJobIsFoundByItsMark", says: "the job never fired"},
		{cut: "dispatcher-guard", pkg: "store", test: suite + "ADeposedDispatcherWritesNothing", says: "publish: got error <nil>"},
		{cut: "pools-unread", pkg: "store", test: suite + "NoPoolIsSweptWhileADefinitionCannotBeRead", says: "want the pool of a definition that cannot be read kept"},
	}
}

func clocks() []row {
	return []row{
		{cut: "catch-up-clock", pkg: "node", test: "TestInstantsOfAnAbsenceAreAccountedFor", says: "but 2 verdicts and"},
		{cut: "clock-step", pkg: "node", test: "TestWallClockStepStopsPlanningForAMinute", says: "after the step"},
		{cut: "backlog-early", pkg: "scheduler", test: "TestBacklogIsDrawnOneAtATime", says: "want wake 10:05:00"},
	}
}

// processes are cuts that the tests of real processes catch too: they know nothing of the program but
// what its jobs did and what it says, and judge by an oracle of their own.
func processes() []row {
	return []row{
		{cut: "lock-lease", pkg: "chaos-tests", test: "TestKilledNodesAreReplaced", says: "C11 accounted: ", slow: true},
		{cut: "lose-hold", pkg: "chaos-tests", test: "TestKilledNodesAreReplaced", says: "C12 states: ", slow: true},
		{cut: "unknown-refused", pkg: "chaos-tests", test: "TestLostRepliesNeverFireTwice", says: "none of them was started", slow: true},
		{cut: "token-memory", pkg: "chaos-tests", test: "TestLostRepliesNeverFireTwice", says: "has token 1, and the record says", slow: true},
		{cut: "command-deadline", pkg: "chaos-tests", test: "TestCommandsDieWithTheirNode", says: "the frozen node's command and child dead: not within", slow: true},
		{cut: "catch-up-clock", pkg: "chaos-tests", test: "TestEverythingRestarts", says: "has neither a record nor a range", slow: true},
	}
}
