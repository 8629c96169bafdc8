package memetcd

import (
	"slices"
	"time"
)

// Restore takes the cluster back to revision rev, which must not be compacted, as a restore of all its
// servers from a snapshot of then does: what was written since is gone, its revisions are given out again,
// and every connection breaks. Leases are as if they had been granted before.
func (s *Store) Restore(rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*item
	s.keys.visit(span{all: true}, func(it *item) { all = append(all, it) })
	s.keys, s.live = index{}, index{}
	for _, l := range s.lessor.leases {
		l.keys = map[string]bool{}
	}
	for _, it := range all {
		for _, v := range it.versions {
			if v.mod > rev {
				s.size.drop(it.key, v)
			}
		}
		it.versions = slices.DeleteFunc(it.versions, func(v version) bool { return v.mod > rev })
		if len(it.versions) == 0 {
			continue
		}
		s.keys.insert(it)
		if v := it.current(); v != nil {
			s.live.insert(it)
			s.lessor.attach(v.lease, it.key)
		}
	}
	s.log = slices.DeleteFunc(s.log, func(e logged) bool { return e.rev > rev })
	s.rev, s.lastAuto = rev, time.Now()
	s.newLeader()
	for _, l := range s.links {
		l.counts.Resets++
		l.breakLocked(errReset)
	}
}
