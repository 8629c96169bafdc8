package executor

import (
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// termToKill is how long a command that was told to end has before it is killed.
	termToKill = 3 * time.Second
	// lingering is how long what a command leaves running may hold its output after its main process
	// has ended.
	lingering = 2 * time.Second
	// killRetry is how soon it is looked again whether what was killed is gone, and killLimit when
	// the attempt is reported though it is not: then the kernel does not let go of it.
	killRetry = 20 * time.Millisecond
	killLimit = 10 * time.Second
	// drainLimit is how long output is read after the last process has ended: somebody outside of
	// the attempt may have been given the pipe.
	drainLimit = 500 * time.Millisecond
)

// child is one attempt in the supervisor, owned by its loop:
//
//	preparing ─▶ starting ─▶ running ─▶ exited ─▶ reported
//	     └───────────┴─(start error, told to end)──▶┘
//
// It is reported when its main process has been reaped, what that left is dead, and the output has
// been read.
type child struct {
	order   *startOrder
	program *program
	request *spawnRequest
	group   *cgroup
	output  *capture
	pipe    *os.File // read end; nil before it is started

	pid               int // 0 before it is started
	started, finished time.Duration
	cause             cause         // the first thing that told it to end
	killAt            time.Duration // after TERM; 0 none
	killed            bool

	exited   bool // the main process has been reaped
	status   syscall.WaitStatus
	read     bool          // the output has been read to its end
	lookAt   time.Duration // when to look again at what is left; 0 is not by itself
	drainBy  time.Duration // when to give up on the output; 0 not yet
	sweptAt  time.Duration // when what was left was first killed; 0 not yet
	immortal int
	warned   bool // an event has told that something of it could not be killed
}

func (s *supervisor) start(o *startOrder) {
	c := &child{order: o, output: newCapture(func() (*os.File, error) { return createOutput(o.Output) }, o.OutputLimit)}
	s.attempts[o.ID] = c
	go s.carry(c)
}

// carry takes an attempt from its order to the end of its output. It changes nothing of the child
// itself: the loop does.
func (s *supervisor) carry(c *child) {
	p, err := prepare(c.order, s.base)
	if err != nil {
		s.post(func() { s.notStarted(c, err.Error()) })
		return
	}
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		p.clean()
		s.post(func() { s.notStarted(c, p.explain(err).Error()) })
		return
	}
	// Only our own end: the command's must block, as programs expect of their output.
	syscall.SetNonblock(fds[0], true)
	pipe := os.NewFile(uintptr(fds[0]), "output")
	request := make(chan *spawnRequest, 1)
	s.post(func() { request <- s.mayStart(c, p, fds[1]) })
	r := <-request
	result := spawned{err: errBarred}
	if r != nil {
		result = s.spawner.do(r)
	}
	syscall.Close(fds[1])
	failPoint("after-exec")
	s.post(func() { s.startDone(c, pipe, result, r != nil) })
	if result.err != nil {
		pipe.Close()
		return
	}
	drain(pipe, c.output)
	failPoint("after-exit")
	s.post(func() { c.read = true; s.look(c, bootNow()) })
}

// buffers are for reading output; one is held for as long as a command runs.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// drain reads to the end, or until the loop sets a deadline. It never stops early: a command must not
// block because its output is of no more use.
func drain(pipe *os.File, output *capture) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	defer pipe.Close()
	for {
		n, err := pipe.Read(*buffer)
		output.Write((*buffer)[:n])
		if err != nil {
			return
		}
	}
}

// mayStart is the last look before a start: nil if the attempt was told to end, or its lock is about
// to.
func (s *supervisor) mayStart(c *child, p *program, output int) *spawnRequest {
	c.program = p
	if c.cause != causeNone || s.nodeGone || c.order.Term > 0 && bootNow()+startMargin >= c.order.Term {
		return nil
	}
	c.group = s.cgroups.add(c.order.ID)
	c.request = &spawnRequest{program: p, output: output, cgroup: c.group.fd()}
	s.starting++
	return c.request
}

