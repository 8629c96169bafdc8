package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// jobService serves quorumcron.v1.JobService.
type jobService struct {
	quorumcronv1.UnimplementedJobServiceServer
	*Server
}

func (s *jobService) Apply(
	ctx context.Context, r *quorumcronv1.JobServiceApplyRequest,
) (*quorumcronv1.JobServiceApplyResponse, error) {
	job, err := definition(r)
	if err != nil {
		return nil, err
	}
	edit, err := s.cfg.Jobs.Apply(ctx, job, r.GetExpectedRevision())
	if err != nil {
		return nil, fmt.Errorf("apply job %s: %w", job.Name, err)
	}
	return &quorumcronv1.JobServiceApplyResponse{
		Job: s.stored(edit), Change: string(edit.Change), Warnings: edit.Warnings,
	}, nil
}

// definition reads the job of an apply. When part of it has no translation, the rest is validated here, so
// that its author sees every error at once; else the member validates it all.
func definition(r *quorumcronv1.JobServiceApplyRequest) (scheduler.Job, error) {
	if r.GetJob() == nil {
		return scheduler.Job{}, invalid([]scheduler.FieldError{{Field: "job", Problem: "is missing"}})
	}
	if size := proto.Size(r.GetJob()); size > maxJob {
		return scheduler.Job{}, invalid([]scheduler.FieldError{{
			Field: "job", Problem: fmt.Sprintf("has %d bytes, and may have %d", size, maxJob),
			Remedy: "keep what is large in a file, and name it",
		}})
	}
	job, unread := JobFromProto(r.GetJob())
	errs := badRevision(r.GetExpectedRevision())
	if len(unread)+len(errs) == 0 {
		return job, nil
	}
	return scheduler.Job{}, invalid(errs, CheckJob(r.GetJob()))
}

// CheckJob says everything that is wrong with a job by itself, as an apply would: what cannot be read, and
// what may not be stored.
func CheckJob(p *quorumcronv1.Job) []scheduler.FieldError {
	job, unread := JobFromProto(p)
	return append(unread, consequencesLeftOut(job.WithDefaults().Validate(), unread)...)
}

// consequencesLeftOut drops the errors that come from fields which could not be read: errors of those very
// fields, and of what holds them ("schedule: never due", since schedule.every could not be read).
func consequencesLeftOut(found, unread []scheduler.FieldError) []scheduler.FieldError {
	var kept []scheduler.FieldError
	for _, f := range found {
		consequence := false
		for _, u := range unread {
			consequence = consequence || u.Field == f.Field || strings.HasPrefix(u.Field, f.Field+".") ||
				strings.HasPrefix(u.Field, f.Field+"[")
		}
		if !consequence {
			kept = append(kept, f)
		}
	}
	return kept
}

func badRevision(revision int64) []scheduler.FieldError {
	if revision >= 0 {
		return nil
	}
	return []scheduler.FieldError{{
		Field: "expectedRevision", Value: fmt.Sprint(revision), Problem: "is negative", Remedy: "0 means any",
	}}
}

// stored shows a job as an edit left it.
func (s *jobService) stored(e scheduler.Edit) *quorumcronv1.Job {
	v := scheduler.JobView{Job: e.Job}
	if !e.Next.IsZero() {
		v.Next = []time.Time{e.Next}
	}
	return JobToProto(v)
}

func (s *jobService) Get(
	ctx context.Context, r *quorumcronv1.JobServiceGetRequest,
) (*quorumcronv1.JobServiceGetResponse, error) {
	name, errs := jobName(r.GetNamespace(), r.GetName())
	if err := invalid(errs); err != nil {
		return nil, err
	}
	view, err := s.cfg.Jobs.Job(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("get job %s: %w", name, err)
	}
	return &quorumcronv1.JobServiceGetResponse{Job: JobToProto(view)}, nil
}

func (s *jobService) List(
	ctx context.Context, r *quorumcronv1.JobServiceListRequest,
) (*quorumcronv1.JobServiceListResponse, error) {
	namespace, nameErrs := namespaceOf(r.GetNamespace())
	size, sizeErrs := pageSize(r.GetPageSize())
	after, tokenErrs := jobPlace(r.GetPageToken(), namespace)
	if err := invalid(nameErrs, sizeErrs, tokenErrs); err != nil {
		return nil, err
	}
	views, err := s.cfg.Jobs.Jobs(ctx, scheduler.JobQuery{Namespace: namespace, After: after, Limit: size + 1})
	if err != nil {
		return nil, err // it says what was asked for
	}
	var page []*quorumcronv1.Job
	for _, v := range views {
		page = append(page, JobToProto(v))
	}
	response := &quorumcronv1.JobServiceListResponse{}
	var more bool
	if response.Jobs, more = cut(page, size); more {
		response.NextPageToken = afterJob(views[len(response.Jobs)-1].Job.Name)
	}
	return response, nil
}

