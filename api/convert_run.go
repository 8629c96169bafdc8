package api

import (
	"strings"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// RunToProto writes a run, its newest attempt spread out at the top.
func RunToProto(r scheduler.Run) *quorumcronv1.Run {
	last := r.Last()
	p := &quorumcronv1.Run{
		Job:           r.Job.Name,
		Namespace:     r.Job.Namespace,
		Firing:        r.Firing.String(),
		Instant:       timestamp(r.Firing.Instant()),
		Attempt:       int32(last.Number),
		Verdict:       string(last.Verdict),
		Reason:        string(last.Reason),
		Member:        last.Member,
		Token:         last.Token,
		StartTime:     timestamp(last.Started),
		EndTime:       timestamp(last.Finished),
		ExitCode:      last.ExitCode,
		Generation:    r.Generation,
		Message:       text(last.Message),
		Output:        text(string(r.Output)),
		OutputBytes:   r.OutputBytes,
		OutputDropped: r.OutputDropped,
		Shortened:     r.Shortened,
	}
	if last.Verdict == "" && last.Started.IsZero() {
		p.StartTime = timestamp(last.Granted)
	}
	for _, a := range r.Attempts {
		p.Attempts = append(p.Attempts, &quorumcronv1.Attempt{
			Number:    int32(a.Number),
			Token:     a.Token,
			Member:    a.Member,
			Granted:   timestamp(a.Granted),
			StartTime: timestamp(a.Started),
			EndTime:   timestamp(a.Finished),
			Verdict:   string(a.Verdict),
			Reason:    string(a.Reason),
			Message:   text(a.Message),
			ExitCode:  a.ExitCode,
		})
	}
	return p
}

// text makes a proto string of what a program wrote: a tail may begin in the middle of a character, and
// protobuf refuses to send a string that is not UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
