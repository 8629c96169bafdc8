package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newJobTrigger(c *console) *cobra.Command {
	o := &jobOptions{}
	var requestID string
	cmd := o.command(c, "trigger", "Ask for one firing now, outside the schedule", func(ctx context.Context, client *client) error {
		answer, err := call(ctx, client, client.jobs.Trigger,
			&quorumcronv1.JobServiceTriggerRequest{Namespace: o.namespace, Name: o.name, RequestId: requestID})
		if err != nil {
			return howToRepeat(err, o.name, requestID)
		}
		c.warn(answer.GetWarnings())
		return c.print(o.output, answer, func(w io.Writer) {
			text := "triggered " + o.title() + ": " + answer.GetFiring()
			if answer.GetRepeatedRequest() {
				text = fmt.Sprintf("request %s had been served before: %s", answer.GetRequestId(), answer.GetFiring())
			}
			row(w, text)
		})
	})
	cmd.Flags().StringVar(&requestID, "request-id", "", "makes a repeat of this call safe for 24 hours (default: one is made)")
	return cmd
}

// howToRepeat adds to an unknown outcome the id under which the same request is safe to repeat.
func howToRepeat(err error, name, requestID string) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.Unknown {
		return err
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RequestInfo); ok && requestID == "" {
			requestID = info.GetRequestId()
		}
	}
	if requestID == "" {
		return err
	}
	return failedWith(exitCode(err), fmt.Errorf("%s\nfind out, or repeat it safely, with: quorumcron job trigger %s --request-id %s", s.Message(), name, requestID))
}
