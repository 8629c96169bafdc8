package memetcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxSyncRevisions is how many revisions etcd puts into one response to a watcher that lags.
const maxSyncRevisions = 1000

// watcher is one watch on a stream.
type watcher struct {
	out    *watchStream
	id     int64
	where  span
	start  int64 // the revision it was asked to begin at; zero is now
	next   int64 // the first revision it has not been told
	synced bool  // told everything so far
	noPut  bool
	noDel  bool
	prev   bool
	notify bool
	quiet  bool // nothing was sent since the last progress notification

	pending []change // of the commit under way
}

// watchIndex finds the watchers of a key without looking at all of them: by key, by prefix (one map
// access for each length of prefix in use), and one by one for the few odd ranges.
type watchIndex struct {
	keys     map[string][]*watcher
	prefixes map[string][]*watcher
	lengths  map[int]int
	odd      []*watcher
}

func (x *watchIndex) init() {
	x.keys, x.prefixes, x.lengths = map[string][]*watcher{}, map[string][]*watcher{}, map[int]int{}
}

func isPrefix(r span) bool { return !r.all && clientv3.GetPrefixRangeEnd(r.from) == r.to }

func (x *watchIndex) add(w *watcher) {
	switch {
	case w.where.one:
		x.keys[w.where.from] = append(x.keys[w.where.from], w)
	case isPrefix(w.where):
		x.prefixes[w.where.from] = append(x.prefixes[w.where.from], w)
		x.lengths[len(w.where.from)]++
	default:
		x.odd = append(x.odd, w)
	}
}

