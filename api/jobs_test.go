package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/api"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// jobFile is the smallest job file.
func jobFile(name string) *quorumcronv1.Job {
	return &quorumcronv1.Job{
		Name:     name,
		Schedule: &quorumcronv1.Schedule{Every: "15m"},
		Run: &quorumcronv1.Executable{Kind: &quorumcronv1.Executable_Command{
			Command: &quorumcronv1.Command{Args: []string{"true"}},
		}},
	}
}

func applying(j *quorumcronv1.Job) *quorumcronv1.JobServiceApplyRequest {
	return &quorumcronv1.JobServiceApplyRequest{Job: j}
}

func mustApply(t *testing.T, c *cluster, j *quorumcronv1.Job) *quorumcronv1.JobServiceApplyResponse {
	t.Helper()
	r, err := c.jobs.Apply(t.Context(), applying(j))
	if err != nil {
		t.Fatalf("apply %v: %v", j, err)
	}
	return r
}

func TestApplySaysWhatItDid(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	first := mustApply(t, c, jobFile("report"))
	if first.GetChange() != "created" || first.GetJob().GetNamespace() != "default" ||
		first.GetJob().GetRevision() == 0 || first.GetJob().GetGeneration() != 1 {
		t.Errorf("first apply: got %v", first)
	}
	if len(first.GetWarnings()) != 1 || !strings.Contains(first.GetWarnings()[0], "no member") {
		t.Errorf("got warnings %q, want the one about the pool", first.GetWarnings())
	}
	if again := mustApply(t, c, first.GetJob()); again.GetChange() != "unchanged" {
		t.Errorf("applying the answer again: got %v, want unchanged", again)
	}
	edited := jobFile("report")
	edited.Schedule.Every = "10m"
	second := mustApply(t, c, edited)
	if second.GetChange() != "changed" || second.GetJob().GetGeneration() != 2 {
		t.Errorf("an edit: got %v", second)
	}

	stale := &quorumcronv1.JobServiceApplyRequest{Job: jobFile("report"), ExpectedRevision: first.GetJob().GetRevision()}
	_, err := c.jobs.Apply(t.Context(), stale)
	wantCode(t, err, codes.Aborted)
	if want := fmt.Sprint(second.GetJob().GetRevision()); !strings.Contains(err.Error(), want) {
		t.Errorf("the conflict does not name revision %s: %v", want, err)
	}
	stale.ExpectedRevision = second.GetJob().GetRevision()
	if _, err := c.jobs.Apply(t.Context(), stale); err != nil {
		t.Errorf("with the present revision: %v", err)
	}
}

// violations are the wrong fields of an error, with their descriptions.
func violations(t *testing.T, err error) map[string]string {
	t.Helper()
	wantCode(t, err, codes.InvalidArgument)
	fields := make(map[string]string)
	for _, v := range detail[*errdetails.BadRequest](t, err).GetFieldViolations() {
		fields[v.GetField()] += v.GetDescription()
	}
	return fields
}

func TestApplyAnswersEveryErrorAtOnce(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	_, err := c.jobs.Apply(t.Context(), &quorumcronv1.JobServiceApplyRequest{
		ExpectedRevision: -1,
		Job: &quorumcronv1.Job{
			Name: "report",
			Schedule: &quorumcronv1.Schedule{
				Every: "7d", Jitter: "soon", Exclude: []string{"Holidays"},
				At: []*timestamppb.Timestamp{timestamppb.New(noon), {Seconds: 1 << 60}}, Start: &timestamppb.Timestamp{Nanos: -1},
			},
			Policy: &quorumcronv1.Policy{
				Timeout: "10 m", StartDeadline: "x", CatchUp: &quorumcronv1.CatchUp{Window: "1 day"},
			},
		},
	})
	got := violations(t, err)
	for field, part := range map[string]string{
		"schedule.every":        `"168h"`,
		"schedule.jitter":       `"soon" is not a duration`,
		"schedule.exclude[0]":   `"Holidays" is not a name`,
		"schedule.at[1]":        "years 1 and 9999",
		"schedule.start":        "RFC 3339",
		"policy.timeout":        `"10 m"`,
		"policy.startDeadline":  `"x"`,
		"policy.catchUp.window": `"1 day"`,
		"expectedRevision":      `"-1" is negative`,
		"run":                   "", // found by the core, though the translation failed
	} {
		if description, found := got[field]; !found || !strings.Contains(description, part) {
			t.Errorf("%s: got %q, want it to say %q", field, description, part)
		}
	}
	if _, found := got["schedule"]; found {
		t.Errorf("a consequence of an unreadable field was reported too: %v", got)
	}
	if len(got) != 10 {
		t.Errorf("got %d wrong fields, want 10: %v", len(got), got)
	}

	_, err = c.jobs.Apply(t.Context(), &quorumcronv1.JobServiceApplyRequest{})
	if got := violations(t, err); len(got) != 1 || got["job"] != "is missing" {
		t.Errorf("without a job: got %v", got)
	}
}

