// Package node is one member of the cluster: the hub that turns events into plans, and plans into
// calls.
//
// A Node owns one loop. The loop owns the view (the jobs of the shards this member owns, their
// states, what is known of their attempts in flight), asks scheduler.PlanJob what to do next, and
// hands every answer to a goroutine of its own in fire.go. The loop never waits for etcd, and fire
// never touches the view: results come back as events.
//
//	etcd ──watch──▶ view ──▶ scheduler.PlanJob ──▶ decision ──▶ fire ──▶ store, executor
//	                 ▲                                            │
//	                 └──────────── results and refusals ──────────┘
//
// It guarantees that nothing is started without a committed Begin of this very process, that what
// was started is reported, and that stopping loses nothing. It leaves the decisions to scheduler,
// the transactions to store, the leases to election and the processes to executor; those four never
// call each other.
//
// Goroutines: Run starts all of them and waits for them. They are the loop; the stores' packer and
// the sessions; one follower for the rules, the queue and each owned shard; one for each decision
// in flight; one follower for each attempt in flight elsewhere; the dispatcher while this member is
// elected; the watchdog and the two small reads of each minute (upkeep.go).
package node
