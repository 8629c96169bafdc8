// Package memetcd is an etcd cluster in memory for tests: real client code of etcd (its lessor, its
// watcher, sessions, elections) on simulated servers and links, without sockets, in virtual time.
//
//	synctest.Test(t, func(t *testing.T) {
//		etcd := memetcd.New(memetcd.Config{})
//		defer etcd.Close()
//		link := etcd.Link("node-a")          // one link per process, so that each can be cut alone
//		client := link.Client(t.Context())   // a *clientv3.Client; ends with the context
//		…
//		link.DropReplies(1, memetcd.WritesTo("/quorumcron/locks/"))
//		…
//		if link.Counts().RepliesDropped == 0 { t.Fatal("the fault never took hold") }
//	})
//
// It is true to etcd 3.7.3, and the conformance suite (package conformance) holds it against a real
// server: history and compaction; transactions with their nested guards, checks and limits; leases with
// their smallest TTL and half-second ticks; watches with what they owe and what they do not. What it
// adds are faults: of one link (cut, refuse, pause, delay, lost requests and replies, commits that land
// late, frozen watches, lost events), of the cluster (no quorum, a new leader, no space), each with a
// counter that proves that it took hold.
//
// Not emulated: more than one server (so no stale serializable reads, no lagging members, no
// membership changes), authentication and roles, RangeStream, snapshots and hashes, fragments of watch
// responses, a transaction that passes the quota only when it is applied (all are refused before; the
// sizes of the file are of about the right order), lease checkpoints (off in etcd by default),
// gRPC metadata except "require leader", endpoints and their balancing. Two races of the real thing
// have one outcome here: a watch from the past catches up at once, where etcd takes up to 100 ms and a
// compaction can overtake it; and a write right after a broken connection finds the new one, where it
// can fail as unavailable on the old one. A watcher that does not read is never held back.
// Requests and replies take no time until Config.Latency or Link.Delay says so.
//
// It starts no goroutine: requests are carried out by the goroutine that sends them, the rest by timers.
// Store.Close closes the clients, and waits for the goroutines that etcd's client has for them. In a
// bubble, store and clients must be made inside, and the store closed before the bubble's function ends.
package memetcd
