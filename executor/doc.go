// Package executor runs one attempt and reports one result.
//
// An attempt is a call of a registered Go function, or a command: a process of its own. Commands are
// started, watched and killed by one supervisor process per node, the same program re-executed by
// [Supervise] before it does anything else, so that no command outlives its node or its right to run:
//
//	node process                                supervisor process (own session, child subreaper)
//	  Execute ──start, push, cancel, ping──▶ ┐
//	                                         ├ socket pair ─▶ loop ─▶ one locked thread ─▶ command
//	  Result ◀──hello, started, ended, pong─ ┘                 ▲                             │ stdout, stderr
//	                                                           └── timerfd, SIGCHLD          ▼
//	                                                                              output file, tail
//
// It guarantees:
//
//   - Each Execute yields exactly one Result, and why the attempt ended is decided in one place: the
//     first cause wins.
//   - A command is dead when its result is reported: its process, everything in its session, and what
//     escaped from it. What a command leaves running when its main process ends is given 2 s if it
//     still holds the output, and is then killed: a command cannot start a daemon.
//   - The supervisor holds the deadlines of a command itself: TERM and KILL of its lock's life, which
//     only the node's answered keep-alives push on, and its timeout. A frozen node's commands die in
//     time; a killed node's commands die at once, and so do those of a killed supervisor (the kernel
//     kills the commands; the node, which sees it, kills what they had started).
//   - Output is bounded: a file per attempt (10 MiB by default, the head is kept), the newest 10,000
//     files and 1 GiB per node, and a tail of 1 KiB in the result. A full disk cuts the output, never
//     the command.
//   - A handler that panics is a failed attempt. Go cannot end a function that ignores its context, so
//     a handler's attempt is reported when the function has returned, however long that takes: for
//     handlers, no overlap (G6) means the cancelled context plus the token.
//
// It leaves to others whether an attempt may start (it needs a grant), the record of the result, and
// etcd altogether: it keeps on working while etcd is away.
//
// Goroutines in the node: the caller's one per attempt, and one more for a handler; Run has one that
// keeps the supervisor running and two for its socket. In the supervisor: one loop that owns all
// attempts, one locked thread that starts all processes, and one goroutine per command for its output.
package executor