func TestNamesAreCheckedBeforeTheyReachAKey(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	ctx := t.Context()
	for _, bad := range []string{"a/b", "", "A", "-a", "a-", "ä", strings.Repeat("a", 254), "a b"} {
		for what, call := range map[string]func() error{
			"get": func() error { _, err := c.jobs.Get(ctx, &quorumcronv1.JobServiceGetRequest{Name: bad}); return err },
			"delete": func() error {
				_, err := c.jobs.Delete(ctx, &quorumcronv1.JobServiceDeleteRequest{Name: bad})
				return err
			},
			"pause": func() error { _, err := c.jobs.Pause(ctx, &quorumcronv1.JobServicePauseRequest{Name: bad}); return err },
			"resume": func() error {
				_, err := c.jobs.Resume(ctx, &quorumcronv1.JobServiceResumeRequest{Name: bad})
				return err
			},
			"trigger": func() error {
				_, err := c.jobs.Trigger(ctx, &quorumcronv1.JobServiceTriggerRequest{Name: bad})
				return err
			},
			"next": func() error { _, err := c.jobs.Next(ctx, &quorumcronv1.JobServiceNextRequest{Name: bad}); return err },
		} {
			if got := violations(t, call()); got["name"] == "" || len(got) != 1 {
				t.Errorf("%s of %q: got %v, want name refused", what, bad, got)
			}
		}
		if bad == "" {
			continue
		}
		_, err := c.jobs.List(ctx, &quorumcronv1.JobServiceListRequest{Namespace: bad})
		if got := violations(t, err); got["namespace"] == "" {
			t.Errorf("list of namespace %q: got %v", bad, got)
		}
		_, err = c.jobs.Get(ctx, &quorumcronv1.JobServiceGetRequest{Namespace: bad, Name: bad})
		if got := violations(t, err); len(got) != 2 {
			t.Errorf("get of %q in %q: got %v, want both refused", bad, bad, got)
		}
	}
	for _, good := range []string{"a", "0", "a.b_c-d", strings.Repeat("a", 253)} {
		_, err := c.jobs.Get(ctx, &quorumcronv1.JobServiceGetRequest{Name: good})
		wantCode(t, err, codes.NotFound)
	}
}

func TestJobsAreListedOnceInOrder(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	var want []string
	for i := range 23 {
		j := jobFile(fmt.Sprintf("job-%02d", i))
		j.Namespace = []string{"alpha", "beta"}[i%2]
		mustApply(t, c, j)
		want = append(want, j.Namespace+"/"+j.Name)
	}
	slices.Sort(want)
	got, pages := listJobs(t, c, "", 5)
	if !slices.Equal(got, want) || pages != 5 {
		t.Errorf("got %d pages of %v, want 5 of %v", pages, got, want)
	}
	if got, pages := listJobs(t, c, "alpha", 6); len(got) != 12 || pages != 2 {
		t.Errorf("namespace alpha: got %d pages of %v, want 2 with 12 jobs", pages, got)
	}

	first, err := c.jobs.List(t.Context(), &quorumcronv1.JobServiceListRequest{PageSize: 5})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*quorumcronv1.JobServiceListRequest{
		"garbage":                 {PageToken: "garbage!"},
		"token of another list":   {PageToken: "cjEgMSAyIGY"},
		"token of another filter": {PageToken: first.GetNextPageToken(), Namespace: "beta"},
	} {
		_, err := c.jobs.List(t.Context(), r)
		if got := violations(t, err); got["pageToken"] == "" {
			t.Errorf("%s: got %v", name, got)
		}
	}
	_, err = c.jobs.List(t.Context(), &quorumcronv1.JobServiceListRequest{PageSize: -1})
	if got := violations(t, err); got["pageSize"] == "" {
		t.Errorf("negative page size: got %v", got)
	}
}

// listJobs reads every page.
func listJobs(t *testing.T, c *cluster, namespace string, size int32) (names []string, pages int) {
	t.Helper()
	r := &quorumcronv1.JobServiceListRequest{Namespace: namespace, PageSize: size}
	for {
		page, err := c.jobs.List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, j := range page.GetJobs() {
			names = append(names, j.GetNamespace()+"/"+j.GetName())
		}
		if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
			return names, pages
		}
	}
}

