package conformance

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// smallQuota is small enough to be filled in a moment.
const smallQuota = 4 << 20

func sizeTests() []Test {
	return []Test{
		{Name: "TheFileIsHeldAgainstTheQuota", Alone: true, Quota: smallQuota, Run: quotaFills,
			Says: "Status tells size, size in use and quota. When the file with its free pages reaches the quota, puts are refused and NOSPACE is raised; compaction frees pages and leaves the file, defragmentation makes it smaller, and the alarm stands until it is cleared."},
		{Name: "TheFirstRevisionTellsOfCompaction", Alone: true, Run: firstRevision,
			Says: "A read at revision 1 is answered until the first compaction and refused after it, and a watch from there ends with the compaction revision."},
	}
}

func statusOf(t *testing.T, e *Env) *clientv3.StatusResponse {
	t.Helper()
	endpoint := ""
	if all := e.Client.Endpoints(); len(all) > 0 {
		endpoint = all[0]
	}
	return must[*clientv3.StatusResponse](t, "status")(e.Client.Status(t.Context(), endpoint))
}

func quotaFills(t *testing.T, e *Env) {
	a, b := e.Prefix+"a", e.Prefix+"b"
	put(t, e.Client, b, "x")
	s := statusOf(t, e)
	want(t, "quota", s.DbSizeQuota, smallQuota)
	want(t, "errors of a healthy cluster", len(s.Errors), 0)
	if s.DbSize <= 0 || s.DbSizeInUse <= 0 || s.DbSizeInUse > s.DbSize || s.DbSize > smallQuota/4 {
		t.Errorf("empty: size %d, %d of it in use", s.DbSize, s.DbSizeInUse)
	}
	value := strings.Repeat("x", 10<<10)
	var err error
	for range 10_000 { // etcd learns its size ten times a second, and takes more meanwhile
		if _, err = e.Client.Put(t.Context(), a, value); err != nil {
			break
		}
	}
	wantErr(t, "put into a full file", err, rpctypes.ErrNoSpace)
	_, err = e.Client.Put(t.Context(), b, "y")
	wantErr(t, "small put after it", err, rpctypes.ErrNoSpace)
	full := statusOf(t, e)
	if full.DbSize < smallQuota-int64(len(value))-1<<10 || len(full.Errors) == 0 {
		t.Errorf("full: size %d of %d, errors %q", full.DbSize, smallQuota, full.Errors)
	}
	alarms := must[*clientv3.AlarmResponse](t, "alarms")(e.Client.AlarmList(t.Context()))
	want(t, "alarms", len(alarms.Alarms), 1)
	rev := del(t, e.Client, b).Header.Revision

	must[*clientv3.CompactResponse](t, "compact")(e.Client.Compact(t.Context(), rev, clientv3.WithCompactPhysical()))
	if s := statusOf(t, e); s.DbSize < full.DbSize {
		t.Errorf("compaction made the file smaller: %d, was %d", s.DbSize, full.DbSize)
	}
	endpoint := ""
	if all := e.Client.Endpoints(); len(all) > 0 {
		endpoint = all[0]
	}
	must[*clientv3.DefragmentResponse](t, "defragment")(e.Client.Defragment(t.Context(), endpoint))
	if s := statusOf(t, e); s.DbSize > smallQuota/2 {
		t.Errorf("defragmented: size %d", s.DbSize)
	}
	_, err = e.Client.Put(t.Context(), b, "y")
	wantErr(t, "put before the alarm is cleared", err, rpctypes.ErrNoSpace)
	must[*clientv3.AlarmResponse](t, "disarm")(e.Client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}))
	put(t, e.Client, b, "y")
	want(t, "errors after it", len(statusOf(t, e).Errors), 0)
}

func firstRevision(t *testing.T, e *Env) {
	a := e.Prefix + "a"
	first := func() error {
		_, err := e.Client.Get(t.Context(), a, clientv3.WithRev(1), clientv3.WithCountOnly())
		return err
	}
	rev := put(t, e.Client, a, "1")
	put(t, e.Client, a, "2")
	if err := first(); err != nil {
		t.Errorf("read at the first revision: %v", err)
	}
	must[*clientv3.CompactResponse](t, "compact")(e.Client.Compact(t.Context(), rev))
	if err := first(); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("read at the first revision after a compaction: %v", err)
	}
	want(t, "compact revision", next(t, e.Client.Watch(t.Context(), a, clientv3.WithRev(1))).CompactRevision, rev)
}