// startDone takes the answer of the spawner, or that it was not asked.
func (s *supervisor) startDone(c *child, pipe *os.File, r spawned, asked bool) {
	if asked {
		s.starting--
		c.group.opened()
		if !r.grouped {
			s.cgroups.remove(c.group)
			c.group = nil
		}
	}
	early, gone := s.early[r.pid]
	if s.starting == 0 {
		clear(s.early)
	}
	switch {
	case r.err == errBarred:
		s.notStarted(c, "")
		return
	case r.err != nil:
		s.notStarted(c, r.err.Error())
		return
	}
	c.pid, c.started, c.pipe = r.pid, r.at, pipe
	s.byPid[c.pid] = c
	s.out.send(report{Started: &startedReport{ID: c.order.ID, Pid: c.pid}})
	switch {
	case gone, ended(c.pid): // It was not told before it had ended by itself.
		c.cause = causeNone
		if gone {
			s.exited(c, early)
		}
	case c.cause != causeNone:
		s.terminate(c, bootNow()) // It was told while it was being started.
	}
}

// notStarted reports an attempt of which nothing ran; problem is "" if it was not tried.
func (s *supervisor) notStarted(c *child, problem string) {
	s.clean(c.program)
	delete(s.attempts, c.order.ID)
	s.out.send(report{Ended: &endedReport{
		ID:         c.order.ID,
		Cause:      c.cause,
		StartError: problem,
		Barred:     problem == "" && c.cause == causeNone,
	}})
}

// end tells an attempt to end, unless something else did first or it has ended by itself.
func (s *supervisor) end(c *child, why cause) {
	if c.cause != causeNone || c.exited || c.pid != 0 && ended(c.pid) {
		return
	}
	c.cause = why
	if c.request != nil {
		c.request.barred.Store(true)
	}
	if c.pid != 0 {
		s.terminate(c, bootNow())
	}
}

// ended says whether a child has ended and waits to be reaped: then it ended before what is about to
// happen to it, even if the loop does not know yet.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// terminate asks the process group to end, and sets when it is killed if it does not.
func (s *supervisor) terminate(c *child, now time.Duration) {
	c.killAt = now + termToKill
	unix.Kill(-c.pid, unix.SIGTERM)
	unix.Kill(-c.pid, unix.SIGCONT) // A stopped process would sit on the signal until it is killed.
}

// kill ends all processes of an attempt whose main process has not been reaped.
func (s *supervisor) kill(c *child) {
	c.killed = true
	unix.Kill(-c.pid, unix.SIGKILL)
	s.sweep(c)
}

// bound says whether the attempt may not outlive its lock.
func (c *child) bound() bool { return !c.order.SessionFinish && c.order.Kill > 0 }

// attend does what is due for an attempt and returns when the next thing is, 0 for nothing.
func (s *supervisor) attend(c *child, now time.Duration) time.Duration {
	o := c.order
	if c.exited {
		if c.lookAt > 0 && c.lookAt <= now {
			s.look(c, now)
		}
		if s.attempts[o.ID] != c {
			return 0 // reported
		}
		return c.lookAt
	}
	if c.pid == 0 {
		return 0 // mayStart looks at the deadlines; a timeout begins with the start.
	}
	bound := c.bound()
	if o.Timeout > 0 && c.started+o.Timeout <= now {
		s.end(c, causeTimeLimit)
	}
	if bound && o.Term <= now {
		s.end(c, causeLockLost)
	}
	if !c.killed && (c.killAt > 0 && c.killAt <= now || bound && o.Kill <= now) {
		s.kill(c)
	}
	var next time.Duration
	soonest := func(at time.Duration) {
		if at > now && (next == 0 || at < next) {
			next = at
		}
	}
	if c.cause == causeNone && o.Timeout > 0 {
		soonest(c.started + o.Timeout)
	}
	if c.killed {
		return next
	}
	soonest(c.killAt)
	if bound {
		soonest(o.Term)
		soonest(o.Kill)
	}
	return next
}

