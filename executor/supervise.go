package executor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// supervised says that this program called Supervise, and so can be re-executed as the supervisor.
var supervised atomic.Bool

// How a re-executed process knows what it is: by both, so that neither a variable that somebody
// exported nor a link of that name makes a supervisor of a node.
const (
	supervisorName = "quorumcron-supervisor"
	supervisorMark = EnvPrefix + "SUPERVISOR=" + supervisorName
)

// withoutCgroups in its environment has the supervisor make no control groups.
const withoutCgroups = EnvPrefix + "SUPERVISOR_CGROUPS=off"

// linkDescriptor is what the supervisor finds open beside stdin, stdout and stderr.
// Behind the link there is, if the node has one, the locked file of the data folder: it is only held.
const linkDescriptor = 3

// Supervise must be the first call in main of a program that runs command jobs, before anything opens
// files, listens or starts goroutines. In the program itself it returns at once; in the process that
// an Executor re-executes as its supervisor it never returns.
func Supervise() {
	if os.Args[0] != supervisorName || os.Getenv(EnvPrefix+"SUPERVISOR") != supervisorName {
		supervised.Store(true)
		return
	}
	if err := supervise(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", supervisorName, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// supervise is the whole life of the supervisor process. It returns when the node's end of the link is
// closed and every process it is answerable for is dead.
func supervise() error {
	if err := inheritNothing(); err != nil {
		return err
	}
	if kind, err := unix.GetsockoptInt(linkDescriptor, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return errors.New("this name is for a process that a node starts by itself; run `quorumcron start` instead")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// A Ctrl-C or a stop of the whole service reaches this process too. It ends when the node has
	// ended, not when it is told to. Not ignored: commands would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	if err := unix.SetNonblock(linkDescriptor, true); err != nil {
		return fmt.Errorf("open the link: %w", err)
	}
	s, err := newSupervisor(os.NewFile(linkDescriptor, "link"))
	if err != nil {
		return err
	}
	return s.run()
}

// inheritNothing keeps every open descriptor from the commands, also those that this program was
// itself started with: a link in the hands of a command would look like a living node, a lock would
// keep the data folder.
func inheritNothing() error {
	err := unix.CloseRange(linkDescriptor, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // Before Linux 5.11.
	if err != nil {
		return fmt.Errorf("list open descriptors: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= linkDescriptor {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
