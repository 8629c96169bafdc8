//go:build sabotage

package executor

import "github.com/quorumcron/quorumcron/internal/sabotage"

var (
	cutHandlerDeadline = sabotage.On("handler-deadline")
	cutCommandDeadline = sabotage.On("command-deadline")
)
