package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ErrNameTaken says that another live process is the member of this name. The text names it.
var ErrNameTaken = errors.New("member name is taken")

// claimName puts the member key where there is none, and returns the member and the value put. A key
// that is there may belong to a process that died: it is given two TTLs to go, which covers a lease
// that a new etcd leader started afresh. It returns ErrNameTaken when it stays, and otherwise an error
// only when the lease is gone or the context ends.
func (s *Sessions) claimName(ctx context.Context, lease int64) (scheduler.Member, string, error) {
	var since time.Duration // when the holder was first seen, with an answer to every call since
	for try := 0; ctx.Err() == nil; try++ {
		member, value, holder, err := s.putMember(ctx, lease)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return scheduler.Member{}, "", errLeaseGone
		}
		if err != nil {
			// Leases stand still while etcd has no leader, so that this time does not count.
			since = 0
			s.setTrouble("member", fmt.Sprintf("put member key: %v", err))
			pause(ctx, try)
			continue
		}
		if holder == nil {
			s.clearTrouble("member")
			return member, value, nil
		}
		now := s.cfg.Clock().Elapsed
		if since == 0 {
			since = now
		}
		patience, err := s.patience(ctx, holder)
		if err == nil && now-since >= patience {
			return scheduler.Member{}, "", s.nameTaken(holder, patience)
		}
		s.setTrouble("member", fmt.Sprintf("name %s is taken (lease %x); waiting up to %s for its session to end",
			s.cfg.Member.Name, holder.Lease, patience))
		wait, cancel := context.WithTimeout(ctx, max(since+patience-now, maxBackoff))
		s.untilKeyGone(wait, s.memberKey(), holder.CreateRevision)
		cancel()
	}
	return scheduler.Member{}, "", ctx.Err()
}

// putMember puts the member key if there is none. A key that is there and not ours is the holder.
func (s *Sessions) putMember(ctx context.Context, lease int64) (scheduler.Member, string, *mvccpb.KeyValue, error) {
	s.mu.Lock()
	wish := copyMember(s.wish)
	s.mu.Unlock()
	value, err := encodeMember(wish)
	if err != nil {
		return scheduler.Member{}, "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(s.memberKey()), "=", 0)).
		Then(clientv3.OpPut(s.memberKey(), value, clientv3.WithLease(clientv3.LeaseID(lease)))).
		Else(clientv3.OpGet(s.memberKey())).
		Commit()
	if err != nil {
		return scheduler.Member{}, "", nil, err
	}
	if resp.Succeeded {
		return s.drawn(wish, resp.Header.Revision), value, nil, nil
	}
	kv := resp.Responses[0].GetResponseRange().Kvs[0]
	if kv.Lease == lease {
		// An earlier try whose answer was lost. writeMember corrects the content if it has changed.
		return s.drawn(wish, kv.CreateRevision), string(kv.Value), nil, nil
	}
	return scheduler.Member{}, "", kv, nil
}

// drawn gives a member the incarnation of its key: the key's create revision. etcd never gives the
// same one twice, so that no two memberships of a name can be taken for each other, with or without a
// data folder.
func (s *Sessions) drawn(wish scheduler.Member, created int64) scheduler.Member {
	if s.cfg.Folder != nil {
		before, err := s.cfg.Folder.joined(created)
		s.noteFolder(err)
		if before > created {
			s.log.Error("etcd has gone back in time, or is another cluster", "incarnation", created, "before", before)
		}
	}
	return ofKey(wish, created)
}

// patience is how long a key may stay before its holder is taken to be alive.
func (s *Sessions) patience(ctx context.Context, holder *mvccpb.KeyValue) (time.Duration, error) {
	if holder.Lease == 0 {
		return 0, nil // Put without a lease, by hand: it never goes.
	}
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.TimeToLive(ctx, clientv3.LeaseID(holder.Lease))
	if err != nil {
		return 2 * s.cfg.TTL, err
	}
	return 2 * max(s.cfg.TTL, time.Duration(resp.GrantedTTL)*time.Second), nil
}

func (s *Sessions) nameTaken(holder *mvccpb.KeyValue, waited time.Duration) error {
	if holder.Lease == 0 {
		return fmt.Errorf("%w: key %s (revision %d) has no lease, so that it was put by hand; delete it and start again",
			ErrNameTaken, holder.Key, holder.CreateRevision)
	}
	address := "an address it does not tell"
	if member, err := decodeMember(s.membersPrefix(), holder); err == nil {
		for _, known := range []string{member.GRPCAddress, member.HTTPAddress} {
			if known != "" {
				address = known
				break
			}
		}
	}
	return fmt.Errorf("%w: %s#%d at %s, lease %x, has been live since revision %d and stayed for the %s that this process waited; stop it, or choose another name",
		ErrNameTaken, s.cfg.Member.Name, holder.CreateRevision, address, holder.Lease, holder.CreateRevision, waited)
}
