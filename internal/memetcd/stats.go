package memetcd

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Stats counts what a store has done since it was made.
type Stats struct {
	Txns        int64 // transactions carried out, refused ones too, nested ones not
	TxnsRefused int64 // of these, the ones whose outer guards did not hold
	NestedTxns  int64 // nested transactions carried out
	Proposals   int64 // requests that went through the log of etcd: what costs an fsync
	Puts        int64 // keys put
	Deletes     int64 // keys deleted, by lease expiry too
	Ranges      int64 // reads, inside transactions too
	Compactions int64

	LeasesGranted, LeasesExpired, LeasesRevoked int64
	KeepAlives                                  int64 // renewals that succeeded

	LeaderChanges int64
	NoQuorum      int64 // requests that found no leader

	WatchesOpened    int64
	WatchesCompacted int64 // watches cancelled because their history was gone
	WatchEvents      int64 // events sent to watchers
}

// Stats answers the counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Revision is one committed transaction.
type Revision struct {
	Rev    int64
	At     time.Time
	By     string            // the name of the link it came through; empty for the end of a lease
	Events []*clientv3.Event // in the order of the operations, with PrevKv
}

func (s *Store) revisionOf(e logged) Revision {
	return Revision{Rev: e.rev, At: e.at, By: e.by, Events: s.events(e, nil, true)}
}

// History answers the committed transactions from revision from on, as far as they are not compacted.
func (s *Store) History(from int64) []Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Revision
	for _, e := range s.since(from) {
		all = append(all, s.revisionOf(e))
	}
	return all
}

// OnCommit has f called with each transaction from now on, in order and before its caller has the
// answer. f runs inside the store: it must be short and must not call the store or its clients.
func (s *Store) OnCommit(f func(Revision)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCommit = append(s.onCommit, f)
}

// Rev is the current revision.
func (s *Store) Rev() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rev
}

// Leases are the ids of the live leases, by expiry.
func (s *Store) Leases() []clientv3.LeaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []clientv3.LeaseID
	for _, l := range s.lessor.list().Leases {
		ids = append(ids, clientv3.LeaseID(l.ID))
	}
	return ids
}
