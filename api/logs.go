package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/metadata"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// ForwardedHeader marks a call that another member passed on. Such a call is answered from this member's
// files or not at all, so that a wrong address can cost one hop and never a loop.
const ForwardedHeader = "quorumcron-forwarded"

// chunk is the most output sent in one message.
const chunk = 32 << 10

func (s *runService) Logs(
	r *quorumcronv1.RunServiceLogsRequest, stream quorumcronv1.RunService_LogsServer,
) error {
	ctx := stream.Context()
	firing, errs := firingOf(r.GetFiring())
	if r.GetAttempt() < 0 {
		errs = append(errs, scheduler.FieldError{
			Field: "attempt", Value: fmt.Sprint(r.GetAttempt()), Problem: "is negative", Remedy: "0 means the newest",
		})
	}
	if err := invalid(errs); err != nil {
		return err
	}
	if forwarded(ctx) && r.GetAttempt() > 0 {
		return s.sendOutput(ctx, firing, int(r.GetAttempt()), stream.Send)
	}
	run, err := s.cfg.Runs.RunByFiring(ctx, firing)
	if err != nil {
		return fmt.Errorf("logs of run %s: %w", firing, err)
	}
	attempt, err := attemptOf(run, int(r.GetAttempt()))
	if err != nil {
		return err
	}
	if attempt.Number == 0 {
		return stream.Send(&quorumcronv1.RunServiceLogsResponse{
			Note: fmt.Sprintf("it was not run, so there is no output: %s", attempt.Outcome()),
		})
	}
	if attempt.Member == s.cfg.Member || forwarded(ctx) {
		err = s.sendOutput(ctx, firing, attempt.Number, stream.Send)
		if forwarded(ctx) || !errors.Is(err, scheduler.ErrNotFound) {
			return err
		}
		return s.sendTail(run, attempt, "member "+attempt.Member+" has no output file of it", stream.Send)
	}
	return s.fetchOutput(ctx, run, attempt, stream.Send)
}

func forwarded(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, ForwardedHeader)) > 0
}

// attemptOf finds the line of an attempt; 0 means the newest.
func attemptOf(run scheduler.Run, number int) (scheduler.Attempt, error) {
	if number == 0 && len(run.Attempts) > 0 {
		return run.Last(), nil
	}
	for _, a := range run.Attempts {
		if a.Number == number {
			return a, nil
		}
	}
	return scheduler.Attempt{}, fmt.Errorf("logs of run %s: attempt %d: %w; it has had %d",
		run.Firing, number, scheduler.ErrNotFound, len(run.Attempts))
}

type sender func(*quorumcronv1.RunServiceLogsResponse) error

// sendOutput sends the file that this member has.
func (s *runService) sendOutput(ctx context.Context, f scheduler.Firing, attempt int, send sender) error {
	output, err := s.cfg.Runs.Output(ctx, f, attempt)
	if err != nil {
		return fmt.Errorf("output of run %s, attempt %d: %w", f, attempt, err)
	}
	defer output.Close()
	buffer := make([]byte, chunk)
	for {
		n, err := output.Read(buffer)
		if n > 0 {
			if sendErr := send(&quorumcronv1.RunServiceLogsResponse{Chunk: buffer[:n]}); sendErr != nil {
				return sendErr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read output of run %s, attempt %d: %w", f, attempt, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// fetchOutput passes the call on to the member that ran the attempt, and falls back on the recorded tail
// as long as nothing was sent. A stream that breaks later is an error: its bytes cannot be taken back.
func (s *runService) fetchOutput(ctx context.Context, run scheduler.Run, a scheduler.Attempt, send sender) error {
	address, problem := s.addressOf(ctx, a.Member)
	if problem != "" {
		return s.sendTail(run, a, problem, send)
	}
	sent := false
	err := s.cfg.Forwarder.Logs(ctx, address, &quorumcronv1.RunServiceLogsRequest{
		Firing: run.Firing.String(), Attempt: int32(a.Number),
	}, func(r *quorumcronv1.RunServiceLogsResponse) error {
		sent = true
		return send(r)
	})
	switch {
	case err == nil:
		return nil
	case sent || ctx.Err() != nil:
		return fmt.Errorf("logs of run %s from member %s: %w", run.Firing, a.Member, err)
	case errors.Is(err, scheduler.ErrNotFound):
		return s.sendTail(run, a, "member "+a.Member+" has no output file of it", send)
	}
	s.log.Debug("logs not forwarded", "member", a.Member, "err", err)
	return s.sendTail(run, a, "member "+a.Member+" does not answer", send)
}

// addressOf finds where a member's API is reached, or says why it cannot be.
func (s *runService) addressOf(ctx context.Context, name string) (address, problem string) {
	if s.cfg.Forwarder == nil {
		return "", "member " + s.cfg.Member + " fetches nothing from other members"
	}
	members, err := s.cfg.Cluster.Members(ctx)
	if err != nil {
		return "", "the members are not known: " + err.Error()
	}
	for _, m := range members {
		if m.Member.Name != name {
			continue
		}
		if m.Member.GRPCAddress == "" {
			return "", "member " + name + " has no address"
		}
		return m.Member.GRPCAddress, ""
	}
	return "", "member " + name + " is gone"
}

// sendTail sends what the record holds, after a note that says why it is not the whole.
func (s *runService) sendTail(run scheduler.Run, a scheduler.Attempt, problem string, send sender) error {
	if a.Number != run.Last().Number {
		return fmt.Errorf("output of run %s, attempt %d: %w: %s, and only the newest attempt's tail is recorded",
			run.Firing, a.Number, scheduler.ErrNotFound, problem)
	}
	note := fmt.Sprintf("%s: this is the recorded tail, %d of %d bytes", problem, len(run.Output), run.OutputBytes)
	switch {
	case a.Verdict == "":
		note = problem + ", and nothing is recorded while it runs"
	case len(run.Output) > 0 || run.OutputBytes > 0 || run.Shortened:
	case a.Started.IsZero() && a.Verdict != scheduler.Lost:
		note = "it did not start, so there is no output: " + a.Outcome()
	case a.Verdict == scheduler.Lost:
		note = problem + ", and nothing was recorded, for it was lost"
	default:
		note = "it wrote no output" // there is no file of nothing
	}
	if err := send(&quorumcronv1.RunServiceLogsResponse{Note: note}); err != nil {
		return err
	}
	if len(run.Output) == 0 {
		return nil
	}
	return send(&quorumcronv1.RunServiceLogsResponse{Chunk: run.Output})
}
