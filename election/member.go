package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumcron/quorumcron/scheduler"
)

func (s *Sessions) membersPrefix() string { return s.cfg.Prefix + "members/" }
func (s *Sessions) memberKey() string     { return s.membersPrefix() + s.cfg.Member.Name }

// Why an attachment or a membership ends.
var (
	errLeaseGone   = errors.New("etcd has no such lease")
	errKeyGone     = errors.New("member key is gone")
	errSessionDone = errors.New("keep-alives were not answered")
	errOrphaned    = errors.New("sessions orphaned")
)

// attachment is one concurrency.Session on the member lease. A lease that outlives its session gets
// another: the client gives up after a TTL without answers, but etcd takes no lease away while it has
// no leader.
type attachment struct {
	lease   int64
	ctx     context.Context // ends with the session, and with it all that is done in its name
	session *concurrency.Session
	stop    func() // ends the session and waits for it; the lease lives on
}

// attach starts a session on a lease. The session's client is a view of ours whose own context ends
// with the attachment: concurrency.Election cleans up under its client's context, and under ours it
// would wait for etcd for ever.
func (s *Sessions) attach(ctx context.Context, lease int64) (*attachment, error) {
	ctx, cancel := context.WithCancel(ctx)
	client := clientv3.NewCtxClient(ctx, clientv3.WithZapLogger(s.client.GetLogger()))
	client.KV, client.Lease, client.Watcher = boundedKV{s.client.KV, s.callTimeout()}, s.client.Lease, s.client.Watcher
	session, err := concurrency.NewSession(client,
		concurrency.WithTTL(int(s.cfg.TTL/time.Second)), concurrency.WithLease(clientv3.LeaseID(lease)))
	if err == nil && session == nil {
		err = errors.New("no keep-alive channel") // NewSession can return neither
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("keep lease %s alive: %w", leaseText(lease), err)
	}
	stop := func() {
		cancel()
		session.Orphan()
	}
	return &attachment{lease: lease, ctx: ctx, session: session, stop: stop}, nil
}

