package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/scheduler"
)

// This file is how full etcd is, and what follows: which level of space holds, and whether etcd's history
// is compacted. Each member reads it for itself, for there is no writer that all could rely on.

const (
	// spaceEvery is how often etcd is asked how full it is, so that what a member goes by is a minute old
	// at most while etcd answers, and the last answer while it does not.
	spaceEvery = time.Minute
	// spaceFresh is how old a reading may be where it decides about a request for something new, once half
	// of the quota is used: a refusal must not outlive what it is for, and whoever adds much in a minute must
	// not pass 90 % unseen.
	spaceFresh = 5 * time.Second
	halfShare  = 50
	// historySaid is how often it is said that history is not compacted.
	historySaid = 24 * time.Hour
)

// space is what this member knows of etcd's size, quota, alarms and history. Safe for concurrent use.
type space struct {
	last atomic.Pointer[spaceReading]

	reading chan struct{} // size 1: whoever holds the token reads, and may use what follows
	history scheduler.HistoryWatch
	said    time.Duration // elapsed clock when the history was last warned of; 0 never
}

// spaceReading is one answer of etcd, and when it came.
type spaceReading struct {
	health scheduler.EtcdHealth
	at     scheduler.Reading
}

func newSpace() *space { return &space{reading: make(chan struct{}, 1)} }

// watchSpace reads how full etcd is, once a minute. It ends with its context.
func (n *Node) watchSpace(ctx context.Context) {
	for {
		n.readSpace(ctx)
		if !sleep(ctx, spaceEvery) {
			return
		}
	}
}

// makeRoom is called before a request that may add to the database for good. Once half of the quota is used
// it reads how full etcd is, unless that was done a moment ago.
func (n *Node) makeRoom(ctx context.Context) {
	last := n.space.last.Load()
	if last == nil || last.health.Space == scheduler.SpaceNormal && last.health.Share() < halfShare {
		return
	}
	if n.cfg.Clock().Elapsed-last.at.Elapsed > spaceFresh {
		n.readSpace(ctx)
	}
}

// readSpace asks etcd how full it is, and draws the consequences. It returns nil if etcd does not answer:
// then what was known still holds.
func (n *Node) readSpace(ctx context.Context) *scheduler.EtcdHealth {
	ctx, done := context.WithTimeout(ctx, statusTimeout)
	defer done()
	select {
	case n.space.reading <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-n.space.reading }()
	h := n.askSpace(ctx)
	if h == nil {
		return nil
	}
	now, before := n.cfg.Clock(), scheduler.SpaceNormal
	if last := n.space.last.Load(); last != nil {
		before = last.health.Space
	}
	h.Space = before.Next(h.Share(), h.NoSpace())
	h.HistoryStood, h.HistoryWritten = n.space.history.Observe(h.Revision, h.CompactRevision, now)
	n.space.last.Store(&spaceReading{health: *h, at: now})
	n.store.Restrict(h.Space != scheduler.SpaceNormal, h.Refusal())
	n.saySpace(*h, before, now)
	return h
}

// saySpace logs a change of level, and seldom that history is not compacted.
func (n *Node) saySpace(h scheduler.EtcdHealth, before scheduler.SpaceLevel, now scheduler.Reading) {
	if h.Space != before {
		say := n.log.Warn
		if h.Space == scheduler.SpaceNormal {
			say = n.log.Info
		}
		say("etcd's space changed", "space", h.Space, "was", before,
			"share", h.Share(), "size", h.DBSize, "quota", h.DBQuota, "alarms", h.Alarms)
	}
	switch s := n.space; {
	case h.HistoryStood > 0 && (s.said == 0 || now.Elapsed-s.said >= historySaid):
		s.said = now.Elapsed
		n.log.Warn("etcd's history not compacted; switch on its auto-compaction, or start all nodes with --compact=5m",
			"since", h.HistoryStood.Round(time.Minute), "revisions", h.HistoryWritten)
	case h.HistoryStood == 0 && s.said != 0:
		s.said = 0
		n.log.Info("etcd's history compacted again", "revision", h.CompactRevision)
	}
}

// compact drops etcd's history, if it is switched on, up to a revision that was seen a whole interval ago in
// this term. What is younger is needed: a watch goes on from the last revision it has delivered, which a
// healthy one brings up every 5 s and a silent one after 15 s, and a read of many pages stays at the
// revision it began with. Whoever is behind for longer has to read everything again, and does.
func (n *Node) compact(ctx context.Context, c *chores, now scheduler.Reading) error {
	last := n.space.last.Load()
	if n.cfg.Compact == 0 || last == nil || c.revision != 0 && now.Elapsed-c.noted < n.cfg.Compact {
		return nil
	}
	due := c.revision
	c.revision, c.noted = last.health.Revision, last.at.Elapsed
	if due == 0 {
		return nil
	}
	return n.store.Compact(ctx, due) // if it fails the next one goes further
}

