package election_test

import (
	"context"
	"fmt"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// A process opens its sessions, learns what it may do from the events, takes a lock lease for one lock
// and stops.
func ExampleSessions() {
	etcd := memetcd.New(memetcd.Config{}) // in a program: election.Dial
	defer etcd.Close()
	client := etcd.Client(context.Background())
	defer client.Close()

	opened := make(chan int64, 1)
	term := make(chan scheduler.Guard, 1)
	clock := election.BootClock()
	sessions, err := election.New(election.Config{
		Client: client,
		Member: scheduler.Member{Name: "node-a", Capacity: 256},
		Clock:  clock,
		Notify: func(event election.Event) {
			switch e := event.(type) {
			case election.TermBegan:
				term <- e.Guard // to be compared by every write of the term
			case election.LockLeaseOpened:
				opened <- e.ID
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- sessions.Run(ctx) }()

	<-term
	fmt.Println("dispatcher:", sessions.Status().Member.Name)
	<-opened
	lease, err := sessions.LockLease(clock())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("surely dead after:", lease.Hold)
	sessions.Release(lease.ID) // the lock is gone

	stop()
	fmt.Println("stopped:", <-ended)
	// Output:
	// dispatcher: node-a
	// surely dead after: 15s
	// stopped: <nil>
}