// keepMember joins, and joins again after each loss, until the context ends or the name is taken.
// It closes joined after the first join.
func (s *Sessions) keepMember(ctx context.Context, joined chan<- struct{}) error {
	for s.untilNotOrphaned(ctx) {
		kept, cancel := context.WithCancelCause(ctx)
		if !s.letGoWith(cancel) {
			cancel(nil)
			continue // orphaned in between
		}
		attached, err := s.join(kept)
		if attached != nil {
			if joined != nil {
				close(joined)
				joined = nil
			}
			s.leave(s.serve(kept, attached))
		}
		cancel(nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// untilNotOrphaned waits while the sessions are orphaned. It returns false when the context ends first.
func (s *Sessions) untilNotOrphaned(ctx context.Context) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		orphaned, recovered := s.orphaned != "", s.recovered
		s.mu.Unlock()
		if !orphaned {
			return true
		}
		select {
		case <-ctx.Done():
		case <-recovered:
		}
	}
	return false
}

// letGoWith has Orphan call cancel. It returns false if the sessions are orphaned already.
func (s *Sessions) letGoWith(cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letGo = cancel
	return s.orphaned == ""
}

// join opens a member lease and puts the member key under it. It waits for etcd as long as it takes.
// It returns an error only when the name is taken; nil and no error when the context ends first.
func (s *Sessions) join(ctx context.Context) (*attachment, error) {
	for ctx.Err() == nil {
		s.untilDone(ctx, "member", s.revokeMemberLease)
		s.untilDone(ctx, "member", s.grantMemberLease)
		if ctx.Err() != nil {
			break
		}
		lease := s.leaseOfMember()
		attached, err := s.attach(ctx, lease)
		if err != nil {
			s.setTrouble("member", err.Error())
			pause(ctx, 10)
			continue
		}
		member, value, err := s.claimName(attached.ctx, lease)
		if err == nil {
			s.mu.Lock()
			s.member, s.written = member, value
			s.emitLocked(Joined{Member: copyMember(member)})
			s.mu.Unlock()
			s.handOut()
			return attached, nil
		}
		attached.stop()
		if errors.Is(err, ErrNameTaken) {
			return nil, err
		}
	}
	return nil, nil
}

// revokeMemberLease ends the lease of the membership before, so that its key cannot be in the way.
func (s *Sessions) revokeMemberLease(ctx context.Context) error {
	lease := s.leaseOfMember()
	if lease == 0 {
		return nil
	}
	if err := s.revoke(ctx, lease); err != nil {
		return fmt.Errorf("revoke former lease %s: %w", leaseText(lease), err)
	}
	s.mu.Lock()
	s.memberLease = 0
	s.mu.Unlock()
	return nil
}

func (s *Sessions) grantMemberLease(ctx context.Context) error {
	lease, _, err := s.grant(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.memberLease = lease
	s.mu.Unlock()
	return nil
}

func (s *Sessions) leaseOfMember() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memberLease
}

// serve keeps a membership until it is over, and returns why. An end of the session is not believed:
// as long as etcd has the lease, another session is attached to it.
func (s *Sessions) serve(ctx context.Context, attached *attachment) error {
	for {
		why := s.watchOver(attached)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(why, errSessionDone) {
			return why
		}
		s.setTrouble("member", why.Error())
		found := true
		s.untilDone(ctx, "member", func(ctx context.Context) (err error) {
			if found, err = s.alive(ctx, attached.lease); err == nil && found {
				attached, err = s.attachAgain(ctx, attached)
			}
			return err
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !found {
			return errLeaseGone
		}
		s.log.Info("session attached again", "lease", leaseText(attached.lease))
	}
}

func (s *Sessions) attachAgain(ctx context.Context, former *attachment) (*attachment, error) {
	attached, err := s.attach(ctx, former.lease)
	if err != nil {
		return former, err
	}
	return attached, nil
}

// watchOver does what a member does in the name of one session: it stands for dispatcher, watches its
// own key and keeps its content up to date. It returns why that ended, after all of it has ended.
func (s *Sessions) watchOver(attached *attachment) error {
	ctx, cancel := context.WithCancelCause(attached.ctx)
	defer cancel(nil)
	s.mu.Lock()
	created := s.member.CreateRevision
	s.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { s.campaign(ctx, attached, cancel) })
	group.Go(func() {
		if s.untilKeyGone(ctx, s.memberKey(), created) {
			cancel(errKeyGone)
		}
	})
	group.Go(func() { s.keepWritten(ctx, cancel) })
	select {
	case <-ctx.Done():
	case <-attached.session.Done():
		cancel(errSessionDone)
	}
	why := context.Cause(ctx)
	attached.stop() // before the wait: a candidate that gives up cleans up under the session's context
	group.Wait()
	s.endTerm(reasonOf(why))
	return why
}

// keepWritten writes what UpdateMember could not, until the context ends. lose is called when the key is
// found gone.
func (s *Sessions) keepWritten(ctx context.Context, lose context.CancelCauseFunc) {
	for ctx.Err() == nil {
		s.untilDone(ctx, "member", func(ctx context.Context) error {
			err := s.writeMember(ctx)
			if errors.Is(err, errKeyGone) {
				lose(errKeyGone)
				return nil
			}
			return err
		})
		select {
		case <-ctx.Done():
		case <-s.needWrite:
		}
	}
}

// reasonOf is the text of why something ended.
func reasonOf(why error) string {
	if errors.Is(why, context.Canceled) {
		return "stopping"
	}
	return why.Error()
}

// leave notes that this process is no member any more.
func (s *Sessions) leave(why error) {
	if errors.Is(why, errLeaseGone) { // nothing is left to be revoked
		s.forget(s.leaseOfMember())
		s.mu.Lock()
		s.memberLease = 0
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.member, s.written = scheduler.Member{}, ""
	s.emitLocked(MemberLost{Reason: reasonOf(why)})
	for _, l := range s.leases {
		l.wake() // What took the one may have taken the others.
	}
	s.mu.Unlock()
	s.handOut()
}

// UpdateMember changes what the member key shows; edit must not call Sessions. Name, Incarnation and CreateRevision stay as they
// are. The change is kept: a process that is not a member at this moment, or loses its membership in
// between, shows it from its next join on. An error says that etcd has not confirmed it yet; it is
// written as soon as etcd answers.
func (s *Sessions) UpdateMember(ctx context.Context, edit func(*scheduler.Member)) error {
	s.mu.Lock()
	wish := copyMember(s.wish)
	edit(&wish)
	wish.Name, wish.Incarnation, wish.CreateRevision = s.cfg.Member.Name, 0, 0
	s.wish = copyMember(wish)
	s.mu.Unlock()
	if err := s.writeMember(ctx); err != nil && !errors.Is(err, errKeyGone) {
		signal(s.needWrite)
		return fmt.Errorf("update member %s: %w", s.cfg.Member.Name, err)
	}
	return nil
}

// writeMember puts the member key's content as it is wished, if it differs, guarded by the key's
// create revision: a former membership can never write over a later one, of whichever process.
func (s *Sessions) writeMember(ctx context.Context) error {
	// One at a time, or an older content could be written after a newer one.
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	wish, member, lease, written := copyMember(s.wish), s.member, s.memberLease, s.written
	s.mu.Unlock()
	if member.CreateRevision == 0 {
		return nil
	}
	value, err := encodeMember(wish)
	if err != nil || value == written {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout())
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(s.memberKey()), "=", member.CreateRevision)).
		Then(clientv3.OpPut(s.memberKey(), value, clientv3.WithLease(clientv3.LeaseID(lease)))).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && !resp.Succeeded {
		return errKeyGone
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member.CreateRevision == member.CreateRevision {
		s.member, s.written = ofKey(wish, member.CreateRevision), value
	}
	return nil
}

// ofKey is a member as its key shows it.
func ofKey(wish scheduler.Member, created int64) scheduler.Member {
	wish.Incarnation, wish.CreateRevision = created, created
	return wish
}
