package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/quorumcron/quorumcron/scheduler"
)

// silence is how long the members' watch may say nothing before it is asked for a sign of life, and
// again how long it may take to give one.
const silence = 5 * time.Second

// FollowMembers delivers the live members, sorted by name, as of a revision: first at once, then after
// every change, and again whenever the watch was in doubt and they were listed anew. A member key that
// cannot be read is left out and logged. deliver must not block for long. It returns when the context
// ends, with its error.
func (s *Sessions) FollowMembers(ctx context.Context, deliver func([]scheduler.Member, int64)) error {
	for try := 0; ctx.Err() == nil; {
		listed, err := s.followOnce(ctx, deliver)
		if ctx.Err() != nil {
			break
		}
		if listed {
			try = 0
		}
		s.log.Debug("members listed anew", "err", err)
		pause(ctx, try)
		try++
	}
	return ctx.Err()
}

// followOnce lists the members and follows one watch until it is in doubt.
func (s *Sessions) followOnce(ctx context.Context, deliver func([]scheduler.Member, int64)) (listed bool, err error) {
	// etcd gives a stream no sign of life while any watch on it waits for a revision to come. The client
	// puts watches with equal metadata on one stream: this mark makes it a stream of our own, and the
	// watch begins at the revision that was listed, not after it.
	ctx = metadata.AppendToOutgoingContext(ctx, "quorumcron-watch", "members")
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	members, revision, err := s.listMembers(ctx)
	if err != nil {
		return false, err
	}
	deliver(sorted(members), revision)

	watch := s.client.Watch(ctx, s.membersPrefix(), clientv3.WithPrefix(), clientv3.WithRev(revision))
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	asked := false
	for {
		select {
		case <-quiet.C:
			if asked {
				return true, errors.New("members' watch fell silent")
			}
			asked = true
			if err := s.client.RequestProgress(ctx); err != nil {
				return true, fmt.Errorf("ask members' watch for progress: %w", err)
			}
		case resp, open := <-watch:
			if !open {
				return true, errors.New("members' watch closed")
			}
			if err := resp.Err(); err != nil {
				return true, fmt.Errorf("members' watch: %w", err)
			}
			asked = false
			if newest := s.applyEvents(members, resp.Events, revision); newest > revision {
				revision = newest
				deliver(sorted(members), revision)
			}
		}
		quiet.Reset(silence)
	}
}

// Members lists the live members, sorted by name, as of a revision: for whoever cannot do with what a
// watch delivered, for one that has lost an event never says so.
func (s *Sessions) Members(ctx context.Context) ([]scheduler.Member, int64, error) {
	members, revision, err := s.listMembers(ctx)
	return sorted(members), revision, err
}

func (s *Sessions) listMembers(ctx context.Context) (map[string]scheduler.Member, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.Get(ctx, s.membersPrefix(), clientv3.WithPrefix())
	if err != nil {
		return nil, 0, fmt.Errorf("list members: %w", err)
	}
	members := make(map[string]scheduler.Member, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		s.putInto(members, kv)
	}
	return members, resp.Header.Revision, nil
}

// applyEvents applies the events after a revision and returns the newest revision.
func (s *Sessions) applyEvents(members map[string]scheduler.Member, events []*clientv3.Event, after int64) int64 {
	newest := after
	for _, event := range events {
		if event.Kv.ModRevision <= after {
			continue
		}
		newest = event.Kv.ModRevision
		if event.Type == mvccpb.Event_DELETE {
			delete(members, string(event.Kv.Key))
		} else {
			s.putInto(members, event.Kv)
		}
	}
	return newest
}

func (s *Sessions) putInto(members map[string]scheduler.Member, kv *mvccpb.KeyValue) {
	member, err := decodeMember(s.membersPrefix(), kv)
	if err != nil {
		delete(members, string(kv.Key))
		s.log.Error("member key unreadable", "err", err)
		return
	}
	members[string(kv.Key)] = member
}

func sorted(members map[string]scheduler.Member) []scheduler.Member {
	list := make([]scheduler.Member, 0, len(members))
	for _, member := range members {
		list = append(list, copyMember(member))
	}
	slices.SortFunc(list, func(a, b scheduler.Member) int { return strings.Compare(a.Name, b.Name) })
	return list
}