func TestJobsThatGoBetweenPagesHideNoOther(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	for i := range 4 {
		mustApply(t, c, jobFile(fmt.Sprintf("job-%d", i)))
	}
	r := &quorumcronv1.JobServiceListRequest{PageSize: 2}
	first, err := c.jobs.List(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range first.GetJobs() {
		if _, err := c.jobs.Delete(t.Context(), &quorumcronv1.JobServiceDeleteRequest{Name: j.GetName()}); err != nil {
			t.Fatal(err)
		}
	}
	r.PageToken = first.GetNextPageToken()
	second, err := c.jobs.List(t.Context(), r)
	if err != nil || len(second.GetJobs()) != 2 || second.GetJobs()[0].GetName() != "job-2" || second.GetNextPageToken() != "" {
		t.Errorf("second page: got %v, %v, want job-2 and job-3, and no third page", second, err)
	}
}

func TestPageFitsIntoAMessage(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	for i := range 100 {
		j := jobFile(fmt.Sprintf("job-%02d", i))
		j.Run = &quorumcronv1.Executable{Kind: &quorumcronv1.Executable_Handler{
			Handler: &quorumcronv1.HandlerCall{Name: "h", Payload: strings.Repeat("x", 64<<10)},
		}}
		mustApply(t, c, j)
	}
	if got, pages := listJobs(t, c, "", 1000); len(got) != 100 || pages != 3 {
		t.Errorf("got %d jobs in %d pages, want 100 in 3", len(got), pages)
	}
}

func TestPauseResumeDelete(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	ctx := t.Context()
	created := mustApply(t, c, jobFile("report")).GetJob()
	paused, err := c.jobs.Pause(ctx, &quorumcronv1.JobServicePauseRequest{Name: "report", ExpectedRevision: created.GetRevision()})
	if err != nil || paused.GetChange() != "changed" || !paused.GetJob().GetPaused() {
		t.Fatalf("pause: got %v, %v", paused, err)
	}
	_, err = c.jobs.Resume(ctx, &quorumcronv1.JobServiceResumeRequest{Name: "report", ExpectedRevision: created.GetRevision()})
	wantCode(t, err, codes.Aborted)
	resumed, err := c.jobs.Resume(ctx, &quorumcronv1.JobServiceResumeRequest{Name: "report"})
	if err != nil || resumed.GetChange() != "changed" || resumed.GetJob().GetPaused() {
		t.Fatalf("resume: got %v, %v", resumed, err)
	}
	again, err := c.jobs.Resume(ctx, &quorumcronv1.JobServiceResumeRequest{Name: "report"})
	if err != nil || again.GetChange() != "unchanged" {
		t.Fatalf("resume again: got %v, %v", again, err)
	}
	c.node.set(func(n *fakeNode) {
		name := scheduler.JobName{Namespace: "default", Name: "report"}
		v := n.jobs[name]
		v.Running = make([]scheduler.Run, 2)
		n.jobs[name] = v
	})
	_, err = c.jobs.Delete(ctx, &quorumcronv1.JobServiceDeleteRequest{Name: "report", ExpectedRevision: created.GetRevision()})
	wantCode(t, err, codes.Aborted)
	deleted, err := c.jobs.Delete(ctx, &quorumcronv1.JobServiceDeleteRequest{Name: "report"})
	if err != nil || deleted.GetRunning() != 2 {
		t.Fatalf("delete: got %v, %v, want 2 running", deleted, err)
	}
	_, err = c.jobs.Delete(ctx, &quorumcronv1.JobServiceDeleteRequest{Name: "report"})
	wantCode(t, err, codes.NotFound)
	_, err = c.jobs.Delete(ctx, &quorumcronv1.JobServiceDeleteRequest{Name: "report", ExpectedRevision: -4})
	if got := violations(t, err); got["expectedRevision"] == "" {
		t.Errorf("negative revision: got %v", got)
	}
}

func TestRepeatedTriggerIsAnsweredWithTheFirstFiring(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	mustApply(t, c, jobFile("report"))
	mustApply(t, c, jobFile("other"))
	trigger := func(name, id string) (*quorumcronv1.JobServiceTriggerResponse, error) {
		return c.jobs.Trigger(t.Context(), &quorumcronv1.JobServiceTriggerRequest{Name: name, RequestId: id})
	}
	first, err := trigger("report", "req-1")
	if err != nil || first.GetRepeatedRequest() || first.GetRequestId() != "req-1" {
		t.Fatalf("first: got %v, %v", first, err)
	}
	if _, err := scheduler.ParseFiring(first.GetFiring()); err != nil {
		t.Errorf("the firing is none: %v", err)
	}
	again, err := trigger("report", "req-1")
	if err != nil || !again.GetRepeatedRequest() || again.GetFiring() != first.GetFiring() {
		t.Errorf("repeat: got %v, %v, want firing %s", again, err, first.GetFiring())
	}
	_, err = trigger("other", "req-1")
	wantCode(t, err, codes.Aborted)

	one, err1 := trigger("report", "")
	two, err2 := trigger("report", "")
	if err1 != nil || err2 != nil || one.GetRequestId() == "" || one.GetRequestId() == two.GetRequestId() {
		t.Errorf("without an id: got %v, %v and %v, %v, want two ids", one, err1, two, err2)
	}
	for _, bad := range []string{"a/b", "a b", strings.Repeat("x", 129), "ä"} {
		_, err := trigger("report", bad)
		if got := violations(t, err); got["requestId"] == "" {
			t.Errorf("request id %q: got %v", bad, got)
		}
	}
}

func TestUnknownTriggerCarriesItsRequestID(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	mustApply(t, c, jobFile("report"))
	c.node.set(func(n *fakeNode) { n.trouble = scheduler.ErrUnknown })
	_, err := c.jobs.Trigger(t.Context(), &quorumcronv1.JobServiceTriggerRequest{Name: "report"})
	wantCode(t, err, codes.Unknown)
	id := detail[*errdetails.RequestInfo](t, err).GetRequestId()
	if id == "" || !strings.Contains(err.Error(), id) {
		t.Fatalf("the error does not say how to repeat the request: %v", err)
	}
	c.node.set(func(n *fakeNode) { n.trouble = nil })
	again, err := c.jobs.Trigger(t.Context(), &quorumcronv1.JobServiceTriggerRequest{Name: "report", RequestId: id})
	if err != nil || again.GetRequestId() != id {
		t.Errorf("repeating it: got %v, %v", again, err)
	}
}

// TestRefusalsSayOnceWhatWasAskedFor: the member names the request already, and a firing is a long name.
func TestRefusalsSayOnceWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	mustApply(t, c, jobFile("report"))
	trouble := fmt.Errorf("what was asked for: %w", scheduler.ErrConflict)
	c.node.set(func(n *fakeNode) { n.trouble = trouble })
	for name, call := range map[string]func() error{
		"trigger": func() error {
			_, err := c.jobs.Trigger(t.Context(), &quorumcronv1.JobServiceTriggerRequest{Name: "report"})
			return err
		},
		"cancel": func() error {
			_, err := c.runs.Cancel(t.Context(), &quorumcronv1.RunServiceCancelRequest{Firing: someRun(0, "node-a", "").Firing.String()})
			return err
		},
		"list jobs": func() error {
			_, err := c.jobs.List(t.Context(), &quorumcronv1.JobServiceListRequest{})
			return err
		},
		"list runs": func() error {
			_, err := c.runs.List(t.Context(), &quorumcronv1.RunServiceListRequest{})
			return err
		},
	} {
		if got := status.Convert(call()).Message(); got != trouble.Error() {
			t.Errorf("%s: got %q, want %q", name, got, trouble)
		}
	}
}

