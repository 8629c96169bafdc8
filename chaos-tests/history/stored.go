package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// What etcd holds, read by its documented form: the keys of docs/architecture.md and the messages of
// quorumcron.stored.v1. No rule of the scheduler is here.

// written is what was written of one job name, each list in order of revision.
type written struct {
	definitions []definition
	states      []state
	locks       []lock
	records     []record
	triggers    []trigger
	unreadable  []string // keys with values that cannot be read
	shard       int      // -1 when no key says it
	replaced    int64    // the revision at which a later uid took the name; 0 when none did
	// lockBy are the locks by their token, recordsOf the records by their firing.
	lockBy    map[int64]*lock
	recordsOf map[string][]record
}

// definition is one put of a job's definition.
type definition struct {
	revision int64
	at       time.Time // when it was seen
	*storedv1.Job
}

func (d definition) deleted() bool { return d.GetDeleted() != nil }

// made is when it was made, by the clock of the member that served the call.
func (d definition) made() time.Time {
	switch {
	case d.deleted():
		return d.GetDeleted().AsTime()
	case d.GetEdited() == nil:
		return d.GetCreated().AsTime()
	}
	return d.GetEdited().AsTime()
}

// version is what tells the definition from others; 0 when it does not say.
func (d definition) version() int {
	n, err := strconv.Atoi(d.GetRun().GetCommand().GetEnv()["WITNESS_VERSION"])
	if err != nil {
		return 0
	}
	return n
}

// state is one put of a job's state.
type state struct {
	revision int64
	at       time.Time
	late     bool
	*storedv1.State
}

// token is the fencing token of an entry: 0 stands for the revision of the value that holds it.
func (s state) token(e *storedv1.Entry) int64 {
	if e.GetToken() == 0 {
		return s.revision
	}
	return e.GetToken()
}

// entry finds the entry of a firing.
func (s state) entry(f *storedv1.Firing) *storedv1.Entry {
	for _, e := range s.GetEntries() {
		if same(e.GetFiring(), f) {
			return e
		}
	}
	return nil
}

// owed finds the pending retry of a firing.
func (s state) owed(f *storedv1.Firing) *storedv1.PendingRetry {
	for _, r := range s.GetRetries() {
		if same(r.GetFiring(), f) {
			return r
		}
	}
	return nil
}

// counted is how many firings ended, by verdict and reason.
func (s state) counted() map[string]int64 {
	sums := map[string]int64{}
	for _, c := range s.GetCounters() {
		sums[ending(c.GetVerdict(), c.GetReason())] += c.GetCount()
	}
	return sums
}

// sums is all that the state knows of firings, on one line.
func (s state) sums() string {
	parts := []string{fmt.Sprintf("%d in flight, %d owed, %d waiting", len(s.GetEntries()), len(s.GetRetries()), s.GetBacklog().GetCount())}
	for _, c := range s.GetCounters() {
		parts = append(parts, fmt.Sprintf("%d %s", c.GetCount(), ending(c.GetVerdict(), c.GetReason())))
	}
	return strings.Join(parts, ", ")
}

// lock is one put or delete of a lock.
type lock struct {
	revision int64
	at       time.Time
	late     bool
	deleted  bool
	created  int64 // its token, while it is there
	leased   bool
	firing   string // with its uid
	*storedv1.Lock
}

// record is one put of a run.
type record struct {
	revision int64
	uid      string
	slot     int
	*storedv1.Run
}

func (r record) last() *storedv1.Attempt {
	if len(r.GetAttempts()) == 0 {
		return &storedv1.Attempt{}
	}
	return r.GetAttempts()[len(r.GetAttempts())-1]
}

// trigger is one put or delete of a request for a firing.
type trigger struct {
	revision int64
	id       string
	deleted  bool
}

func same(a, b *storedv1.Firing) bool {
	return a.GetScheduled() == b.GetScheduled() && a.GetTrigger() == b.GetTrigger()
}

// firingOf is the string of a firing, its idempotency key everywhere.
func firingOf(uid string, f *storedv1.Firing) string {
	if f.GetTrigger() != "" {
		return uid + "+" + f.GetTrigger()
	}
	return uid + "@" + time.Unix(f.GetScheduled(), 0).UTC().Format(time.RFC3339)
}

