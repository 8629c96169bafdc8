package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorumcron/quorumcron/api"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newJobTrigger(c *console) *cobra.Command {
	o := &jobOptions{}
	var requestID string
	cmd := o.command(c, "trigger", "Ask for one firing now, outside the schedule", func(ctx context.Context, client *client) error {
		if requestID == "" { // made here, so that it is known though no answer comes
			requestID = c.newID()
		}
		answer, err := call(ctx, client, client.jobs.Trigger,
			&quorumcronv1.JobServiceTriggerRequest{Namespace: o.namespace, Name: o.name, RequestId: requestID})
		if err != nil {
			return o.howToRepeat(err, requestID)
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
	cmd.Long = "Ask for one firing now, outside the schedule and its calendars. It is SKIPPED(overlap) while an attempt of the\n" +
		"job is in flight; a paused job refuses it. If it is not known whether it was stored, the same --request-id\n" +
		"again finds out, and fires nothing twice."
	cmd.Flags().StringVar(&requestID, "request-id", "", "makes a repeat of this call safe for 24 hours (default: one is made)")
	return cmd
}

// howToRepeat adds to an unknown outcome the id under which the same request is safe to repeat.
func (o *jobOptions) howToRepeat(err error, requestID string) error {
	if code := status.Code(err); code != codes.Unknown && code != codes.DeadlineExceeded || unsent(err) {
		return err // Unavailable is an answer: nothing was written. That nobody answered has no code.
	}
	again := "quorumcron job trigger " + o.name + " --request-id " + requestID
	if o.namespace != api.DefaultNamespace {
		again += " --namespace " + o.namespace
	}
	return failedWith(exitCode(err), fmt.Errorf("%s\nfind out, or repeat it safely, with: %s", explain(err), again))
}
