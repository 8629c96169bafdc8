//go:build sabotage

package node

import "github.com/quorumcron/quorumcron/internal/sabotage"

var (
	cutUnknownRefused   = sabotage.On("unknown-refused")
	cutUnknownGranted   = sabotage.On("unknown-granted")
	cutUnknownForgotten = sabotage.On("unknown-forgotten")
	cutSessionCheck     = sabotage.On("session-check")
	cutTokenMemory      = sabotage.On("token-memory")
	cutOrphanRule       = sabotage.On("orphan-rule")
	cutListingFirst     = sabotage.On("listing-first")
	cutHeldEarly        = sabotage.On("held-early")
	cutFoldEarly        = sabotage.On("fold-early")
	cutReload           = sabotage.On("reload")
	cutMarks            = sabotage.On("marks")
	cutCancelEarly      = sabotage.On("cancel-early")
)