// ending is a verdict and its reason as people are shown them: SKIPPED(overlap).
func ending(v storedv1.Verdict, r storedv1.Reason) string {
	return shown(verdictOf(v), reasonOf(r))
}

func shown(verdict, reason string) string {
	if reason == "" {
		return verdict
	}
	return verdict + "(" + reason + ")"
}

func verdictOf(v storedv1.Verdict) string {
	if v == 0 {
		return ""
	}
	return strings.TrimPrefix(v.String(), "VERDICT_")
}

// reasonOf has the words of docs/jobs.md.
func reasonOf(r storedv1.Reason) string {
	switch r {
	case storedv1.Reason_REASON_UNSPECIFIED:
		return ""
	case storedv1.Reason_REASON_CATCH_UP:
		return "catch-up policy"
	case storedv1.Reason_REASON_STOPPING:
		return "node stopping"
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(r.String(), "REASON_")), "_", " ")
}

// byJob sorts the log by job name. Locks and records are kept by uid, so a name has those of all uids
// that it ever had.
func (l *EtcdLog) byJob() map[string]*written {
	jobs, names := map[string]*written{}, map[string]string{}
	of := func(name string) *written {
		if jobs[name] == nil {
			jobs[name] = &written{shard: -1}
		}
		return jobs[name]
	}
	for _, e := range l.Events { // first who is who
		if name, ok := nameIn(e.Key, "state/"); ok && !e.Deleted {
			if s := new(storedv1.State); proto.Unmarshal(e.Value, s) == nil {
				names[s.GetUid()] = name
			}
		}
	}
	for _, e := range l.Events {
		folder, rest, _ := strings.Cut(e.Key, "/")
		name, named := nameIn(e.Key, folder+"/")
		if folder == "locks" || folder == "runs" {
			uid, _, _ := strings.Cut(rest, "/")
			name, named = names[uid]
		}
		if shard, ok := shardOf(e.Key); named && ok && folder == "jobs" {
			of(name).shard = shard
		}
		if named && !of(name).add(folder, e) {
			of(name).unreadable = append(of(name).unreadable, e.Key)
		}
	}
	return jobs
}

// nameIn reads <folder>/<shard>/<namespace>/<name>[/…]; namespaces but the default one are not ours.
func nameIn(key, folder string) (string, bool) {
	rest, ok := strings.CutPrefix(key, folder)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 3 || parts[1] != "default" || !slices.Contains([]string{"jobs/", "state/", "triggers/"}, folder) {
		return "", false
	}
	return parts[2], true
}

// add takes one event of a job, or says that it cannot be read.
func (w *written) add(folder string, e EtcdEvent) bool {
	parts := strings.Split(e.Key, "/")
	last := parts[len(parts)-1]
	switch folder {
	case "jobs":
		d := definition{revision: e.Revision, at: e.At, Job: new(storedv1.Job)}
		if e.Deleted {
			return true // swept
		}
		if proto.Unmarshal(e.Value, d.Job) != nil || d.GetUid() == "" {
			return false
		}
		w.definitions = append(w.definitions, d)
	case "state":
		s := state{revision: e.Revision, at: e.At, late: e.Late, State: new(storedv1.State)}
		if e.Deleted {
			return true
		}
		if proto.Unmarshal(e.Value, s.State) != nil || s.GetUid() == "" {
			return false
		}
		w.states = append(w.states, s)
	case "triggers":
		if !e.Deleted && e.Version > 1 {
			return true
		}
		w.triggers = append(w.triggers, trigger{revision: e.Revision, id: last, deleted: e.Deleted})
	case "runs":
		r := record{revision: e.Revision, uid: parts[1], Run: new(storedv1.Run)}
		if e.Deleted {
			return true
		}
		slot, err := strconv.Atoi(last)
		if err != nil || proto.Unmarshal(e.Value, r.Run) != nil || len(r.GetAttempts()) == 0 {
			return false
		}
		r.slot = slot
		w.records = append(w.records, r)
	case "locks":
		k := lock{revision: e.Revision, at: e.At, late: e.Late, deleted: e.Deleted, created: e.Created, leased: e.Lease != 0,
			firing: parts[1] + parts[2], Lock: new(storedv1.Lock)}
		if !e.Deleted && proto.Unmarshal(e.Value, k.Lock) != nil {
			return false
		}
		w.locks = append(w.locks, k)
	}
	return true
}
