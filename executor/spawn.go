package executor

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// spawner starts all processes from one locked thread. The kernel kills a process with PDEATHSIG when
// the *thread* that started it ends, so that thread must live as long as the supervisor; and it must
// not be the first thread, whose list of children then holds only orphans (see orphans).
type spawner struct {
	requests chan *spawnRequest
	devNull  int
}

type spawnRequest struct {
	program *program
	output  int // descriptor that becomes stdout and stderr
	cgroup  int // descriptor of the control group to start in; -1 for none
	// barred is set when the attempt was told to end before it was started.
	barred atomic.Bool
	reply  chan spawned
}

type spawned struct {
	pid     int
	at      time.Duration // just before it was started
	grouped bool          // it is in the control group
	err     error
}

// errBarred: nothing was started, because nothing may be any more.
var errBarred = errors.New("barred")

func newSpawner() (*spawner, error) {
	devNull, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &spawner{requests: make(chan *spawnRequest), devNull: devNull}
	go s.run()
	return s, nil
}

// run never returns: its thread would end with it.
func (s *spawner) run() {
	runtime.LockOSThread()
	if syscall.Gettid() == syscall.Getpid() {
		go s.run() // On another thread, because this one is taken for good.
		select {}
	}
	for r := range s.requests {
		r.reply <- s.start(r)
	}
	select {}
}

// do starts a process and waits until it runs its program.
func (s *spawner) do(r *spawnRequest) spawned {
	r.reply = make(chan spawned, 1)
	s.requests <- r
	return <-r.reply
}

func (s *spawner) start(r *spawnRequest) spawned {
	if r.barred.Load() {
		return spawned{err: errBarred}
	}
	p := r.program
	attr := &syscall.ProcAttr{
		Dir:   p.dir,
		Env:   p.env,
		Files: []uintptr{uintptr(s.devNull), uintptr(r.output), uintptr(r.output)},
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Pdeathsig:  syscall.SIGKILL,
			Credential: p.credential,
		},
	}
	if r.cgroup >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, r.cgroup
		if pid, at, err := forkExec(p, attr); err == nil {
			return spawned{pid: pid, at: at, grouped: true}
		}
		// Whether the group or the program is at fault is seen without the group: a start that
		// failed has run nothing.
		attr.Sys.UseCgroupFD = false
	}
	pid, at, err := forkExec(p, attr)
	if err != nil {
		return spawned{err: p.explain(err)}
	}
	return spawned{pid: pid, at: at}
}

func forkExec(p *program, attr *syscall.ProcAttr) (int, time.Duration, error) {
	at := bootNow()
	pid, err := syscall.ForkExec(p.path, p.args, attr)
	return pid, at, err
}
