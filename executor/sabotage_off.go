//go:build !sabotage

package executor

// What the executor can go without in the test build (internal/sabotage), and what goes wrong then.
const (
	// cutHandlerDeadline: a handler goes on, and is not told, beside the attempt that follows it.
	cutHandlerDeadline = false
	// cutCommandDeadline: a command goes on beside the attempt that follows it.
	cutCommandDeadline = false
)