// askSpace asks every member of etcd that this node is told of, for each has a database and a quota of its
// own, and the first that is full stops all.
func (n *Node) askSpace(ctx context.Context) *scheduler.EtcdHealth {
	client := n.cfg.Client
	if client.Maintenance == nil {
		return nil
	}
	endpoints := client.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{""} // a client with a single way to etcd, which needs no name
	}
	h, trouble := healthOf(statusOfAll(ctx, client, endpoints))
	if h == nil {
		return nil
	}
	h.Endpoints = endpoints
	last := n.space.last.Load()
	if trouble { // Status only says that there is something; the list goes through etcd's log, and is read when needed
		h.Alarms = n.alarms(ctx, last)
	}
	var known bool
	if h.CompactRevision, known = n.compacted(ctx); !known && last != nil {
		h.CompactRevision = last.health.CompactRevision
	}
	return h
}

// healthOf puts the answers of etcd's members together: the newest revision, and the sizes of the fullest.
// It is nil without any, and says whether there is trouble: an alarm, or no leader.
func healthOf(answers []*clientv3.StatusResponse) (h *scheduler.EtcdHealth, trouble bool) {
	for _, a := range answers {
		one := scheduler.EtcdHealth{Version: a.Version, Revision: a.Header.GetRevision(), DBSize: a.DbSize, DBInUse: a.DbSizeInUse, DBQuota: a.DbSizeQuota}
		switch {
		case h == nil:
			h = &one
		case one.Share() > h.Share() || one.Share() == h.Share() && one.DBSize > h.DBSize:
			h.DBSize, h.DBInUse, h.DBQuota = one.DBSize, one.DBInUse, one.DBQuota
		}
		h.Revision = max(h.Revision, one.Revision)
		trouble = trouble || len(a.Errors) > 0
	}
	return h, trouble
}

// stragglers is how long members of etcd may take to answer once one of them has: one that is down must
// not hold up every look at the others.
const stragglers = 300 * time.Millisecond

// statusOfAll asks all endpoints at once, and returns those answers that come in time.
func statusOfAll(ctx context.Context, client *clientv3.Client, endpoints []string) (answers []*clientv3.StatusResponse) {
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	told := make(chan *clientv3.StatusResponse, len(endpoints)) // one each
	for _, endpoint := range endpoints {
		asked.Go(func() {
			answer, err := client.Status(ctx, endpoint)
			if err != nil {
				answer = nil // it is away
			}
			told <- answer
		})
	}
	var late <-chan time.Time // never, until the first has answered
	for range endpoints {
		select {
		case answer := <-told:
			if answer == nil {
				continue
			}
			if answers = append(answers, answer); late == nil {
				late = time.After(stragglers)
			}
		case <-late:
			return answers
		}
	}
	return answers
}

// alarms are those that are raised; if etcd does not tell, those it told of last.
func (n *Node) alarms(ctx context.Context, last *spaceReading) []string {
	list, err := n.cfg.Client.AlarmList(ctx)
	if err != nil {
		if last == nil {
			return nil
		}
		return last.health.Alarms
	}
	var alarms []string
	seen := map[string]bool{}
	for _, a := range list.Alarms { // one for each member of etcd that raises it
		if name := a.Alarm.String(); !seen[name] {
			seen[name] = true
			alarms = append(alarms, name)
		}
	}
	return alarms
}

// compacted is the revision up to which etcd has compacted, 0 if it never has. A read of the first
// revision tells whether it has; only then a watch from there, which etcd ends at once with the revision.
// Without the read such a watch would have etcd go through all its history.
func (n *Node) compacted(ctx context.Context) (revision int64, known bool) {
	key := n.cfg.Prefix + "meta"
	_, err := n.cfg.Client.Get(ctx, key, clientv3.WithRev(1), clientv3.WithCountOnly())
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, err == nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range n.cfg.Client.Watch(ctx, key, clientv3.WithRev(1)) {
		if r.CompactRevision != 0 {
			return r.CompactRevision, true
		}
	}
	return 0, false
}

// Describe implements prometheus.Collector: it promises nothing, since there may be nothing to tell.
func (s *space) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Before the first answer of etcd there is nothing to tell.
func (s *space) Collect(out chan<- prometheus.Metric) {
	last := s.last.Load()
	if last == nil {
		return
	}
	h := last.health
	gauge := func(name, help string, value float64, labels ...string) {
		var names []string
		if len(labels) > 0 {
			names = []string{"alarm"}
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("quorumcron_etcd_"+name, help, names, nil), prometheus.GaugeValue, value, labels...)
	}
	gauge("db_size_bytes", "Size of etcd's database file: what etcd compares with its quota.", float64(h.DBSize))
	gauge("db_in_use_bytes", "Bytes of it in use; the rest is free pages.", float64(h.DBInUse))
	gauge("db_quota_bytes", "etcd's quota; 0 or less when it has none.", float64(h.DBQuota))
	share := 0.0
	if h.DBQuota > 0 {
		share = float64(h.DBSize) / float64(h.DBQuota)
	}
	gauge("db_quota_share", "Size as a share of the quota, 0 to 1.", share)
	for _, alarm := range []string{scheduler.AlarmNoSpace, scheduler.AlarmCorrupt} {
		raised := 0.0
		for _, a := range h.Alarms {
			if a == alarm {
				raised = 1
			}
		}
		gauge("alarm", "1 while etcd raises the alarm.", raised, alarm)
	}
	gauge("history_stood_seconds", "For how long etcd's compaction revision has stood still; 0 while history is compacted.", h.HistoryStood.Seconds())
}