// exited notes that the main process has been reaped.
func (s *supervisor) exited(c *child, status syscall.WaitStatus) {
	delete(s.byPid, c.pid)
	now := bootNow()
	c.exited, c.status, c.finished, c.lookAt = true, status, now, now+lingering
	if c.killAt > 0 {
		c.lookAt = min(c.lookAt, c.killAt)
	}
	if c.bound() {
		c.lookAt = min(c.lookAt, c.order.Kill)
	}
	if c.killed {
		c.lookAt = now
	}
	s.look(c, now)
}

// look goes on with an attempt whose main process has ended: wait for the output's end, kill what is
// left, wait until that is gone, report.
func (s *supervisor) look(c *child, now time.Duration) {
	if !c.exited || s.attempts[c.order.ID] != c || !c.read && now < c.lookAt {
		return
	}
	if left := s.sweep(c); left > 0 {
		if c.sweptAt == 0 {
			c.sweptAt = now
		}
		if now < c.sweptAt+killLimit {
			c.lookAt = now + killRetry
			return
		}
		c.immortal = left
	}
	if !c.read {
		if c.drainBy == 0 {
			c.drainBy, c.lookAt = now+drainLimit, now+drainLimit
			return
		}
		if now >= c.drainBy {
			c.pipe.SetReadDeadline(time.Unix(1, 0)) // drain returns at once, and look is called again
			c.lookAt = 0
		}
		return
	}
	s.finish(c)
}

// sweep kills what is left of an attempt and returns how many processes that were, at least.
func (s *supervisor) sweep(c *child) int {
	if c.exited && !s.orphans() {
		return 0
	}
	if c.group != nil {
		if c.group.empty() {
			return 0
		}
		s.warn(c, killCgroup(c.group.folder))
		return 1
	}
	left := s.left(c)
	for _, p := range left {
		s.warn(c, killProcess(p))
	}
	return len(left)
}

// warn tells once that something of an attempt could not be killed: it is tried again and again.
func (s *supervisor) warn(c *child, err error) {
	if err != nil && !c.warned {
		c.warned = true
		s.event(slog.LevelError, "process of a command not killed", "pid", strconv.Itoa(c.pid), "err", err.Error())
	}
}

// left finds the living processes of an attempt.
func (s *supervisor) left(c *child) []process {
	all, err := allProcesses()
	if err != nil {
		s.event(slog.LevelError, "processes not listed", "err", err.Error())
		return nil
	}
	session := c.pid
	if other := s.byPid[c.pid]; other != nil && other != c {
		session = 0 // The number has been given to another attempt; ours has nothing in its session.
	}
	candidates := slices.DeleteFunc(descendants(all, os.Getpid()), func(p process) bool {
		other := s.byPid[p.session]
		return other != nil && other != c // Nobody gets into the session of another attempt.
	})
	if len(s.attempts) == 1 {
		return candidates // Whatever they did to hide, they can be nobody else's.
	}
	return ofAttempt(candidates, session, c.order.Marks)
}

// orphans says whether any process has lost its parent and is now a child of this one. Only an orphan,
// or what is below one, can be left of an attempt whose main process has been reaped: the kernel hands
// over the children of a process before it tells of its end, and it hands them to the first thread,
// which starts no process itself.
func (s *supervisor) orphans() bool {
	pid := strconv.Itoa(os.Getpid())
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	return err != nil || strings.TrimSpace(string(children)) != ""
}

// finish reports an attempt.
func (s *supervisor) finish(c *child) {
	delete(s.attempts, c.order.ID)
	s.cgroups.remove(c.group)
	s.clean(c.program)
	r := &endedReport{
		ID:       c.order.ID,
		Cause:    c.cause,
		Started:  c.started,
		Finished: c.finished,
		ExitCode: int32(c.status.ExitStatus()),
		Immortal: c.immortal,
		Output:   c.output.close(),
	}
	if c.status.Signaled() {
		r.Signal = int(c.status.Signal())
		r.ExitCode = int32(128 + r.Signal)
	}
	s.out.send(report{Ended: r})
}
