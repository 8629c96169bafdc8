package executor

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bootTimer calls a function when CLOCK_BOOTTIME reaches an instant. Go's own timers stand still while
// the machine is suspended; a command's deadline does not.
type bootTimer struct {
	fd   int
	file *os.File
	at   time.Duration // what it is set to; 0 is off
}

func newBootTimer() (*bootTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &bootTimer{fd: fd, file: os.NewFile(uintptr(fd), "timer")}, nil
}

// set makes the timer fire at an instant, at once if that has passed; 0 switches it off.
func (t *bootTimer) set(at time.Duration) {
	if at == t.at {
		return
	}
	t.at = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic(err) // A descriptor of our own and a valid time.
	}
}

// run posts an empty function, which gives the loop a turn, each time the timer fires.
func (t *bootTimer) run(post func(func())) {
	var count [8]byte
	for {
		if _, err := t.file.Read(count[:]); err != nil {
			return
		}
		if binary.NativeEndian.Uint64(count[:]) > 0 {
			post(func() { t.at = 0 })
		}
	}
}
