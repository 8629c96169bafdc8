// Package executor runs one attempt and reports one result.
//
// An attempt is a call of a registered Go function, or a command: a process of its own. Commands are
// started, watched and killed by one supervisor process per node, the same program re-executed by
// [Supervise] before it does anything else, so that no command outlives its node or its right to run:
//
//	node process                                supervisor process (own session, child subreaper)
//	  Execute ──start, push, end, ping──────▶ ┐
//	                                          ├ socket pair ─▶ loop ─▶ one locked thread ─▶ command
//	  Result ◀──hello, started, ended, pong── ┘                 ▲                             │ stdout, stderr
//	                                                            └── timerfd, SIGCHLD          ▼
//	                                                                               output file, tail
//
// It guarantees:
//
//   - Each Execute yields exactly one Result, and why the attempt ended is decided in one place: the
//     first cause wins, and a command that has ended by itself before a cause reached it counts as
//     that.
//   - A command is dead when its result is reported: its process, everything in its session, and what
//     escaped from it. What a command leaves running when its main process ends is given 2 s if it
//     still holds the output, and is then killed: a command cannot start a daemon. A command that is
//     told to end gets TERM, its whole process group does, and KILL 3 s later.
//   - The supervisor holds the deadlines of a command itself: TERM and KILL of its lock's life, which
//     only the node's answered keep-alives push on, and its timeout, all on CLOCK_BOOTTIME. A frozen
//     node's commands die in time; a killed node's commands die at once. If the supervisor is killed,
//     the kernel kills the commands (PDEATHSIG), and the node kills what these had started, reports
//     them FAILED(error), and starts another. It also replaces one that no longer answers (12 s).
//   - Output is bounded: a file per attempt (10 MiB by default, the head is kept), the newest 10,000
//     files and 1 GiB per node, and a tail of 1 KiB in the result. The supervisor reads it, so that a
//     frozen node blocks no command. A full disk cuts the output, never the command.
//   - A handler that panics is a failed attempt. Go cannot end a function that ignores its context, so
//     a handler's attempt is reported when the function has returned, however long that takes: for
//     handlers, no overlap (G6) means the cancelled context plus the token.
//
// Escaped processes are found by descent (the supervisor is a child subreaper), session and
// environment, and where the node may make control groups (v2, Linux 5.14) by these, which nothing
// escapes. Without them, one that shed session, parents and environment lives until no command runs.
//
// A command sees the node's environment without its QUORUMCRON_ variables, HOME, USER and LOGNAME if it
// runs as another user, PWD, the job's variables, and the identity; /dev/null as its input; and no
// other open descriptor. An empty directory means one of its own that is removed afterwards.
//
// It leaves to others whether an attempt may start (it needs a grant), the record of the result, and
// etcd altogether: it keeps on working while etcd is away. A service manager must send its stop signal
// to the node alone (systemd: KillMode=mixed), else it ends the commands that the node is draining.
// It needs Linux.
//
// Goroutines in the node: the caller's one per attempt, and one more for a handler; Run's own, two for
// the link to the supervisor, and one that waits for its end. In the supervisor: one loop that owns all
// attempts, one locked thread that starts all processes, three for link and timer, and one per command
// for its output.
package executor
