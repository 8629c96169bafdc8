package store

import (
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// history notices that etcd has gone back: that an answer is of a lower revision than one that had come
// before it was asked. Every request is linearizable, so that only a restore from a snapshot can do that.
// It is safe for concurrent use.
type history struct {
	newest atomic.Int64 // the highest revision that an answer told
	fell   atomic.Int64 // the revision of the first answer that was lower; 0 is none
}

// asked is to be handed to answered with the answer to what is asked now.
func (h *history) asked() int64 { return h.newest.Load() }

func (h *history) answered(asked int64, header *pb.ResponseHeader) {
	now := header.GetRevision()
	if now < asked {
		h.fell.CompareAndSwap(0, now)
	}
	for old := asked; now > old; old = h.newest.Load() {
		if h.newest.CompareAndSwap(old, now) {
			return
		}
	}
}

// WentBack says that etcd no longer holds what this Store has read: it answers at a revision below one
// that it had reached. What is remembered of it is of no use any more.
func (s *Store) WentBack() (from, to int64, yes bool) {
	to = s.history.fell.Load()
	return s.history.newest.Load(), to, to != 0
}
