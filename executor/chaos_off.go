//go:build !chaos

package executor

// failPoint is where a test build can be made to die or to hang (internal/chaos); here it is nothing.
func failPoint(string) bool { return false }
