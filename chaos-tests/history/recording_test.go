package history_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// recording writes down a made-up run as a real one leaves it behind: lines, effects, etcd's log, and at
// the end jobs and runs. Its methods are the writes of docs/adr/0003; what they write is not checked here.
type recording struct {
	h         history.History
	revision  int64
	nonces    int
	effects   int64
	jobs      []*recordedJob
	triggered int
	// version and created are etcd's, of each key.
	version, created map[string]int64
}

// recordedJob is one uid.
type recordedJob struct {
	name, uid string
	spec      history.Spec
	def       *storedv1.Job
	state     *storedv1.State
	ended     *storedv1.Run // not folded yet
	records   map[int32]*storedv1.Run
	running   *history.Line // the start line of what is in flight
	runs      []string      // firings, in order
}

func newRecording() *recording {
	return &recording{revision: 100, version: map[string]int64{}, created: map[string]int64{}, h: history.History{Etcd: &history.EtcdLog{Prefix: "/quorumcron/"}}}
}

// put is one event; the revision is that of the write it is part of.
func (r *recording) put(at float64, key string, m proto.Message, lease int64) {
	value, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	if r.version[key]++; r.version[key] == 1 {
		r.created[key] = r.revision
	}
	r.h.Etcd.Events = append(r.h.Etcd.Events, history.EtcdEvent{
		Revision: r.revision, Key: key, Value: value, Created: r.created[key], Version: r.version[key], Lease: lease, At: after(at),
	})
}

func (r *recording) remove(at float64, key string) {
	r.version[key] = 0
	r.h.Etcd.Events = append(r.h.Etcd.Events, history.EtcdEvent{Revision: r.revision, Key: key, Deleted: true, At: after(at)})
}

// after is when the watch sees what was written at a moment.
func after(at_ float64) time.Time { return at(at_ + 0.005) }

func stamp(seconds float64) *timestamppb.Timestamp { return timestamppb.New(at(seconds)) }

// write begins a transaction.
func (r *recording) write() { r.revision++ }

func (j *recordedJob) key(folder string) string { return folder + "/0a/default/" + j.name }

func (r *recording) putState(at float64, j *recordedJob) {
	r.put(at, j.key("state"), j.state, 0)
}

// apply makes a job, or changes it.
func (r *recording) apply(at float64, j *recordedJob, name string, spec history.Spec) *recordedJob {
	r.write()
	if j == nil || j.def.Deleted != nil {
		n := len(r.jobs)
		j = &recordedJob{name: name, uid: fmt.Sprintf("01j%023d", n), records: map[int32]*storedv1.Run{}}
		j.def = &storedv1.Job{Namespace: "default", Name: name, Uid: j.uid, Created: stamp(at)}
		j.state = &storedv1.State{Uid: j.uid, Cursor: stamp(at), Slots: 11}
		r.jobs = append(r.jobs, j)
	} else {
		r.close(at, j, storedv1.Reason_REASON_EDITED)
	}
	j.spec = spec
	j.def.Generation++
	j.def.Paused, j.def.Edited = false, stamp(at)
	j.def.Run = &storedv1.Executable{Kind: &storedv1.Executable_Command{Command: &storedv1.Command{Env: map[string]string{"WITNESS_VERSION": strconv.Itoa(spec.Version)}}}}
	r.put(at, j.key("jobs"), j.def, 0)
	r.putState(at, j)
	r.called(history.Change{Op: history.Apply, Job: name, Spec: spec, UID: j.uid, Generation: j.def.Generation, Revision: r.revision}, at)
	return j
}

func (r *recording) called(c history.Change, seconds float64) {
	c.Invoked, c.Returned, c.Result = at(seconds-0.02), at(seconds+0.02), history.OK
	r.h.Changes = append(r.h.Changes, c)
}

// edit pauses, resumes or deletes.
func (r *recording) edit(at float64, j *recordedJob, op string) {
	r.write()
	reason := storedv1.Reason_REASON_PAUSED
	switch op {
	case history.Delete:
		reason = storedv1.Reason_REASON_DELETED
		j.def.Deleted = stamp(at)
	default:
		j.def.Generation++
	}
	r.close(at, j, reason)
	j.def.Paused, j.def.Edited = op == history.Pause, stamp(at)
	r.put(at, j.key("jobs"), j.def, 0)
	r.putState(at, j)
	r.called(history.Change{Op: op, Job: j.name, UID: j.uid, Generation: j.def.Generation, Revision: r.revision}, at)
}

