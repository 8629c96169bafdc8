package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	members, revision, err := s.Members(ctx)
	if err != nil {
		return false, err
	}
	deliver(members, revision)

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
			if !newerThan(revision, resp.Events) {
				continue
			}
			// Members are few and change rarely: reading them all is simpler than merging, and makes up for
			// an event that was lost.
			if members, revision, err = s.Members(ctx); err != nil {
				return true, err
			}
			deliver(members, revision)
		}
		quiet.Reset(silence)
	}
}

// newerThan says whether any of the events came after the revision.
func newerThan(revision int64, events []*clientv3.Event) bool {
	return slices.ContainsFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision > revision })
}

// Members lists the live members, sorted by name, as of a revision. A member key that cannot be read is
// left out and logged.
func (s *Sessions) Members(ctx context.Context) ([]scheduler.Member, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.Get(ctx, s.membersPrefix(), clientv3.WithPrefix())
	if err != nil {
		return nil, 0, fmt.Errorf("list members: %w", err)
	}
	var members []scheduler.Member
	for _, kv := range resp.Kvs {
		member, err := decodeMember(s.membersPrefix(), kv)
		if err != nil {
			s.log.Error("member key unreadable", "err", err)
			continue
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b scheduler.Member) int { return strings.Compare(a.Name, b.Name) })
	return members, resp.Header.Revision, nil
}
