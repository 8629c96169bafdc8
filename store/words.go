package store

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// words are the core's strings for the numbers of an enum; their place is the number. A number that
// is not among them was written by a newer member: it becomes "#<number>" and is written back as it
// was, so that rewriting a value loses nothing.
type words[W ~string] []W

func (w words[W]) word(number int32) W {
	if number >= 0 && int(number) < len(w) {
		return w[number]
	}
	return W("#" + strconv.Itoa(int(number)))
}

func (w words[W]) number(word W) (int32, error) {
	for i, known := range w {
		if known == word {
			return int32(i), nil
		}
	}
	if digits, found := strings.CutPrefix(string(word), "#"); found {
		if n, err := strconv.ParseInt(digits, 10, 32); err == nil {
			return int32(n), nil
		}
	}
	return 0, fmt.Errorf("%T %q has no stored form", word, string(word))
}

var (
	verdicts = words[scheduler.Verdict]{
		storedv1.Verdict_VERDICT_UNSPECIFIED: "",
		storedv1.Verdict_VERDICT_SUCCEEDED:   scheduler.Succeeded,
		storedv1.Verdict_VERDICT_FAILED:      scheduler.Failed,
		storedv1.Verdict_VERDICT_TIMED_OUT:   scheduler.TimedOut,
		storedv1.Verdict_VERDICT_CANCELED:    scheduler.Canceled,
		storedv1.Verdict_VERDICT_LOST:        scheduler.Lost,
		storedv1.Verdict_VERDICT_SKIPPED:     scheduler.Skipped,
		storedv1.Verdict_VERDICT_MISSED:      scheduler.Missed,
	}
	reasons = words[scheduler.Reason]{
		storedv1.Reason_REASON_UNSPECIFIED:    "",
		storedv1.Reason_REASON_OVERLAP:        scheduler.ReasonOverlap,
		storedv1.Reason_REASON_PAUSED:         scheduler.ReasonPaused,
		storedv1.Reason_REASON_EDITED:         scheduler.ReasonEdited,
		storedv1.Reason_REASON_DELETED:        scheduler.ReasonDeleted,
		storedv1.Reason_REASON_CANCELED:       scheduler.ReasonCanceled,
		storedv1.Reason_REASON_CATCH_UP:       scheduler.ReasonCatchUp,
		storedv1.Reason_REASON_WINDOW:         scheduler.ReasonWindow,
		storedv1.Reason_REASON_START_DEADLINE: scheduler.ReasonStartDeadline,
		storedv1.Reason_REASON_START_ERROR:    scheduler.ReasonStartError,
		storedv1.Reason_REASON_EXIT_CODE:      scheduler.ReasonExitCode,
		storedv1.Reason_REASON_ERROR:          scheduler.ReasonError,
		storedv1.Reason_REASON_PANIC:          scheduler.ReasonPanic,
		storedv1.Reason_REASON_STOPPING:       scheduler.ReasonStopping,
		storedv1.Reason_REASON_LOCK_LOST:      scheduler.ReasonLockLost,
		storedv1.Reason_REASON_MEMBER_LOST:    scheduler.ReasonMemberLost,
		storedv1.Reason_REASON_NEVER_STARTED:  scheduler.ReasonNeverStarted,
		storedv1.Reason_REASON_EXCLUDED:       scheduler.ReasonExcluded,
	}
	targetModes = words[string]{
		storedv1.TargetMode_TARGET_MODE_UNSPECIFIED: "",
		storedv1.TargetMode_TARGET_MODE_ONE:         "one",
	}
	overlaps = words[scheduler.OverlapPolicy]{
		storedv1.OverlapPolicy_OVERLAP_POLICY_UNSPECIFIED: "",
		storedv1.OverlapPolicy_OVERLAP_POLICY_SKIP:        scheduler.OverlapSkip,
	}
	catchUps = words[scheduler.CatchUpMode]{
		storedv1.CatchUpMode_CATCH_UP_MODE_UNSPECIFIED: "",
		storedv1.CatchUpMode_CATCH_UP_MODE_LATEST:      scheduler.CatchUpLatest,
		storedv1.CatchUpMode_CATCH_UP_MODE_NONE:        scheduler.CatchUpNone,
	}
	onLosts = words[scheduler.OnLost]{
		storedv1.OnLost_ON_LOST_UNSPECIFIED: "",
		storedv1.OnLost_ON_LOST_FAIL:        scheduler.OnLostFail,
		storedv1.OnLost_ON_LOST_RETRY:       scheduler.OnLostRetry,
	}
	onSessionLosts = words[scheduler.OnSessionLost]{
		storedv1.OnSessionLost_ON_SESSION_LOST_UNSPECIFIED: "",
		storedv1.OnSessionLost_ON_SESSION_LOST_KILL:        scheduler.SessionLostKill,
		storedv1.OnSessionLost_ON_SESSION_LOST_FINISH:      scheduler.SessionLostFinish,
	}
)