// close closes the books: what is due and not decided is skipped.
func (r *recording) close(seconds float64, j *recordedJob, reason storedv1.Reason) {
	due := history.Instants(j.spec.Period, j.state.Cursor.AsTime(), at(seconds).Add(time.Nanosecond))
	if n := len(due); n > 0 {
		r.account(j, storedv1.Verdict_VERDICT_SKIPPED, reason, due[0], due[n-1], int64(n))
	}
	j.state.Cursor = timestamppb.New(at(seconds).Truncate(time.Second))
}

func (r *recording) account(j *recordedJob, v storedv1.Verdict, why storedv1.Reason, first, last time.Time, n int64) {
	r.count(j, v, why, n)
	if k := len(j.state.Ranges); k > 0 {
		if g := j.state.Ranges[k-1]; g.Verdict == v && g.Reason == why && g.Last.AsTime().Add(j.spec.Period).Equal(first) {
			g.Last, g.Count = timestamppb.New(last), g.Count+n
			return
		}
	}
	j.state.Ranges = append(j.state.Ranges, &storedv1.Range{Verdict: v, Reason: why, First: timestamppb.New(first), Last: timestamppb.New(last), Count: n})
}

func (r *recording) count(j *recordedJob, v storedv1.Verdict, why storedv1.Reason, n int64) {
	for _, c := range j.state.Counters {
		if c.Verdict == v && c.Reason == why {
			c.Count += n
			return
		}
	}
	j.state.Counters = append(j.state.Counters, &storedv1.Counter{Verdict: v, Reason: why, Count: n})
}

// skip decides one instant without a run.
func (r *recording) skip(seconds float64, j *recordedJob, v storedv1.Verdict, why storedv1.Reason, instants ...int) {
	r.write()
	for _, i := range instants {
		r.account(j, v, why, at(float64(i)), at(float64(i)), 1)
		j.state.Cursor = stamp(float64(i))
	}
	r.putState(seconds, j)
}

// assign makes a node the owner of all shards.
func (r *recording) assign(at float64, owner string) {
	r.write()
	r.put(at, "pools/all", &storedv1.Pool{}, 0)
	r.put(at, "rules/assignment/all", &storedv1.Assignment{Members: []string{"n1#7", "n2#8"}, Owners: bytes.Repeat([]byte{map[string]byte{"n1": 1, "n2": 2}[owner]}, 256)}, 0)
}

// trigger asks for a firing outside the schedule.
func (r *recording) trigger(at float64, j *recordedJob) string {
	r.write()
	r.triggered++
	id := fmt.Sprintf("t%d", r.triggered)
	r.put(at, j.key("triggers")+"/"+id, &storedv1.Trigger{Requested: stamp(at)}, 0)
	r.called(history.Change{Op: history.Trigger, Job: j.name, Firing: j.uid + "+" + id}, at)
	return id
}

// begin grants an attempt and starts its command on a node 20 ms later. It folds what has ended.
func (r *recording) begin(seconds float64, j *recordedJob, node string, instant int, trigger string) {
	r.write()
	r.fold(j)
	firing := &storedv1.Firing{Scheduled: at(float64(instant)).Unix()}
	due := stamp(float64(instant))
	if trigger != "" {
		firing, due = &storedv1.Firing{Trigger: trigger}, stamp(seconds)
		r.remove(seconds, j.key("triggers")+"/"+trigger)
	} else if due.AsTime().After(j.state.Cursor.AsTime()) {
		j.state.Cursor = due
	}
	attempt, slot := int32(1), j.state.NextSlot
	var past []*storedv1.Attempt
	if len(j.state.Retries) > 0 {
		owed := j.state.Retries[0]
		attempt, slot, past, j.state.Retries = owed.Attempt, owed.Slot, owed.Past, nil
	} else {
		j.state.NextSlot = (slot + 1) % j.state.Slots
	}
	r.nonces++
	nonce := fmt.Sprintf("p%d", r.nonces)
	j.state.Entries = []*storedv1.Entry{{
		Firing: firing, Attempt: attempt, Generation: j.def.Generation, Slot: slot, Member: node, Nonce: nonce,
		Hold: durationpb.New(8 * time.Second), Granted: stamp(seconds), Due: due, Past: past,
	}}
	r.put(seconds, j.key("state"), j.state, 0)
	name := "@" + at(float64(instant)).Format(time.RFC3339)
	if trigger != "" {
		name = "+" + trigger
	}
	r.put(seconds, "locks/"+j.uid+"/"+name+"/000", &storedv1.Lock{Member: node, Nonce: nonce, Attempt: attempt, Slot: slot, Namespace: "default", Name: j.name}, 7)
	j.state.Entries[0].Token = r.revision // whoever rewrites the value fills it in
	l := history.Line{
		Event: history.Start, Node: node, Namespace: "default", Job: j.name, Firing: j.uid + name, Attempt: strconv.Itoa(int(attempt)),
		Token: strconv.FormatInt(r.revision, 10), Member: node, PID: 1000 + r.nonces, Nonce: fmt.Sprintf("c%d", r.nonces), Version: j.spec.Version,
	}
	if trigger == "" {
		l.Instant = at(float64(instant)).Format(time.RFC3339)
	}
	j.running = &l
	j.runs = append(j.runs, l.Firing)
	r.line(seconds+0.02, l, history.Start, 0)
	r.effect(seconds+0.021, l)
	r.line(seconds+0.03, l, history.Beat, 0)
}

