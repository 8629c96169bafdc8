package api

import (
	"context"
	"fmt"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// runService serves quorumcron.v1.RunService.
type runService struct {
	quorumcronv1.UnimplementedRunServiceServer
	*Server
}

func (s *runService) Get(
	ctx context.Context, r *quorumcronv1.RunServiceGetRequest,
) (*quorumcronv1.RunServiceGetResponse, error) {
	firing, errs := firingOf(r.GetFiring())
	if err := invalid(errs); err != nil {
		return nil, err
	}
	run, err := s.cfg.Runs.RunByFiring(ctx, firing)
	if err != nil {
		return nil, fmt.Errorf("get run %s: %w", firing, err)
	}
	return &quorumcronv1.RunServiceGetResponse{Run: RunToProto(run)}, nil
}

// runFilter reads the filter that List and Watch share. A job without a namespace is in the default one.
func runFilter(namespace, job string) (scheduler.JobName, []scheduler.FieldError) {
	if job != "" {
		return jobName(namespace, job)
	}
	ns, errs := namespaceOf(namespace)
	return scheduler.JobName{Namespace: ns}, errs
}

func (s *runService) List(
	ctx context.Context, r *quorumcronv1.RunServiceListRequest,
) (*quorumcronv1.RunServiceListResponse, error) {
	filter, nameErrs := runFilter(r.GetNamespace(), r.GetJob())
	size, sizeErrs := pageSize(r.GetPageSize())
	after, tokenErrs := runPlace(r.GetPageToken())
	if err := invalid(nameErrs, sizeErrs, tokenErrs); err != nil {
		return nil, err
	}
	runs, err := s.cfg.Runs.Runs(ctx, scheduler.RunQuery{
		Namespace: filter.Namespace, Job: filter.Name, After: after, Limit: size + 1,
	})
	if err != nil {
		return nil, err // it says what was asked for
	}
	var page []*quorumcronv1.Run
	for _, run := range runs {
		page = append(page, RunToProto(run))
	}
	response := &quorumcronv1.RunServiceListResponse{}
	var more bool
	if response.Runs, more = cut(page, size); more {
		response.NextPageToken = afterRun(runs[len(response.Runs)-1].Place())
	}
	return response, nil
}

func (s *runService) Watch(
	r *quorumcronv1.RunServiceWatchRequest, stream quorumcronv1.RunService_WatchServer,
) error {
	filter, errs := runFilter(r.GetNamespace(), r.GetJob())
	if err := invalid(errs); err != nil {
		return err
	}
	var missed int64 // also those before events that the filter hides
	err := s.cfg.Runs.WatchRuns(stream.Context(), func(e scheduler.RunEvent) error {
		missed += e.Missed
		if filter.Namespace != "" && filter.Namespace != e.Run.Job.Namespace ||
			filter.Name != "" && filter.Name != e.Run.Job.Name {
			return nil
		}
		event := &quorumcronv1.RunServiceWatchResponse{
			Event: quorumcronv1.RunEvent_RUN_EVENT_STARTED, Run: RunToProto(e.Run), Missed: missed,
		}
		if e.Finished {
			event.Event = quorumcronv1.RunEvent_RUN_EVENT_FINISHED
		}
		missed = 0
		return stream.Send(event)
	})
	if err != nil {
		return fmt.Errorf("watch runs: %w", err)
	}
	return nil
}

func (s *runService) Cancel(
	ctx context.Context, r *quorumcronv1.RunServiceCancelRequest,
) (*quorumcronv1.RunServiceCancelResponse, error) {
	firing, errs := firingOf(r.GetFiring())
	if err := invalid(errs); err != nil {
		return nil, err
	}
	member, err := s.cfg.Runs.Cancel(ctx, firing)
	if err != nil {
		return nil, err // it says what was to be ended
	}
	return &quorumcronv1.RunServiceCancelResponse{Member: member}, nil
}
