//go:build !chaos

package election

import "time"

// bent is where a test build bends the wall clock of a process (internal/chaos); here it is what it was.
func bent(wall time.Time) time.Time { return wall }
