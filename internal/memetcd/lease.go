package memetcd

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// expiryTick is how often etcd looks for expired leases: one dies at its TTL or up to a tick later.
	expiryTick  = 500 * time.Millisecond
	maxLeaseTTL = 9_000_000_000
	firstLease  = 0x10_0000_0001 // only to look like one
)

type lease struct {
	id     int64
	ttl    int64
	expiry time.Time // zero while there is no leader: nobody can take the lease away
	keys   map[string]bool
}

func (l *lease) expired(now time.Time) bool { return !l.expiry.IsZero() && !now.Before(l.expiry) }

// lessor holds the leases of a store. One timer, armed for the earliest expiry, ends them.
type lessor struct {
	s      *Store
	leases map[int64]*lease
	next   int64
	timer  *time.Timer
	armed  time.Time
}

func (m *lessor) init(s *Store) {
	m.s, m.leases, m.next = s, map[int64]*lease{}, firstLease
}

func (m *lessor) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
}

func (m *lessor) alive(id int64) bool { return m.leases[id] != nil }

func (m *lessor) attach(id int64, key string) {
	if l := m.leases[id]; l != nil {
		l.keys[key] = true
	}
}

func (m *lessor) detach(id int64, key string) {
	if l := m.leases[id]; l != nil {
		delete(l.keys, key)
	}
}

// minTTL is the smallest lease in seconds: one and a half election time-outs.
func (m *lessor) minTTL() int64 {
	return int64(math.Ceil((m.s.cfg.ElectionTimeout * 3 / 2).Seconds()))
}

func (m *lessor) grant(r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if err := m.s.fits(leaseCost); err != nil {
		return nil, err
	}
	m.s.stats.Proposals++
	switch {
	case r.TTL > maxLeaseTTL:
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	case m.leases[r.ID] != nil:
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	l := &lease{id: r.ID, ttl: max(r.TTL, m.minTTL()), keys: map[string]bool{}}
	for l.id == 0 {
		if m.leases[m.next] == nil {
			l.id = m.next
		}
		m.next++
	}
	m.leases[l.id] = l
	m.refresh(l)
	m.s.stats.LeasesGranted++
	return &pb.LeaseGrantResponse{Header: m.s.header(), ID: l.id, TTL: l.ttl}, nil
}

func (m *lessor) refresh(l *lease) {
	l.expiry = time.Now().Add(time.Duration(l.ttl) * time.Second)
	m.arm(l.expiry)
}

// arm sets the timer to the tick at or after expiry, unless it is set for an earlier one.
func (m *lessor) arm(expiry time.Time) {
	if m.s.closed {
		return
	}
	ticks := (expiry.Sub(m.s.epoch) + expiryTick - 1) / expiryTick
	at := m.s.epoch.Add(ticks * expiryTick)
	if !m.armed.IsZero() && !at.Before(m.armed) {
		return
	}
	m.armed = at
	if m.timer == nil {
		m.timer = time.AfterFunc(time.Until(at), m.tick)
		return
	}
	m.timer.Reset(time.Until(at))
}

func (m *lessor) tick() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.closed {
		return
	}
	now := time.Now()
	m.armed = time.Time{}
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		l := m.leases[id]
		switch {
		case l.expired(now):
			m.s.stats.LeasesExpired++
			m.end(l, "")
		case !l.expiry.IsZero():
			m.arm(l.expiry)
		}
	}
}

// end removes a lease and, in one transaction and in the order of their names, its keys.
func (m *lessor) end(l *lease, by string) {
	delete(m.leases, l.id)
	m.s.by = by
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		m.s.del(span{from: key, one: true})
	}
	m.s.commit()
}

func (m *lessor) revoke(r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	m.s.stats.Proposals++
	l := m.leases[r.ID]
	if l == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	m.s.stats.LeasesRevoked++
	m.end(l, m.s.by)
	return &pb.LeaseRevokeResponse{Header: m.s.header()}, nil
}

// renew answers the TTL, or zero for a lease that is not there. One that has expired but was not
// removed yet cannot be saved: etcd makes the renewal wait for the removal.
func (m *lessor) renew(id int64) *pb.LeaseKeepAliveResponse {
	resp := &pb.LeaseKeepAliveResponse{Header: m.s.header(), ID: id}
	l := m.leases[id]
	if l == nil {
		return resp
	}
	if l.expired(time.Now()) {
		m.s.stats.LeasesExpired++
		m.end(l, "")
		return resp
	}
	m.refresh(l)
	m.s.stats.KeepAlives++
	resp.TTL = l.ttl
	return resp
}

func (m *lessor) timeToLive(r *pb.LeaseTimeToLiveRequest) *pb.LeaseTimeToLiveResponse {
	resp := &pb.LeaseTimeToLiveResponse{Header: m.s.header(), ID: r.ID, TTL: -1}
	l := m.leases[r.ID]
	if l == nil {
		return resp
	}
	resp.TTL, resp.GrantedTTL = int64(time.Until(l.expiry).Seconds()), l.ttl
	if r.Keys {
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			resp.Keys = append(resp.Keys, []byte(key))
		}
	}
	return resp
}

func (m *lessor) list() *pb.LeaseLeasesResponse {
	all := slices.SortedFunc(maps.Values(m.leases), func(a, b *lease) int {
		return cmp.Or(a.expiry.Compare(b.expiry), cmp.Compare(a.id, b.id))
	})
	resp := &pb.LeaseLeasesResponse{Header: m.s.header(), Leases: make([]*pb.LeaseStatus, len(all))}
	for i, l := range all {
		resp.Leases[i] = &pb.LeaseStatus{ID: l.id}
	}
	return resp
}

// demote stops all leases from expiring: the leader is gone.
func (m *lessor) demote() {
	for _, l := range m.leases {
		l.expiry = time.Time{}
	}
}

// promote starts every lease anew in full, extended by an election time-out, as a new leader does.
func (m *lessor) promote() {
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		l := m.leases[id]
		l.expiry = time.Now().Add(m.s.cfg.ElectionTimeout + time.Duration(l.ttl)*time.Second)
		m.arm(l.expiry)
	}
}
