package node

import (
	"container/list"

	"github.com/quorumcron/quorumcron/scheduler"
)

// maxClaims bounds the Begins that are on their way at once: a few groups of the packer. One that
// waits in a long queue is granted when it is too old to be started, and its firing ends LOST(never
// started); one that waits here is merely late.
const maxClaims = 512

// room is the queue of jobs that could not begin something for want of room (claims on their way,
// capacity, a lock lease): first come, first served. Each piece of room that is made calls one job, so
// that a herd costs one plan for each start and not one for each pair. Only the loop touches it.
type room struct {
	claims  int        // Begins on their way
	waiting *list.List // of scheduler.JobName
	place   map[scheduler.JobName]*list.Element
	called  map[scheduler.JobName]bool // called, and not planned since
}

func newRoom() *room {
	return &room{waiting: list.New(), place: map[scheduler.JobName]*list.Element{}, called: map[scheduler.JobName]bool{}}
}

// wait queues a job. One that was called in vain goes back to the front.
func (r *room) wait(job scheduler.JobName) {
	front := r.called[job]
	delete(r.called, job)
	switch {
	case r.place[job] != nil:
	case front:
		r.place[job] = r.waiting.PushFront(job)
	default:
		r.place[job] = r.waiting.PushBack(job)
	}
}

// call takes the first job off the queue.
func (r *room) call() (job scheduler.JobName, some bool) {
	first := r.waiting.Front()
	if first == nil {
		return job, false
	}
	job = r.waiting.Remove(first).(scheduler.JobName)
	delete(r.place, job)
	r.called[job] = true
	return job, true
}

// forget drops a job. It reports whether the job had been called, so that its room is another's.
func (r *room) forget(job scheduler.JobName) (called bool) {
	if e := r.place[job]; e != nil {
		r.waiting.Remove(e)
		delete(r.place, job)
	}
	called = r.called[job]
	delete(r.called, job)
	return called
}

// hasRoom says whether one more attempt of the job fits.
func (n *Node) hasRoom(job scheduler.Job) bool {
	if n.view.room.claims >= maxClaims {
		return false
	}
	commands, handlers := n.held.count()
	if job.Run.Command != nil {
		return commands < n.cfg.Capacity
	}
	return handlers < n.cfg.HandlerCapacity
}

// idleRoom calls a job if some wait though no Begin is on its way: the one that had been called last may
// have been forgotten before its turn, and nobody would call the next.
func (n *Node) idleRoom() {
	if n.view.room.claims == 0 && n.view.room.waiting.Len() > 0 {
		n.roomMade(1)
	}
}

// roomMade calls as many jobs as there is new room for.
func (n *Node) roomMade(pieces int) {
	for range pieces {
		job, some := n.view.room.call()
		if !some {
			return
		}
		n.view.agenda.Soon(job)
	}
}
