package history

import (
	"fmt"
	"time"
)

// EtcdLog is what a watch of the test's own saw below the cluster's prefix, in order of revision.
type EtcdLog struct {
	// Prefix is cut from the keys of events.
	Prefix string
	Events []EtcdEvent
	// Gaps are revisions that the watch could not get: they were compacted before it had them.
	Gaps []Gap
	// Seen is the revision up to which the watch has got everything, but for the gaps; Head is etcd's
	// revision when the watch was asked to stop. Seen < Head: the log is cut off.
	Seen, Head int64
}

// EtcdEvent is one put or delete of a key.
type EtcdEvent struct {
	Revision int64  `json:"revision"`
	Key      string `json:"key"` // below the prefix
	Value    []byte `json:"value,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
	Created  int64  `json:"created,omitempty"` // create revision of the key
	Version  int64  `json:"version,omitempty"`
	Lease    int64  `json:"lease,omitempty"`
	// At is when the watch got it: it was committed before. Late says that it waited in etcd, because
	// the watch had lost its line.
	At   time.Time `json:"at"`
	Late bool      `json:"late,omitempty"`
}

// Gap is revisions, both included, that nobody saw.
type Gap struct{ From, To int64 }

// missing says what the log lacks, or "".
func (l *EtcdLog) missing() string {
	switch {
	case l == nil:
		return "nobody watched etcd"
	case len(l.Events) == 0:
		return "the watch of etcd saw nothing"
	case len(l.Gaps) > 0:
		return fmt.Sprintf("the watch of etcd has %d gaps, the first of revisions %d to %d", len(l.Gaps), l.Gaps[0].From, l.Gaps[0].To)
	case l.Seen < l.Head:
		return fmt.Sprintf("the watch of etcd ends at revision %d, and etcd is at %d", l.Seen, l.Head)
	}
	return l.lost()
}

// lost finds a write that the watch did not get though it should have: etcd counts the writes of a key.
func (l *EtcdLog) lost() string {
	version := map[string]int64{} // of the keys that are there
	for _, e := range l.Events {
		was, there := version[e.Key]
		switch {
		case e.Deleted && !there, !e.Deleted && e.Version != was+1:
			return fmt.Sprintf("the watch of etcd missed a write of %s before revision %d", e.Key, e.Revision)
		case e.Deleted:
			delete(version, e.Key)
		default:
			version[e.Key] = e.Version
		}
	}
	return ""
}