func (r *recording) line(seconds float64, l history.Line, event string, exit int) {
	l.Event, l.Exit, l.WallNS, l.BootNS = event, exit, at(seconds).UnixNano(), int64(seconds*1e9)+1e12
	r.h.Lines = append(r.h.Lines, l)
}

// effect is sent, and answered by both ledgers.
func (r *recording) effect(seconds float64, l history.Line) {
	token, err := strconv.ParseInt(l.Token, 10, 64)
	if err != nil {
		panic(err)
	}
	highest := map[string]int64{}
	for _, e := range r.h.Effects {
		if e.Job == l.Job && e.Accepted {
			highest[e.Ledger] = max(highest[e.Ledger], e.Token)
		}
	}
	r.effects++
	accepted := true
	for _, ledger := range []string{history.Fenced, history.Plain} {
		e := history.Effect{Ledger: ledger, Accepted: true, BootNS: int64(seconds*1e9) + 1e12, Seq: r.effects, Job: l.Job, Firing: l.Firing, Attempt: l.Attempt, Token: token, Nonce: l.Nonce, Highest: highest[ledger]}
		if ledger == history.Fenced && token < highest[ledger] {
			e.Accepted, accepted = false, false
		}
		r.h.Effects = append(r.h.Effects, e)
	}
	r.line(seconds, l, map[bool]string{true: history.Done, false: history.Refused}[accepted], 0)
}

// end is the end of the command in flight, with its record.
func (r *recording) end(seconds float64, j *recordedJob, exit int) {
	r.effect(seconds-0.01, *j.running)
	r.line(seconds, *j.running, history.End, exit)
	verdict, reason := storedv1.Verdict_VERDICT_SUCCEEDED, storedv1.Reason_REASON_UNSPECIFIED
	if exit != 0 {
		verdict, reason = storedv1.Verdict_VERDICT_FAILED, storedv1.Reason_REASON_EXIT_CODE
	}
	r.write()
	r.remove(seconds, j.lock())
	r.record(seconds, j, verdict, reason, proto.Int32(int32(exit)))
	j.ended = j.records[j.state.Entries[0].Slot]
}

// lock is the key of the lock of what is in flight.
func (j *recordedJob) lock() string {
	return "locks/" + j.uid + "/" + j.running.Firing[len(j.uid):] + "/000"
}

func (r *recording) record(seconds float64, j *recordedJob, v storedv1.Verdict, why storedv1.Reason, exit *int32) *storedv1.Run {
	e := j.state.Entries[0]
	run := &storedv1.Run{Namespace: "default", Name: j.name, Firing: e.Firing, Generation: e.Generation}
	run.Attempts = append(slices.Clone(e.Past), &storedv1.Attempt{
		Number: e.Attempt, Token: e.Token, Member: e.Member, Granted: e.Granted, Finished: stamp(seconds), Verdict: v, Reason: why, ExitCode: exit,
	})
	r.put(seconds, fmt.Sprintf("runs/%s/%03d", j.uid, e.Slot), run, 0)
	j.records[e.Slot] = run
	return run
}

