//go:build !chaos

package node

// failPoint is where a test build can be made to die, to hang, or to give up a firing, which it reports
// (internal/chaos); here it is nothing.
func failPoint(string) bool { return false }
