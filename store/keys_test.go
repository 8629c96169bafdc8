package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorumcron/quorumcron/scheduler"
)

// TestKeyFormatsNeverChange pins every key: members of two versions work on the same ones.
func TestKeyFormatsNeverChange(t *testing.T) {
	t.Parallel()
	const uid = "01jz3q8n0v5d6h7k8m9p0q1r2s"
	k := keys(DefaultPrefix)
	name := scheduler.JobName{Namespace: "default", Name: "nightly-report"}
	shard := scheduler.ShardOf(name)
	noon := scheduler.Firing{UID: uid, Scheduled: 1798135200}
	manual := scheduler.Triggered(uid, "01jz3q8n0v5d6h7k8m9p0q1r2t")
	chained := scheduler.Triggered(uid, "01jz3q8n0v5d6h7k8m9p0q1r2t@2026-12-24T18:00:00Z")
	if got, want := shard.String(), "8e"; got != want {
		t.Errorf("shard of %s: got %s, want %s", name, got, want)
	}
	for want, got := range map[string]string{
		"/quorumcron/meta":                                                  k.meta(),
		"/quorumcron/rules/head":                                            k.head(),
		"/quorumcron/rules/assignment/all":                                  k.assignment("all"),
		"/quorumcron/pools/all":                                             k.pool("all"),
		"/quorumcron/jobs/8e/default/nightly-report":                        k.job(shard, name),
		"/quorumcron/state/8e/default/nightly-report":                       k.state(shard, name),
		"/quorumcron/triggers/8e/default/nightly-report/x-1":                k.trigger(shard, name, "x-1"),
		"/quorumcron/marks/8e":                                              k.mark(shard),
		"/quorumcron/marks/0a":                                              k.mark(10),
		"/quorumcron/locks/" + uid + "/@2026-12-24T18:00:00Z/000":           k.lock(noon, 0),
		"/quorumcron/locks/" + uid + "/+01jz3q8n0v5d6h7k8m9p0q1r2t/007":     k.lock(manual, 7),
		"/quorumcron/locks/" + uid + "/+" + chained.Trigger + "/000":        k.lock(chained, 0),
		"/quorumcron/runs/" + uid + "/003":                                  k.run(uid, 3),
		"/quorumcron/runs/" + uid + "/110":                                  k.run(uid, 110),
		"/quorumcron/queue/node-a/cancel/" + uid + "/@2026-12-24T18:00:00Z": k.cancel("node-a", noon),
		"/quorumcron/requests/default/deploy-42":                            k.request("default", "deploy-42"),
	} {
		if got != want {
			t.Errorf("got key %s, want %s", got, want)
		}
	}
}

func TestKeysAreReadBack(t *testing.T) {
	t.Parallel()
	k := keys("/a/b/")
	name := scheduler.JobName{Namespace: "a-b", Name: "c.d_e"}
	for _, f := range []scheduler.Firing{
		{UID: "01jz", Scheduled: 1798135200},
		{UID: "01jz", Scheduled: -62135596800},
		scheduler.Triggered("01jz", "t-1"),
		scheduler.Triggered("01jz", "01k0@2026-12-24T18:00:00Z"),
		scheduler.Triggered("01jz", "01k0+01k1@2026-12-24T18:00:00Z"),
	} {
		if got, part, ok := k.parseLock(k.lock(f, 12)); !ok || got != f || part != 12 {
			t.Errorf("lock of %s: got %v, part %d, %v", f, got, part, ok)
		}
		if member, got, ok := k.parseCancel(k.cancel("node-a", f)); !ok || got != f || member != "node-a" {
			t.Errorf("cancel of %s: got %v for %q, %v", f, got, member, ok)
		}
	}
	for shard := range scheduler.ShardCount {
		s := scheduler.Shard(shard)
		type read struct {
			Shard scheduler.Shard
			Name  scheduler.JobName
			ID    string
		}
		want := read{s, name, ""}
		var got read
		var ok bool
		if got.Shard, got.Name, ok = k.parseJob(k.job(s, name)); !ok || got != want {
			t.Errorf("job: %s", cmp.Diff(want, got))
		}
		if got.Shard, got.Name, ok = k.parseState(k.state(s, name)); !ok || got != want {
			t.Errorf("state: %s", cmp.Diff(want, got))
		}
		want.ID = "01k0@2026-12-24T18:00:00Z"
		if got.Shard, got.Name, got.ID, ok = k.parseTrigger(k.trigger(s, name, want.ID)); !ok || got != want {
			t.Errorf("trigger: %s", cmp.Diff(want, got))
		}
		if got, ok := k.parseMark(k.mark(s)); !ok || got != s {
			t.Errorf("mark %s: got %s, %v", s, got, ok)
		}
	}
	if uid, slot, ok := k.parseRun(k.run("01jz", 109)); !ok || uid != "01jz" || slot != 109 {
		t.Errorf("run: got %q, %d, %v", uid, slot, ok)
	}
	if ns, id, ok := k.parseRequest(k.request("a-b", "x:1")); !ok || ns != "a-b" || id != "x:1" {
		t.Errorf("request: got %q, %q, %v", ns, id, ok)
	}
}

// TestForeignKeysAreRefused: what an operator or another program put below the prefix is quarantined,
// not taken for something else.
func TestForeignKeysAreRefused(t *testing.T) {
	t.Parallel()
	k := keys("/q/")
	for _, key := range []string{
		"", "/q/", "/q/jobs/", "/q/jobs/zz/a/b", "/q/jobs/8/a/b", "/q/jobs/8C/a/b", "/q/jobs/8e/a", "/q/jobs/8e/a/b/c",
		"/q/jobs/8e//b", "/q/jobs/8e/a/", "/other/jobs/8e/a/b", "/q/state/8e/a",
	} {
		if _, name, ok := k.parseJob(key); ok {
			t.Errorf("job key %q was read as %v", key, name)
		}
		if _, name, ok := k.parseState(key); ok {
			t.Errorf("state key %q was read as %v", key, name)
		}
	}
	for _, key := range []string{
		"/q/locks/", "/q/locks/u/@2026-12-24T18:00:00Z", "/q/locks/u/@noon/000", "/q/locks/u/2026-12-24T18:00:00Z/000",
		"/q/locks/u/@2026-12-24T18:00:00Z/0", "/q/locks/u/@2026-12-24T18:00:00Z/-01", "/q/locks/u@/x/000", "/q/locks//+a/000",
	} {
		if f, _, ok := k.parseLock(key); ok {
			t.Errorf("lock key %q was read as %v", key, f)
		}
	}
	for _, key := range []string{"/q/runs/u", "/q/runs/u/1", "/q/runs/u/0001", "/q/runs//001", "/q/runs/u/001/000"} {
		if uid, slot, ok := k.parseRun(key); ok {
			t.Errorf("run key %q was read as %q, %d", key, uid, slot)
		}
	}
	for _, key := range []string{"/q/triggers/8e/a/b", "/q/triggers/8e/a/b/", "/q/triggers/8e/a/b/c/d"} {
		if _, _, id, ok := k.parseTrigger(key); ok {
			t.Errorf("trigger key %q was read as %q", key, id)
		}
	}
	for _, key := range []string{"/q/marks/", "/q/marks/8e/", "/q/marks/8e/x", "/q/queue/n/x/u/+a", "/q/queue/n/cancel/u/a"} {
		if s, ok := k.parseMark(key); ok {
			t.Errorf("mark %q was read as %s", key, s)
		}
		if _, f, ok := k.parseCancel(key); ok {
			t.Errorf("cancel %q was read as %v", key, f)
		}
	}
}
