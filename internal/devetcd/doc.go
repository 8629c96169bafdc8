// Package devetcd runs etcd servers on this machine: one inside the process, for `quorumcron dev` and
// for tests, or members as processes of their own, for tests that kill them.
//
// It guarantees that a server is ready when Start returns (it has answered a linearizable read), that
// Close leaves no goroutine of ours, no listener and no lock on the folder, and that no port has to be
// chosen: the system does. It leaves clients to election.Dial, and it is not a way to run etcd in
// production: one member, no TLS, fsync only if asked for.
//
// Goroutines: those of etcd, from Start to Close; for a process of its own, one that waits for its end.
package devetcd