func TestNextInstants(t *testing.T) {
	t.Parallel()
	c := startServer(t, "node-a")
	mustApply(t, c, jobFile("report"))
	noon := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	next := func(r *quorumcronv1.JobServiceNextRequest) (*quorumcronv1.JobServiceNextResponse, error) {
		r.Name = "report"
		return c.jobs.Next(context.WithoutCancel(t.Context()), r)
	}
	r, err := next(&quorumcronv1.JobServiceNextRequest{After: timestamppb.New(noon), Count: 2})
	if err != nil || len(r.GetInstants()) != 2 || !r.GetInstants()[1].AsTime().Equal(noon.Add(30*time.Minute)) {
		t.Errorf("got %v, %v, want 12:15 and 12:30", r, err)
	}
	if r, err := next(&quorumcronv1.JobServiceNextRequest{}); err != nil || len(r.GetInstants()) != 5 {
		t.Errorf("by default: got %v, %v, want 5", r, err)
	}
	_, err = next(&quorumcronv1.JobServiceNextRequest{Count: 1001, After: &timestamppb.Timestamp{Nanos: -1}})
	if got := violations(t, err); got["count"] == "" || got["after"] == "" {
		t.Errorf("got %v, want count and after refused", got)
	}
}

func TestCheckJobSaysWhatAnApplyWould(t *testing.T) {
	t.Parallel()
	if errs := api.CheckJob(jobFile("report")); len(errs) > 0 {
		t.Errorf("a proper job: %v", errs)
	}
	never := jobFile("report")
	never.Schedule.End = timestamppb.New(time.Time{}) // it would be read as no end
	if errs := api.CheckJob(never); len(errs) != 1 || errs[0].Field != "schedule.end" {
		t.Errorf("an end in the first second of the year 1: got %v, want it refused", errs)
	}
	bad := jobFile("Report")
	bad.Schedule.Jitter = "soon"
	bad.Policy = &quorumcronv1.Policy{Overlap: "allow_all"}
	var got []string
	for _, e := range api.CheckJob(bad) {
		got = append(got, e.Field)
	}
	if want := []string{"schedule.jitter", "name", "policy.overlap"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
