//go:build sabotage

package scheduler

import "github.com/quorumcron/quorumcron/internal/sabotage"

var (
	cutOverlapMemory = sabotage.On("overlap-memory")
	cutAgeCheck      = sabotage.On("age-check")
	cutLoseHold      = sabotage.On("lose-hold")
	cutFoldCount     = sabotage.On("fold-count")
	cutSlotsShared   = sabotage.On("slots-shared")
	cutRetrySlot     = sabotage.On("retry-slot")
	cutBooks         = sabotage.On("books")
	cutDeleteState   = sabotage.On("delete-state")
	cutDeleteRetries = sabotage.On("delete-retries")
	cutIncarnation   = sabotage.On("incarnation")
	cutCatchUpClock  = sabotage.On("catch-up-clock")
	cutClockStep     = sabotage.On("clock-step")
	cutBacklogEarly  = sabotage.On("backlog-early")
)