func (s *jobService) Delete(
	ctx context.Context, r *quorumcronv1.JobServiceDeleteRequest,
) (*quorumcronv1.JobServiceDeleteResponse, error) {
	name, errs := jobName(r.GetNamespace(), r.GetName())
	if err := invalid(errs, badRevision(r.GetExpectedRevision())); err != nil {
		return nil, err
	}
	edit, err := s.cfg.Jobs.Delete(ctx, name, r.GetExpectedRevision())
	if err != nil {
		return nil, fmt.Errorf("delete job %s: %w", name, err)
	}
	return &quorumcronv1.JobServiceDeleteResponse{Running: int32(edit.Running)}, nil
}

func (s *jobService) Pause(
	ctx context.Context, r *quorumcronv1.JobServicePauseRequest,
) (*quorumcronv1.JobServicePauseResponse, error) {
	name, errs := jobName(r.GetNamespace(), r.GetName())
	if err := invalid(errs, badRevision(r.GetExpectedRevision())); err != nil {
		return nil, err
	}
	edit, err := s.cfg.Jobs.Pause(ctx, name, r.GetExpectedRevision())
	if err != nil {
		return nil, fmt.Errorf("pause job %s: %w", name, err)
	}
	return &quorumcronv1.JobServicePauseResponse{Job: s.stored(edit), Change: string(edit.Change)}, nil
}

func (s *jobService) Resume(
	ctx context.Context, r *quorumcronv1.JobServiceResumeRequest,
) (*quorumcronv1.JobServiceResumeResponse, error) {
	name, errs := jobName(r.GetNamespace(), r.GetName())
	if err := invalid(errs, badRevision(r.GetExpectedRevision())); err != nil {
		return nil, err
	}
	edit, err := s.cfg.Jobs.Resume(ctx, name, r.GetExpectedRevision())
	if err != nil {
		return nil, fmt.Errorf("resume job %s: %w", name, err)
	}
	return &quorumcronv1.JobServiceResumeResponse{
		Job: s.stored(edit), Change: string(edit.Change), Warnings: edit.Warnings,
	}, nil
}

func (s *jobService) Trigger(
	ctx context.Context, r *quorumcronv1.JobServiceTriggerRequest,
) (*quorumcronv1.JobServiceTriggerResponse, error) {
	name, errs := jobName(r.GetNamespace(), r.GetName())
	trigger := scheduler.TriggerRequest{Job: name, RequestID: r.GetRequestId()}
	if trigger.RequestID == "" {
		// Made here and not in the member, so that it is known even when nothing else is.
		trigger.RequestID = strings.ToLower(rand.Text())
	}
	if err := invalid(errs, trigger.Validate()); err != nil {
		return nil, err
	}
	receipt, err := s.cfg.Runs.Trigger(ctx, trigger)
	if err != nil {
		return nil, &requestError{err: err, requestID: trigger.RequestID}
	}
	return &quorumcronv1.JobServiceTriggerResponse{
		Firing:          receipt.Firing.String(),
		RequestId:       trigger.RequestID,
		RepeatedRequest: receipt.Repeated,
		Warnings:        receipt.Warnings,
	}, nil
}

// Instants that Next answers.
const (
	defaultNext = 5
	largestNext = 1000
)

func (s *jobService) Next(
	ctx context.Context, r *quorumcronv1.JobServiceNextRequest,
) (*quorumcronv1.JobServiceNextResponse, error) {
	name, errs := jobName(r.GetNamespace(), r.GetName())
	check := &reader{errs: errs}
	after := check.instant("after", r.GetAfter())
	count := int(r.GetCount())
	switch {
	case count == 0:
		count = defaultNext
	case count < 0 || count > largestNext:
		check.note("count", &scheduler.FieldError{Value: fmt.Sprint(count), Problem: "must be 1 to 1000"})
	}
	if err := invalid(check.errs); err != nil {
		return nil, err
	}
	instants, err := s.cfg.Jobs.Next(ctx, name, after, count)
	if err != nil {
		return nil, fmt.Errorf("next instants of job %s: %w", name, err)
	}
	return &quorumcronv1.JobServiceNextResponse{Instants: timestamps(instants)}, nil
}
