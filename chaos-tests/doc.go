// Package chaos breaks real clusters: node processes, etcd processes and the lines between them are
// killed, frozen and cut, and the history that remains is judged by package history, which believes
// only what the scheduled commands wrote down themselves.
//
// There is no code here but tests, and three small programs that they build: witness (what the jobs
// run), etcd (one etcd member) and handlers (a member that embeds the library). The tests reach the
// cluster as users do, by signals, the command line and HTTP; they import nothing that they judge.
// They run one after the other, because they measure how late things are. They guarantee to leave
// no process and no file behind, also when they fail or are killed: every process they start dies with
// them.
package chaos