// fold counts what has ended, in a write that the caller makes.
func (r *recording) fold(j *recordedJob) {
	if j.ended == nil {
		return
	}
	last := j.ended.Attempts[len(j.ended.Attempts)-1]
	r.count(j, last.Verdict, last.Reason, 1)
	j.state.Entries, j.ended = nil, nil
}

// foldAlone counts what has ended, in a write of its own.
func (r *recording) foldAlone(at float64, j *recordedJob) {
	r.write()
	r.fold(j)
	r.putState(at, j)
}

// lockEnds is the lock's lease running out.
func (r *recording) lockEnds(at float64, j *recordedJob) {
	r.write()
	r.remove(at, j.lock())
}

// lose calls what is in flight lost; with a retry, a further attempt is owed.
func (r *recording) lose(at float64, j *recordedJob, retry bool) {
	r.write()
	e := j.state.Entries[0]
	run := r.record(at, j, storedv1.Verdict_VERDICT_LOST, storedv1.Reason_REASON_MEMBER_LOST, nil)
	j.state.Entries = nil
	if retry {
		j.state.Retries = []*storedv1.PendingRetry{{Firing: e.Firing, Attempt: e.Attempt + 1, Slot: e.Slot, Past: run.Attempts, Generation: e.Generation, Due: e.Due}}
	} else {
		r.count(j, storedv1.Verdict_VERDICT_LOST, storedv1.Reason_REASON_MEMBER_LOST, 1)
	}
	r.putState(at, j)
}

// taken is the whole history: what the cluster shows at the end comes from what lies in etcd.
func (r *recording) taken(at_ float64) history.History {
	h := r.h
	h.Taken = at(at_)
	h.Etcd.Seen, h.Etcd.Head = r.revision, r.revision
	for _, j := range r.jobs {
		if j.def.Deleted != nil {
			continue
		}
		shown := history.Job{Name: j.name, Namespace: "default", UID: j.uid, Created: j.def.Created.AsTime(), Cursor: j.state.Cursor.AsTime(), Paused: j.def.Paused}
		for _, c := range j.state.Counters {
			shown.Counters = append(shown.Counters, history.Counter{Verdict: verdict(c.Verdict), Reason: reason(c.Reason), Count: c.Count})
		}
		for _, g := range j.state.Ranges {
			shown.Ranges = append(shown.Ranges, history.Range{Verdict: verdict(g.Verdict), Reason: reason(g.Reason), First: g.First.AsTime(), Last: g.Last.AsTime(), Count: g.Count})
		}
		h.Jobs = append(h.Jobs, shown)
		for _, slot := range j.slots() {
			h.Runs = append(h.Runs, j.shown(j.records[slot]))
		}
	}
	return h
}

func (j *recordedJob) slots() []int32 {
	var all []int32
	for slot := range j.records {
		all = append(all, slot)
	}
	slices.Sort(all)
	return all
}

func (j *recordedJob) shown(run *storedv1.Run) history.Run {
	last := run.Attempts[len(run.Attempts)-1]
	r := history.Run{Job: j.name, Namespace: "default", Firing: j.uid + "+" + run.Firing.Trigger, Attempt: int(last.Number), Verdict: verdict(last.Verdict),
		Reason: reason(last.Reason), Member: last.Member, Token: strconv.FormatInt(last.Token, 10), EndTime: last.Finished.AsTime(), Generation: run.Generation}
	if run.Firing.Trigger == "" {
		r.Instant = time.Unix(run.Firing.Scheduled, 0).UTC()
		r.Firing = j.uid + "@" + r.Instant.Format(time.RFC3339)
	}
	if last.ExitCode != nil {
		code := int(*last.ExitCode)
		r.ExitCode = &code
	}
	for _, a := range run.Attempts {
		r.Attempts = append(r.Attempts, history.Attempt{Number: int(a.Number), Token: strconv.FormatInt(a.Token, 10), Member: a.Member, Verdict: verdict(a.Verdict), Reason: reason(a.Reason)})
	}
	return r
}

func verdict(v storedv1.Verdict) string {
	return map[storedv1.Verdict]string{1: "SUCCEEDED", 2: "FAILED", 3: "TIMED_OUT", 4: "CANCELED", 5: "LOST", 6: "SKIPPED", 7: "MISSED"}[v]
}

func reason(r storedv1.Reason) string {
	return map[storedv1.Reason]string{1: "overlap", 2: "paused", 3: "edited", 4: "deleted", 6: "catch-up policy", 10: "exit code", 15: "member lost", 16: "never started"}[r]
}
