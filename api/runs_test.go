package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/peer"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

// someRun is a run of default/report on a member, at noon and i minutes.
func someRun(i int, member string, v scheduler.Verdict) scheduler.Run {
	at := noon.Add(time.Duration(i) * time.Minute)
	run := scheduler.Run{
		Job:    scheduler.JobName{Namespace: "default", Name: "report"},
		Firing: scheduler.At(testUID(1), at),
		Attempts: []scheduler.Attempt{{
			Number: 1, Token: int64(1000 + i), Member: member, Granted: at.Add(time.Duration(i) * time.Nanosecond), Started: at,
		}},
	}
	if v != "" {
		run.Attempts[0].Verdict, run.Attempts[0].Finished = v, at.Add(time.Second)
	}
	return run
}

func (c *cluster) addRun(r scheduler.Run) {
	c.node.set(func(n *fakeNode) { n.runs[r.Firing] = r })
}

func TestRunsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	for i := range 7 {
		c.addRun(someRun(i, "node-a", scheduler.Succeeded))
	}
	other := someRun(3, "node-a", "")
	other.Job.Name, other.Firing.UID = "other", testUID(2)
	c.addRun(other)

	read := func(r *quorumcronv1.RunServiceListRequest) (tokens []int64, pages int) {
		for {
			page, err := c.runs.List(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, run := range page.GetRuns() {
				tokens = append(tokens, run.GetToken())
			}
			if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
				return tokens, pages
			}
		}
	}
	for _, row := range []struct {
		request *quorumcronv1.RunServiceListRequest
		want    string
		pages   int
	}{
		{&quorumcronv1.RunServiceListRequest{PageSize: 3}, "[1006 1005 1004 1003 1003 1002 1001 1000]", 3},
		{&quorumcronv1.RunServiceListRequest{PageSize: 4}, "[1006 1005 1004 1003 1003 1002 1001 1000]", 2},
		{&quorumcronv1.RunServiceListRequest{Job: "report"}, "[1006 1005 1004 1003 1002 1001 1000]", 1},
		{&quorumcronv1.RunServiceListRequest{Job: "other", Namespace: "default"}, "[1003]", 1},
		{&quorumcronv1.RunServiceListRequest{Namespace: "elsewhere"}, "[]", 1},
	} {
		asked := row.request.String()
		if got, pages := read(row.request); fmt.Sprint(got) != row.want || pages != row.pages {
			t.Errorf("%s: got %v in %d pages, want %s in %d", asked, got, pages, row.want, row.pages)
		}
	}
	_, err := c.runs.List(t.Context(), &quorumcronv1.RunServiceListRequest{PageToken: "x", PageSize: -1, Job: "A"})
	if got := violations(t, err); len(got) != 3 {
		t.Errorf("got %v, want pageToken, pageSize and name refused", got)
	}
}

func TestGetAndCancelRun(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	ctx := t.Context()
	running, ended := someRun(1, "node-b", ""), someRun(0, "node-b", scheduler.Failed)
	c.addRun(running)
	c.addRun(ended)
	waiting := scheduler.Triggered(testUID(1), "req-1")
	c.node.set(func(n *fakeNode) { n.waiting[waiting] = true })

	got, err := c.runs.Get(ctx, &quorumcronv1.RunServiceGetRequest{Firing: running.Firing.String()})
	if err != nil || got.GetRun().GetVerdict() != "" || got.GetRun().GetFiring() != running.Firing.String() {
		t.Errorf("get: got %v, %v", got, err)
	}
	_, err = c.runs.Get(ctx, &quorumcronv1.RunServiceGetRequest{Firing: waiting.String()})
	wantCode(t, err, codes.NotFound)

	cancel := func(f scheduler.Firing) (*quorumcronv1.RunServiceCancelResponse, error) {
		return c.runs.Cancel(ctx, &quorumcronv1.RunServiceCancelRequest{Firing: f.String()})
	}
	if r, err := cancel(running.Firing); err != nil || r.GetMember() != "node-b" {
		t.Errorf("cancel of a running firing: got %v, %v, want node-b told", r, err)
	}
	if r, err := cancel(waiting); err != nil || r.GetMember() != "" {
		t.Errorf("cancel of a waiting firing: got %v, %v", r, err)
	}
	_, err = cancel(waiting)
	wantCode(t, err, codes.NotFound)
	_, err = cancel(ended.Firing)
	wantCode(t, err, codes.FailedPrecondition)

	for _, bad := range []string{
		"", "x", "x@2026-12-24T18:00:00Z", testUID(1) + "@noon", testUID(1) + "+a/b", testUID(1) + "+",
		strings.ToUpper(testUID(1)) + "+a", testUID(1) + "+" + strings.Repeat("a", 600), "../../../../../jobs/00/aa/b+x",
	} {
		_, err := c.runs.Get(ctx, &quorumcronv1.RunServiceGetRequest{Firing: bad})
		if got := violations(t, err); got["firing"] == "" {
			t.Errorf("get %q: got %v", bad, got)
		}
		_, err = c.runs.Cancel(ctx, &quorumcronv1.RunServiceCancelRequest{Firing: bad})
		if got := violations(t, err); got["firing"] == "" {
			t.Errorf("cancel %q: got %v", bad, got)
		}
	}
}

