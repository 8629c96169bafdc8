//go:build sabotage

package store

import "github.com/quorumcron/quorumcron/internal/sabotage"

var (
	cutStateCompare      = sabotage.On("state-compare")
	cutJobCompare        = sabotage.On("job-compare")
	cutLockLease         = sabotage.On("lock-lease")
	cutLockOnly          = sabotage.On("lock-only")
	cutRulesGuard        = sabotage.On("rules-guard")
	cutTriggerCompare    = sabotage.On("trigger-compare")
	cutTriggerDelete     = sabotage.On("trigger-delete")
	cutSkipJobCompare    = sabotage.On("skip-job-compare")
	cutSkipLock          = sabotage.On("skip-lock")
	cutSkipSlot          = sabotage.On("skip-slot")
	cutGroupJobs         = sabotage.On("group-jobs")
	cutFence             = sabotage.On("fence")
	cutFenceGuard        = sabotage.On("fence-guard")
	cutNonce             = sabotage.On("nonce")
	cutResolutionState   = sabotage.On("resolution-state")
	cutUnknownRepeated   = sabotage.On("unknown-repeated")
	cutFinishCompare     = sabotage.On("finish-compare")
	cutLoseLock          = sabotage.On("lose-lock")
	cutLoseSlot          = sabotage.On("lose-slot")
	cutLateCompare       = sabotage.On("late-compare")
	cutLateOverLost      = sabotage.On("late-over-lost")
	cutRequestID         = sabotage.On("request-id")
	cutTriggerJobCompare = sabotage.On("trigger-job-compare")
	cutEditJobCompare    = sabotage.On("edit-job-compare")
	cutEditStateCompare  = sabotage.On("edit-state-compare")
	cutEditPast          = sabotage.On("edit-past")
	cutDeleteTriggers    = sabotage.On("delete-triggers")
	cutSweepCompare      = sabotage.On("sweep-compare")
	cutDispatcherGuard   = sabotage.On("dispatcher-guard")
	cutCalendarRules     = sabotage.On("calendar-rules")
	cutCalendarGuard     = sabotage.On("calendar-guard")
)
