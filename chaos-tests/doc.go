// Package chaos breaks real clusters: node processes, etcd processes and the lines between them are
// killed, frozen and cut, and the history that remains is judged by package history, which believes
// what the scheduled commands wrote down themselves, and what was committed in etcd.
//
// There is no code here but tests, and small programs that they build: witness (what the jobs run),
// receiver (what witness sends its effects to), etcd (one etcd member) and handlers (a member that embeds
// the library). Package collect gathers what was written to etcd. The tests reach the
// cluster as users do, by signals, the command line and HTTP; they import nothing that they judge.
// They run one after the other, because they measure how late things are. They guarantee to leave
// no process and no file behind, also when they fail or are killed: every process they start dies with
// them.
package chaos
