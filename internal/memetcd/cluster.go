package memetcd

import (
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apiversion "go.etcd.io/etcd/api/v3/version"
)

const (
	clusterID = 0xc1a5_7e12_0000_0001
	memberID  = 0x3e3b_e120_0000_0001
)

// clusterState is the health of the simulated cluster as a whole.
type clusterState struct {
	up       bool // there is a leader with a quorum
	noSpace  bool
	noLeader *time.Timer
	waiting  []arrival // requests that wait for a leader
}

// arrival is a request that has come over a link.
type arrival struct {
	l *Link
	r *request
}

// errWaits says that a request has arrived, and waits for a leader.
var errWaits = errors.New("memetcd: the request waits for a leader")

// queueUp keeps a request until there is a leader, as long as etcd does.
func (c *clusterState) queueUp(l *Link, r *request) (any, error) {
	l.s.stats.NoQuorum++
	c.waiting = append(c.waiting, arrival{l, r})
	l.s.later(l.s.patience(), func() {
		before := len(c.waiting)
		c.waiting = slices.DeleteFunc(c.waiting, func(a arrival) bool { return a.r == r })
		if len(c.waiting) < before {
			r.finish(nil, rpctypes.ErrGRPCTimeout)
		}
	})
	return nil, errWaits
}

// patience is how long etcd lets a request wait.
func (s *Store) patience() time.Duration { return 5*time.Second + 2*s.cfg.ElectionTimeout }

// later runs f under the lock after some time, unless the store is closed by then.
func (s *Store) later(after time.Duration, f func()) *time.Timer {
	return time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			f()
		}
	})
}

// LoseQuorum takes the leader away: linearizable reads and writes wait and time out as etcd's do,
// leases neither expire nor are renewed, and calls and streams that require a leader end with
// ErrNoLeader (streams after three election time-outs).
func (s *Store) LoseQuorum() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cluster.up {
		return
	}
	s.cluster.up = false
	s.lessor.demote()
	s.cluster.noLeader = s.later(3*s.cfg.ElectionTimeout, func() {
		if s.cluster.up {
			return
		}
		for _, l := range s.links {
			l.endRequiringLeader(rpctypes.ErrGRPCNoLeader)
		}
	})
}

// RegainQuorum makes a new leader. Every lease starts anew in full, extended by an election time-out.
func (s *Store) RegainQuorum() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster.up {
		return
	}
	s.cluster.up = true
	s.cluster.noLeader.Stop()
	s.newLeader()
	for _, l := range s.links {
		l.drainRenewals()
	}
	waiting := s.cluster.waiting
	s.cluster.waiting = nil
	for _, a := range waiting {
		if a.r.orphan && !a.r.keep {
			a.l.counts.RequestsLost++
			continue
		}
		_, _ = a.r.arrive(a.l)
	}
}

// ChangeLeader is a change of leader that nobody had to wait for: every lease starts anew in full.
func (s *Store) ChangeLeader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster.up {
		s.newLeader()
	}
}

func (s *Store) newLeader() {
	s.term++
	s.stats.LeaderChanges++
	s.lessor.promote()
}

// SetNoSpace raises or clears the NOSPACE alarm: puts, transactions with a put in any branch and new
// leases are refused, all else goes on.
func (s *Store) SetNoSpace(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster.noSpace = full
}

// Compact compacts as an operator would, on no link. Revision rev itself stays readable.
func (s *Store) Compact(rev int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compact(rev)
}

func (s *Store) status() *pb.StatusResponse {
	resp := &pb.StatusResponse{
		Header: s.header(), Version: apiversion.Version, RaftTerm: s.term,
		DbSize: s.size.file, DbSizeInUse: s.size.inUse(), DbSizeQuota: s.size.quota,
		RaftIndex: uint64(s.stats.Proposals), RaftAppliedIndex: uint64(s.stats.Proposals),
	}
	if s.cluster.up {
		resp.Leader = memberID
	} else {
		resp.Errors = append(resp.Errors, "etcdserver: no leader")
	}
	if s.cluster.noSpace {
		resp.Errors = append(resp.Errors, "memberID:4484558364446654465 alarm:NOSPACE ")
	}
	return resp
}

func (s *Store) alarm(r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	resp := &pb.AlarmResponse{Header: s.header()}
	space := r.Alarm == pb.AlarmType_NOSPACE
	if s.cluster.noSpace && (space || r.Alarm == pb.AlarmType_NONE) && r.Action != pb.AlarmRequest_ACTIVATE {
		resp.Alarms = []*pb.AlarmMember{{MemberID: memberID, Alarm: pb.AlarmType_NOSPACE}}
	}
	switch {
	case r.Action == pb.AlarmRequest_ACTIVATE && space:
		s.cluster.noSpace = true
	case r.Action == pb.AlarmRequest_DEACTIVATE && space:
		s.cluster.noSpace = false
	}
	return resp, nil
}
