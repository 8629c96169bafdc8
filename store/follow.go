package store

import (
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// follower is one thing that is followed: it is listed, then watched from there, and listed again
// whenever the watch may have missed something. A watch is a hint; what rests on it is compared in a
// transaction.
type follower struct {
	// prefixes are the ranges watched, one or two.
	prefixes []string
	// list reads everything, delivers it, and returns the revision it is of.
	list func(ctx context.Context) (revision int64, err error)
	// take delivers changes of one range. An error has everything listed again.
	take func(ctx context.Context, events []*clientv3.Event) error
	// every has it listed again after that time, however well the watch does: an event that is lost is
	// not missed by the watch. 0 is never, for what is compared with marks.
	every time.Duration
}

// lookAgain is how long the watch of a lock or of a queue is believed.
const lookAgain = time.Minute

// Why a watch is given up.
var (
	errList   = errors.New("the history that is needed has been compacted") // list again
	errSilent = errors.New("the watch has been silent")
	errEnded  = errors.New("the watch has ended")
	errHole   = errors.New("an event before this one was lost") // list again
	// errBelieved: a watch that has lost an event does not know.
	errBelieved = errors.New("the watch has been believed for long enough")
	// errGone: there is nothing left to follow.
	errGone = errors.New("what was followed is gone")
)

// follow delivers until ctx ends, whatever becomes of etcd meanwhile, and returns why ctx ended.
func (s *Store) follow(ctx context.Context, f follower) error {
	s.followers.Add(1)
	defer s.followers.Add(-1)
	var pause backoff
	for {
		revision, err := f.list(ctx)
		if err == nil {
			pause.reset()
			err = s.watchFor(ctx, f, revision)
		}
		switch {
		case errors.Is(err, errGone):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.log.Debug("listing again", "key", s.keys.short(f.prefixes[0]), "err", err)
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// watchFor is watch, but for no longer than it is believed.
func (s *Store) watchFor(ctx context.Context, f follower, revision int64) error {
	if f.every > 0 {
		believed, cancel := context.WithTimeoutCause(ctx, f.every, errBelieved)
		defer cancel()
		ctx = believed
	}
	return s.watch(ctx, f, revision)
}

// watch delivers changes after the revision until they can no longer be had without a listing.
func (s *Store) watch(ctx context.Context, f follower, revision int64) error {
	next := make([]int64, len(f.prefixes))
	for i := range next {
		next[i] = revision + 1
	}
	var pause backoff
	for {
		err := s.watchOnce(ctx, f, next, &pause)
		if !errors.Is(err, errSilent) && !errors.Is(err, errEnded) {
			return err
		}
		s.log.Debug("watching again", "key", s.keys.short(f.prefixes[0]), "from", next[0], "err", err)
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// watchOnce opens the watches and delivers what they say. next tells, for each range, the first
// revision that has not been delivered.
func (s *Store) watchOnce(ctx context.Context, f follower, next []int64, pause *backoff) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ranges [2]clientv3.WatchChan
	for i, prefix := range f.prefixes {
		// From the last revision that has been delivered, not from the one after it: as long as any watch
		// of a stream begins in the future, etcd answers no question about the progress of the stream, and
		// every watch of an idle cluster would count as silent.
		ranges[i] = s.client.Watch(watching(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(next[i]-1), clientv3.WithProgressNotify())
	}
	silence := time.NewTimer(s.cfg.SilentAfter)
	defer silence.Stop()
	for {
		var said clientv3.WatchResponse
		var open bool
		i := 0
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-silence.C:
			return errSilent
		case said, open = <-ranges[0]:
		case said, open = <-ranges[1]:
			i = 1
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case said.CompactRevision != 0:
			return errList
		case !open || said.Err() != nil:
			return errors.Join(errEnded, said.Err())
		}
		pause.reset()
		silence.Reset(s.cfg.SilentAfter)
		if len(said.Events) == 0 {
			next[i] = max(next[i], said.Header.GetRevision()+1)
			continue
		}
		news := slices.DeleteFunc(said.Events, func(e *clientv3.Event) bool { return e.Kv.ModRevision < next[i] })
		if len(news) == 0 {
			continue
		}
		if err := f.take(ctx, news); err != nil {
			return err
		}
		// Not the header's revision: a response to a watch that lags may be one of several.
		next[i] = news[len(news)-1].Kv.ModRevision + 1
	}
}

// lastOf keeps the last event of each key: what is delivered together names a key once.
func lastOf(events []*clientv3.Event) []*clientv3.Event {
	last := map[string]*clientv3.Event{}
	for _, e := range events {
		last[string(e.Kv.Key)] = e
	}
	if len(last) == len(events) {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e *clientv3.Event) bool { return last[string(e.Kv.Key)] != e })
}

// watching is the context of every watch. Watches with the same metadata share one stream, and the
// progress of all of them is asked for on it. The leader is required, so that a watch ends on a
// server that is cut off from the others, instead of falling silent.
func watching(ctx context.Context) context.Context {
	return clientv3.WithRequireLeader(metadata.NewOutgoingContext(ctx, metadata.MD{}))
}

// askProgress has etcd say, several times before silence counts, how far each watch has come.
func (s *Store) askProgress(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.SilentAfter / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if s.followers.Load() == 0 {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
		if err := s.client.RequestProgress(watching(ask)); err != nil {
			s.log.Debug("progress of watches not asked for", "err", err)
		}
		cancel()
	}
}

// paged reads all of a range at one revision, page by page. rev is 0 for the present; the revision
// that was read is returned.
func (s *Store) paged(ctx context.Context, prefix string, rev int64, take func(*clientv3.GetResponse) error) (int64, error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(pageSize)}
		if rev > 0 {
			opts = append(opts, clientv3.WithRev(rev))
		}
		page, err := s.get(ctx, from, opts...)
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			rev = page.Header.GetRevision()
		}
		if err := take(page); err != nil {
			return 0, err
		}
		if !page.More || len(page.Kvs) == 0 {
			return rev, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// pageSize bounds one answer of etcd: with states of a few hundred bytes a page is well below 1 MiB.
const pageSize = 500
