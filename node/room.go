package node

import (
	"container/list"

	"github.com/quorumcron/quorumcron/scheduler"
)

// maxClaims bounds the Begins that are on their way at once: a few groups of the packer. One that
// waits in a long queue is granted when it is too old to be started, and its firing ends LOST(never
// started); one that waits here is merely late.
const maxClaims = 512

// kind is what an attempt takes room among.
type kind int

const (
	handlers kind = iota
	commands
)

func kindOf(job scheduler.Job) kind {
	if job.Run.Command != nil {
		return commands
	}
	return handlers
}

// room is the queues of jobs that could not begin something for want of room (claims on their way,
// capacity, a lock lease): first come, first served, each kind by itself. Every turn plans as many of
// them as there is room for, whatever made it, so that no event can be missed; and no more, so that a
// herd costs one plan for each start and not one for each pair. Only the loop touches it.
type room struct {
	claims int // Begins on their way
	// leaseless says that no lease took the last lock. One job at a time looks whether one does again.
	leaseless bool
	queues    [2]queue // by kind
}

// queue is jobs in the order they came.
type queue struct {
	order list.List // of scheduler.JobName
	place map[scheduler.JobName]*list.Element
}

func newRoom() *room {
	r := &room{}
	for k := range r.queues {
		r.queues[k].place = map[scheduler.JobName]*list.Element{}
	}
	return r
}

// wait queues a job, or leaves it at its place.
func (r *room) wait(k kind, job scheduler.JobName) {
	if q := &r.queues[k]; q.place[job] == nil {
		r.forget(job) // an edit may have made it another kind
		q.place[job] = q.order.PushBack(job)
	}
}

// forget takes a job out: it has begun, or wants no room any more.
func (r *room) forget(job scheduler.JobName) {
	for k := range r.queues {
		if q := &r.queues[k]; q.place[job] != nil {
			q.order.Remove(q.place[job])
			delete(q.place, job)
		}
	}
}

// freeRoom is how many more attempts of a kind may be begun now.
func (n *Node) freeRoom(k kind) int {
	capacity := n.cfg.HandlerCapacity
	if k == commands {
		capacity = n.cfg.Capacity
	}
	return min(capacity-n.held.count(k), maxClaims-n.view.room.claims)
}

// takeRoom takes room for one more attempt of the job, with the lease for its lock.
func (n *Node) takeRoom(job scheduler.Job, now scheduler.Reading) (scheduler.LockLease, bool) {
	if n.freeRoom(kindOf(job)) <= 0 {
		return scheduler.LockLease{}, false
	}
	lease, err := n.sessions.LockLease(now)
	n.view.room.leaseless = err != nil
	return lease, err == nil
}

// callWaiting has this turn plan as many of the waiting jobs as there is room for.
func (n *Node) callWaiting() {
	for k := range n.view.room.queues {
		free := n.freeRoom(kind(k))
		if n.view.room.leaseless {
			free = min(free, 1)
		}
		for e := n.view.room.queues[k].order.Front(); e != nil && free > 0; e = e.Next() {
			n.view.agenda.Soon(e.Value.(scheduler.JobName))
			free--
		}
	}
}

// roomLeft says whether the next turn will find room for jobs that wait: those that were called did not
// need it.
func (n *Node) roomLeft() bool {
	for k := range n.view.room.queues {
		if n.view.room.queues[k].order.Len() > 0 && n.freeRoom(kind(k)) > 0 && !n.view.room.leaseless {
			return true
		}
	}
	return false
}