func without(all []*watcher, w *watcher) []*watcher {
	if i := slices.Index(all, w); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

func (x *watchIndex) remove(w *watcher) {
	from := w.where.from
	switch {
	case w.where.one:
		if x.keys[from] = without(x.keys[from], w); len(x.keys[from]) == 0 {
			delete(x.keys, from)
		}
	case isPrefix(w.where):
		if x.prefixes[from] = without(x.prefixes[from], w); len(x.prefixes[from]) == 0 {
			delete(x.prefixes, from)
		}
		if x.lengths[len(from)]--; x.lengths[len(from)] == 0 {
			delete(x.lengths, len(from))
		}
	default:
		x.odd = without(x.odd, w)
	}
}

// visit calls f for each watcher of a key.
func (x *watchIndex) visit(key string, f func(*watcher)) {
	for _, w := range x.keys[key] {
		f(w)
	}
	for n := range x.lengths {
		if n <= len(key) {
			for _, w := range x.prefixes[key[:n]] {
				f(w)
			}
		}
	}
	for _, w := range x.odd {
		if w.where.holds(key) {
			f(w)
		}
	}
}

// notify sends a committed transaction to the watchers of its keys, all its events in one response.
// Those that lag, or whose link is held up, get it from the log later.
func (x *watchIndex) notify(s *Store, e logged) {
	var told []*watcher
	for _, c := range e.changes {
		x.visit(c.it.key, func(w *watcher) {
			if !w.synced || e.rev < w.next {
				return
			}
			if w.pending == nil {
				told = append(told, w)
			}
			w.pending = append(w.pending, c)
		})
	}
	slices.SortFunc(told, func(a, b *watcher) int {
		if a.out != b.out {
			return int(a.out.serial - b.out.serial)
		}
		return int(a.id - b.id)
	})
	for _, w := range told {
		changes := w.pending
		w.pending = nil
		if w.out.held() {
			w.out.l.counts.WatchesHeld++
			w.synced, w.next = false, e.rev
			continue
		}
		w.next = e.rev + 1
		w.send(s, s.events(logged{rev: e.rev, changes: changes}, w, w.prev), e.rev)
	}
}

// events turns the changes of a logged transaction that w wants into events; nil wants all.
func (s *Store) events(e logged, w *watcher, prev bool) []*clientv3.Event {
	var out []*clientv3.Event
	for _, c := range e.changes {
		if w != nil && (!w.where.holds(c.it.key) || c.v.dead && w.noDel || !c.v.dead && w.noPut) {
			continue
		}
		ev := &clientv3.Event{Kv: keyValue(c.it.key, c.v)}
		if c.v.dead {
			ev.Type = mvccpb.Event_DELETE
			ev.Kv = &mvccpb.KeyValue{Key: []byte(c.it.key), ModRevision: e.rev}
		}
		if prev && c.v.create != c.v.mod && e.rev-1 >= s.compacted {
			if old := c.it.at(e.rev - 1); old != nil {
				ev.PrevKv = keyValue(c.it.key, *old)
			}
		}
		out = append(out, ev)
	}
	return out
}

func (w *watcher) send(s *Store, events []*clientv3.Event, rev int64) {
	events = w.out.l.dropEvents(events)
	if len(events) == 0 {
		return
	}
	w.quiet = false
	s.stats.WatchEvents += int64(len(events))
	header := s.header()
	header.Revision = rev
	w.out.push(&pb.WatchResponse{Header: header, WatchId: w.id, Events: events})
}

// sync brings a watcher up to date from the log, or cancels it if its history has been compacted.
func (w *watcher) sync(s *Store) {
	for !w.synced && !w.out.held() {
		if w.next < s.compacted {
			s.stats.WatchesCompacted++
			header := s.header()
			header.Revision = 0
			w.out.push(&pb.WatchResponse{Header: header, WatchId: w.id, Canceled: true, CompactRevision: s.compacted})
			w.out.forget(w)
			return
		}
		var events []*clientv3.Event
		revisions, next := 0, s.rev+1
		for _, e := range s.since(w.next) {
			some := s.events(e, w, w.prev)
			if len(some) == 0 {
				continue
			}
			if revisions == maxSyncRevisions {
				next = e.rev
				break
			}
			revisions++
			events = append(events, some...)
		}
		w.next, w.synced = next, next == s.rev+1
		w.send(s, events, s.rev)
	}
}

// create answers a request for a new watch.
func (o *watchStream) create(r *pb.WatchCreateRequest) {
	s := o.l.s
	resp := &pb.WatchResponse{Header: s.header(), Created: true, WatchId: clientv3.InvalidWatchID, Canceled: true}
	key := r.Key
	if len(key) == 0 {
		key = []byte{0}
	}
	where := spanOf(key, r.RangeEnd)
	switch {
	case r.StartRevision < 0:
		resp.CancelReason = "etcdserver: mvcc: required revision has been compacted"
	case !where.one && !where.all && where.from >= where.to:
		resp.CancelReason = "mvcc: watcher range is empty"
	case r.WatchId != clientv3.AutoWatchID && o.watchers[r.WatchId] != nil:
		resp.CancelReason = "mvcc: duplicate watch ID provided on the WatchStream"
	}
	if resp.CancelReason != "" {
		o.push(resp)
		return
	}
	w := &watcher{out: o, id: r.WatchId, where: where, start: r.StartRevision, next: r.StartRevision, prev: r.PrevKv, notify: r.ProgressNotify, quiet: true}
	w.noPut = slices.Contains(r.Filters, pb.WatchCreateRequest_NOPUT)
	w.noDel = slices.Contains(r.Filters, pb.WatchCreateRequest_NODELETE)
	if w.id == clientv3.AutoWatchID {
		for o.watchers[o.nextID] != nil {
			o.nextID++
		}
		w.id = o.nextID
		o.nextID++
	}
	if w.synced = r.StartRevision == 0 || r.StartRevision > s.rev; r.StartRevision == 0 {
		w.next = s.rev + 1
	}
	o.watchers[w.id] = w
	s.watches.add(w)
	s.stats.WatchesOpened++
	resp.WatchId, resp.Canceled = w.id, false
	o.push(resp)
	w.sync(s)
	o.armProgress()
}

func (o *watchStream) cancel(id int64) {
	w := o.watchers[id]
	if w == nil {
		return
	}
	o.forget(w)
	o.push(&pb.WatchResponse{Header: o.l.s.header(), WatchId: id, Canceled: true})
}

func (w *watcher) inProgress(s *Store) bool { return w.synced && s.rev >= w.start }

func (o *watchStream) forget(w *watcher) {
	delete(o.watchers, w.id)
	o.l.s.watches.remove(w)
}

// progress announces the current revision for all watches of the stream, if none of them lags or waits
// for a revision to come: a watch from revision r+1 on gets none before r+1 is there, as in etcd.
func (o *watchStream) progress() {
	s := o.l.s
	for _, w := range o.watchers {
		if !w.inProgress(s) {
			return
		}
	}
	if len(o.watchers) > 0 {
		o.push(&pb.WatchResponse{Header: s.header(), WatchId: clientv3.InvalidWatchID})
	}
}
