package election

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumcron/quorumcron/scheduler"
)

// BootClock reads the machine's clocks: the wall clock, and CLOCK_BOOTTIME, which goes on while the
// machine is suspended (the monotonic clock stops, so that a laptop's lid would stretch a lease).
// The wall reading carries no monotonic part, so that differences between two of them show steps.
func BootClock() func() scheduler.Reading {
	return func() scheduler.Reading {
		var ts unix.Timespec
		// It cannot fail: the clock exists since Linux 2.6.39 and the pointer is good.
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic("reading CLOCK_BOOTTIME: " + err.Error())
		}
		return scheduler.Reading{Wall: bent(time.Now().Round(0).UTC()), Elapsed: time.Duration(ts.Nano())}
	}
}
