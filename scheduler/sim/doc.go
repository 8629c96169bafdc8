// Package sim runs a cluster in one goroutine: many members plan with the real core from lagging copies
// of what lies in a simulated etcd, while processes crash and stall, machines freeze, links are cut in one
// direction or both, requests commit long after their sender gave up, watches lose events, clocks are off
// and jump, etcd has no leader, and users edit, pause, trigger, cancel, delete and apply again.
//
// It guarantees that a script has one history: there is no time but the simulated one and no chance but
// that of the seed. An oracle checks the promises of the design as the history is made, with an account
// and a calendar of its own. And it can fail: without any one of the protections in Cuts a promise breaks.
//
// The members follow package node by the names of its methods, and etcd the transactions of package store,
// guard by guard; they are other code all the same. What they leave to others: the real loop, store and
// election, which run on an in-memory etcd in the tests of package node; groups of several claims in one
// transaction; the spool of results; parts. The package starts no goroutine.
//
// # A seed
//
//	go test ./scheduler/sim -run BadDay -seed 7 -v
//	make sim-week        # 5 members, 1,000 jobs every 5 minutes, about 500 faults, 7 days
//
// A seed is a script that is drawn (Shape.Script). If its history breaks a promise, the test prints the
// shortest script that breaks the same one (Shrink), and the trace of it. Put that into a file in testdata,
// divider and all, and it is a test.
//
// # A trace
//
//	01:00:00.005 n1 begin report@01:00 #1: token 15, slot 0
//	01:00:00.010 n1 starts report@01:00 #1
//
// is: at that true time a transaction of member n1 was committed, which granted attempt 1 of the firing of
// job report that is scheduled for 01:00; 5 ms later its answer was there and the attempt was started. A
// line that begins with the name of a decision (begin, skip, miss, lose, fold, sweep), fence, finish or late
// result stands where etcd commits; "… refused: why" is where it refuses. Days after the first begin with
// their number. report.2 is the second uid of the name, report+t1 is what trigger t1 asked for.
//
// # A script
//
// A file in testdata is blocks of commands, each followed by a line of four dashes and the trace that it
// leads to; an empty line ends the trace. go test -run Scripts -update writes the traces; the difference is
// reviewed like code. Commands take no time but advance and settle:
//
//	world seed=7 lag=1ms..150ms start=2026-03-28T12:00:00Z ttl=10s grace=5s   first, if at all; "patient" goes
//	                                               on after a violation; the lag is 5ms unless it says so
//	without CUT                                    goes without a protection (see Cuts)
//	members n1 n2 n3                               they come up before the time 0; a later one joins
//	member n4 skew=-120ms capacity=4
//	apply NAME every=5m runs=20s                   creates or edits a job; more of it: origin= cron="0 2 * * *"
//	      (several with ;) zone= at= start= end= jitter= onLost=fail|retry attempts= catchUp=latest|none
//	      window= deadline= timeout= history= paused=true; and how its attempts behave: runs=1s..30s
//	      ends=ok|fail|mixed, stubborn (does not end when asked to). by=n2 names the member that serves it
//	calendar NAME hours=22:00-06:00 dates=12-25,…  creates or changes an exclusion calendar; more of it: weekdays=
//	                                               zone= by=. apply has exclude=NAME,NAME
//	pause, resume, delete, trigger, cancel NAME    by=n2 as above
//	advance 61m                                    lets time pass
//	settle                                         ends every fault and waits until all has come to its end
//	show NAME …                                    a job's books
//	crash n1 [folder=lost]      restart n1         the process; folder=lost takes its data folder away
//	drain n1                                       SIGTERM
//	cut n1 [requests|replies]   heal n1            the link; heal mends everything about it
//	slow n1 2s                                     each message takes so much longer
//	deaf n1                                        watches of rules, definitions and triggers lose events
//	stall n1 20s                                   the process stands, its supervisor does not
//	freeze n1 1m                                   the whole machine stands
//	step n1 -20s                                   the wall clock jumps
//	lose n1 request|reply begin [NAME]             the next request of that kind, or its answer, is lost
//	delay n1 8s begin [NAME]                       it commits 8 s late; kinds: begin skip miss lose fold sweep
//	                                               resolve finish late read look list keep-alive publish any
//	panic n1 [NAME]                                the next grant is forgotten
//	revoke n1 member|locks                         somebody revokes its lease
//	etcd down                   etcd up            no leader, and one again
package sim