func TestWatchTellsOfThisMembersRuns(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := c.runs.Watch(ctx, &quorumcronv1.RunServiceWatchRequest{Job: "report"})
	if err != nil {
		t.Fatal(err)
	}
	<-c.node.watching
	hidden := someRun(0, "node-a", "")
	hidden.Job.Name = "other"
	c.node.happen(scheduler.RunEvent{Run: hidden, Missed: 3})
	c.node.happen(scheduler.RunEvent{Run: someRun(1, "node-a", ""), Missed: 1})
	c.node.happen(scheduler.RunEvent{Run: someRun(1, "node-a", scheduler.Failed), Finished: true})

	started, err := watch.Recv()
	if err != nil || started.GetEvent() != quorumcronv1.RunEvent_RUN_EVENT_STARTED ||
		started.GetRun().GetVerdict() != "" || started.GetMissed() != 4 {
		t.Errorf("first event: got %v, %v, want a start after 4 missed ones", started, err)
	}
	finished, err := watch.Recv()
	if err != nil || finished.GetEvent() != quorumcronv1.RunEvent_RUN_EVENT_FINISHED ||
		finished.GetRun().GetVerdict() != "FAILED" || finished.GetMissed() != 0 {
		t.Errorf("second event: got %v, %v, want the end", finished, err)
	}
	cancel()
	_, err = watch.Recv()
	wantCode(t, err, codes.Canceled)
	bad, err := c.runs.Watch(t.Context(), &quorumcronv1.RunServiceWatchRequest{Namespace: "A"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bad.Recv()
	if got := violations(t, err); got["namespace"] == "" {
		t.Errorf("watch of namespace A: got %v", got)
	}
}

// logs is what a reader of a Logs stream gets.
type logs struct {
	output []byte
	notes  []string
}

func readLogs(ctx context.Context, client quorumcronv1.RunServiceClient, r *quorumcronv1.RunServiceLogsRequest) (logs, error) {
	var all logs
	stream, err := client.Logs(ctx, r)
	if err != nil {
		return all, err
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all.output = append(all.output, piece.GetChunk()...)
		if piece.GetNote() != "" {
			all.notes = append(all.notes, piece.GetNote())
		}
	}
}

func TestLogsOfAnAttemptHere(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	run := someRun(0, "node-a", scheduler.Failed)
	run.Attempts = append(run.Attempts, scheduler.Attempt{Number: 2, Member: "node-a", Verdict: scheduler.Succeeded})
	run.Output, run.OutputBytes = []byte("tail\n"), 700
	c.addRun(run)
	whole := bytes.Repeat([]byte("line\xff\n"), 20_000)
	c.node.set(func(n *fakeNode) { n.outputs[outputKey(run.Firing, 1)] = whole })
	read := func(attempt int32) (logs, error) {
		return readLogs(t.Context(), c.runs, &quorumcronv1.RunServiceLogsRequest{Firing: run.Firing.String(), Attempt: attempt})
	}
	if got, err := read(1); err != nil || !bytes.Equal(got.output, whole) || len(got.notes) != 0 {
		t.Errorf("attempt 1: got %d bytes, notes %q, %v, want all %d bytes", len(got.output), got.notes, err, len(whole))
	}
	for _, newest := range []int32{0, 2} { // its file is gone
		got, err := read(newest)
		if err != nil || string(got.output) != "tail\n" || len(got.notes) != 1 || !strings.Contains(got.notes[0], "5 of 700 bytes") {
			t.Errorf("attempt %d: got %q, notes %q, %v, want the recorded tail", newest, got.output, got.notes, err)
		}
	}
	_, err := read(3)
	wantCode(t, err, codes.NotFound)
	_, err = read(-1)
	if got := violations(t, err); got["attempt"] == "" {
		t.Errorf("attempt -1: got %v", got)
	}
	c.node.set(func(n *fakeNode) { delete(n.outputs, outputKey(run.Firing, 1)) })
	_, err = read(1)
	wantCode(t, err, codes.NotFound)
}

// TestLogsOfWhatWasNotRunSaySo: a trigger that met a running attempt has no member that could be asked.
func TestLogsOfWhatWasNotRunSaySo(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	run := someRun(0, "", scheduler.Skipped)
	run.Attempts = []scheduler.Attempt{{Verdict: scheduler.Skipped, Reason: scheduler.ReasonOverlap}}
	c.addRun(run)
	got, err := readLogs(t.Context(), c.runs, &quorumcronv1.RunServiceLogsRequest{Firing: run.Firing.String()})
	if want := "it was not run, so there is no output: SKIPPED(overlap)"; err != nil || len(got.notes) != 1 || got.notes[0] != want {
		t.Errorf("got notes %q, %v, want %q", got.notes, err, want)
	}
}

// TestLogsOfNothingDoNotSoundLikeALoss: a program that wrote nothing has no file, and nothing is missing.
func TestLogsOfNothingDoNotSoundLikeALoss(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	started := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	for i, test := range []struct {
		attempt   scheduler.Attempt
		shortened bool
		want      string
	}{
		{attempt: scheduler.Attempt{Verdict: scheduler.Succeeded, Started: started}, want: "it wrote no output"},
		{attempt: scheduler.Attempt{Verdict: scheduler.Failed, Reason: scheduler.ReasonStartError}, want: "it did not start, so there is no output: FAILED(start error)"},
		{attempt: scheduler.Attempt{Verdict: scheduler.Lost, Reason: scheduler.ReasonMemberLost}, want: "member node-a has no output file of it, and nothing was recorded, for it was lost"},
		{attempt: scheduler.Attempt{Verdict: scheduler.Succeeded, Started: started}, shortened: true, want: "member node-a has no output file of it: this is the recorded tail, 0 of 0 bytes"},
	} {
		run := someRun(i, "node-a", test.attempt.Verdict)
		test.attempt.Number, test.attempt.Member = 1, "node-a"
		run.Attempts, run.Output, run.OutputBytes, run.Shortened = []scheduler.Attempt{test.attempt}, nil, 0, test.shortened
		c.addRun(run)
		got, err := readLogs(t.Context(), c.runs, &quorumcronv1.RunServiceLogsRequest{Firing: run.Firing.String()})
		if err != nil || len(got.output) != 0 || len(got.notes) != 1 || got.notes[0] != test.want {
			t.Errorf("%s: got notes %q, %v, want %q", test.attempt.Outcome(), got.notes, err, test.want)
		}
	}
}

// startPair is two members of one cluster: a, whose calls are made, can ask b, at the address that its
// record has.
func startPair(t *testing.T) (a, b *cluster) {
	t.Helper()
	b = startServer(t, "node-b", func(c *api.Config) { c.Forwarder = &peer.Client{} })
	a = startServer(t, "node-a", func(c *api.Config) { c.Forwarder = &peer.Client{Options: []grpc.DialOption{b.dial}} })
	members := []scheduler.MemberView{
		{Member: scheduler.Member{Name: "node-a", GRPCAddress: "passthrough:///a"}},
		{Member: scheduler.Member{Name: "node-b", GRPCAddress: "passthrough:///b"}},
		{Member: scheduler.Member{Name: "node-c"}},
	}
	for _, n := range []*fakeNode{a.node, b.node} {
		n.set(func(n *fakeNode) { n.members = members })
	}
	return a, b
}

func TestLogsAreFetchedFromTheirMember(t *testing.T) {
	t.Parallel()
	a, b := startPair(t)
	run := someRun(0, "node-b", scheduler.Succeeded)
	run.Output, run.OutputBytes = []byte("tail\n"), 700
	a.addRun(run)
	whole := bytes.Repeat([]byte("line\n"), 20_000)
	b.node.set(func(n *fakeNode) { n.outputs[outputKey(run.Firing, 1)] = whole })
	ask := &quorumcronv1.RunServiceLogsRequest{Firing: run.Firing.String()}
	got, err := readLogs(t.Context(), a.runs, ask)
	if err != nil || !bytes.Equal(got.output, whole) || len(got.notes) != 0 {
		t.Errorf("got %d bytes, notes %q, %v, want all %d bytes of node-b", len(got.output), got.notes, err, len(whole))
	}

	wantTail := func(why, note string) {
		t.Helper()
		got, err := readLogs(t.Context(), a.runs, ask)
		if err != nil || string(got.output) != "tail\n" || len(got.notes) != 1 || !strings.Contains(got.notes[0], note) {
			t.Errorf("%s: got %q, notes %q, %v, want the tail and a note with %q", why, got.output, got.notes, err, note)
		}
	}
	b.node.set(func(n *fakeNode) { clear(n.outputs) })
	wantTail("its file is gone", "node-b has no output file")
	b.stop()
	wantTail("it does not answer", "node-b does not answer")
	a.node.set(func(n *fakeNode) { n.members = n.members[:1] })
	wantTail("it is no member", "node-b is gone")

	running := someRun(1, "node-b", "")
	a.addRun(running)
	ask.Firing = running.Firing.String()
	got, err = readLogs(t.Context(), a.runs, ask)
	if err != nil || len(got.output) != 0 || len(got.notes) != 1 || !strings.Contains(got.notes[0], "nothing is recorded while it runs") {
		t.Errorf("a running attempt of a gone member: got %q, notes %q, %v", got.output, got.notes, err)
	}
	run.Attempts[0].Member = "node-c"
	a.addRun(run)
	ask.Firing = run.Firing.String()
	a.node.set(func(n *fakeNode) { n.members = []scheduler.MemberView{{Member: scheduler.Member{Name: "node-c"}}} })
	wantTail("it has no address", "node-c has no address")
}

func TestForwardedLogsAreNotForwardedAgain(t *testing.T) {
	t.Parallel()
	a, b := startPair(t)
	// Both members believe that the attempt ran on a third one, whose address is wrong and leads to b.
	run := someRun(0, "node-c", scheduler.Succeeded)
	run.Output = []byte("tail")
	a.addRun(run)
	b.addRun(run)
	for _, n := range []*fakeNode{a.node, b.node} {
		n.set(func(n *fakeNode) {
			n.members = []scheduler.MemberView{{Member: scheduler.Member{Name: "node-c", GRPCAddress: "passthrough:///b"}}}
		})
	}
	got, err := readLogs(t.Context(), a.runs, &quorumcronv1.RunServiceLogsRequest{Firing: run.Firing.String()})
	if err != nil || string(got.output) != "tail" || len(got.notes) != 1 || !strings.Contains(got.notes[0], "node-c has no output file") {
		t.Errorf("got %q, notes %q, %v, want the tail from node-a's own record", got.output, got.notes, err)
	}
}

func TestWithoutForwarderTheTailShows(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	run := someRun(0, "node-b", scheduler.Succeeded)
	run.Output = []byte("tail")
	c.addRun(run)
	got, err := readLogs(t.Context(), c.runs, &quorumcronv1.RunServiceLogsRequest{Firing: run.Firing.String()})
	if err != nil || string(got.output) != "tail" || len(got.notes) != 1 {
		t.Errorf("got %q, notes %q, %v", got.output, got.notes, err)
	}
}
