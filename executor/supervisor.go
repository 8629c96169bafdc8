package executor

import (
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// supervisor is the supervisor process: it owns the commands of one node. Its loop owns everything in
// it; other goroutines hand it functions by post. It reads no wall clock.
type supervisor struct {
	link    *os.File
	out     *outbox[report]
	spawner *spawner
	cgroups *cgroups
	timer   *bootTimer
	base    []string // environment of the node, as commands get it

	posts chan func() // run by the loop, in turn

	// Owned by the loop.
	attempts map[int64]*child
	byPid    map[int]*child // whose main process has not been reaped
	starting int            // processes that the spawner may have started and not yet told of
	early    map[int]syscall.WaitStatus
	nodeGone bool

	cleaning sync.WaitGroup // removal of scratch directories
}

func newSupervisor(link *os.File) (*supervisor, error) {
	spawner, err := newSpawner()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	timer, err := newBootTimer()
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	var groups *cgroups
	if !slices.Contains(os.Environ(), withoutCgroups) {
		groups = openCgroups()
	}
	return &supervisor{
		link:     link,
		out:      newOutbox[report](),
		spawner:  spawner,
		cgroups:  groups,
		timer:    timer,
		base:     foreignEnv(os.Environ()),
		posts:    make(chan func()),
		attempts: map[int64]*child{},
		byPid:    map[int]*child{},
		early:    map[int]syscall.WaitStatus{},
	}, nil
}

// run is the loop. It ends when the node is gone and everything is dead.
func (s *supervisor) run() error {
	ended := make(chan os.Signal, 1) // One token is enough: each makes the loop reap all there is.
	signal.Notify(ended, syscall.SIGCHLD)
	go s.out.run(s.link)
	go s.readOrders()
	go s.timer.run(s.post)
	s.out.send(report{Hello: &hello{Pid: os.Getpid(), Cgroup: s.cgroups.folder()}})
	for !s.nodeGone {
		select {
		case <-ended:
			s.reap()
		case f := <-s.posts:
			f()
		}
		s.timer.set(s.turn(bootNow()))
	}
	s.killAll(ended)
	s.cleaning.Wait()
	return nil
}

// post has the loop run f. It returns when the loop has taken it.
func (s *supervisor) post(f func()) { s.posts <- f }

func (s *supervisor) event(level slog.Level, message string, facts ...string) {
	s.out.send(report{Event: &eventReport{Level: level, Message: message, Facts: facts}})
}

// readOrders hands the node's orders to the loop. Its end is the node's: dead or stopped, it is all
// the same, nothing it started may go on.
func (s *supervisor) readOrders() {
	decoder := gob.NewDecoder(s.link)
	for {
		var o order
		if err := decoder.Decode(&o); err != nil {
			s.post(func() { s.nodeGone = true })
			return
		}
		s.post(func() { s.obey(o) })
	}
}

func (s *supervisor) obey(o order) {
	switch {
	case o.Start != nil:
		s.start(o.Start)
	case o.Push != nil:
		if c := s.attempts[o.Push.ID]; c != nil {
			// Deadlines only ever move on: an older one cannot overtake a newer.
			c.order.Term, c.order.Kill = max(c.order.Term, o.Push.Term), max(c.order.Kill, o.Push.Kill)
		}
	case o.End != nil:
		if c := s.attempts[o.End.ID]; c != nil {
			s.end(c, o.End.Cause)
		}
	case o.Ping != 0:
		s.out.send(report{Pong: o.Ping})
	}
}

// turn does what is due and returns when the next thing is, 0 for nothing.
func (s *supervisor) turn(now time.Duration) time.Duration {
	var next time.Duration
	for _, c := range s.attempts {
		if due := s.attend(c, now); due > 0 && (next == 0 || due < next) {
			next = due
		}
	}
	return next
}

// reap takes the ends of all processes that have ended, orphans among them.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := s.byPid[pid]; c != nil {
			s.exited(c, status)
		} else if s.starting > 0 {
			s.early[pid] = status // It may have ended before the spawner could tell of it.
		}
	}
}

// killAll ends every process below this one. It does not give up: the data folder stays locked, and so
// the name of the node taken, until they are dead.
func (s *supervisor) killAll(ended <-chan os.Signal) {
	wait := killRetry
	for {
		if s.cgroups != nil {
			killCgroup(s.cgroups.root)
		}
		all, err := allProcesses()
		if err != nil {
			return // Without /proc: this process's end kills its children by PDEATHSIG.
		}
		below := descendants(all, os.Getpid())
		for _, p := range below {
			killProcess(p)
		}
		var status syscall.WaitStatus
		for {
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.ECHILD) && len(below) == 0 && s.starting == 0 {
				s.leave()
				return
			}
			if err != nil && !errors.Is(err, syscall.EINTR) || pid == 0 {
				break
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ended:
		case f := <-s.posts: // Nobody who posts may wait for ever.
			f()
		case <-timer.C:
			wait = min(2*wait, time.Second) // What does not die by now may never do.
		}
		timer.Stop()
	}
}

// leave removes what attempts that were killed with their node have left.
func (s *supervisor) leave() {
	for _, c := range s.attempts {
		s.clean(c.program)
	}
	if s.cgroups != nil {
		removeCgroup(s.cgroups.root)
	}
}

// clean removes a scratch directory, however long that takes.
func (s *supervisor) clean(p *program) {
	if p == nil || p.scratch == "" {
		return
	}
	s.cleaning.Add(1)
	go func() {
		defer s.cleaning.Done()
		if err := p.clean(); err != nil {
			s.event(slog.LevelWarn, "scratch directory not removed", "err", err.Error())
		}
	}()
}
