// Package sim runs a cluster in one goroutine: many members plan with the real core from lagging
// copies of what lies in a simulated etcd, while members crash and stall, links are cut, replies get
// lost, requests commit after their sender gave up, and clocks are off.
//
// It guarantees that one Config has one history: there is no time but the simulated one and no chance
// but that of the seed. It checks the promises of the design as the history is made (see ledger), by
// means that share nothing with the planner but the timetable. And it can fail: Config.Cut takes a
// guard out of the store or a wait out of a member, and the promises break.
//
// What it leaves to others: the loop, store and election code of the real program, which runs on an
// in-memory etcd in the tests of package node; etcd itself losing its quorum; parts; a machine that is
// frozen as a whole. It starts no goroutine.
package sim
