package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

func newMember(c *console) *cobra.Command {
	return noun("member", "Show the nodes of the cluster", newMemberList(c))
}

type memberListOptions struct {
	serverOptions
	output format
}

func newMemberList(c *console) *cobra.Command {
	o := &memberListOptions{}
	cmd := &cobra.Command{
		Use: "list", Short: "List the live members", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), c) },
	}
	o.serverOptions.addFlags(cmd.Flags())
	addOutput(cmd, &o.output)
	return cmd
}

func (o *memberListOptions) run(ctx context.Context, c *console) error {
	client, err := o.connect()
	if err != nil {
		return err
	}
	defer client.close()
	answer, err := call(ctx, client, client.cluster.ListMembers, &quorumcronv1.ClusterServiceListMembersRequest{})
	if err != nil {
		return err
	}
	return c.print(o.output, answer, func(w io.Writer) { c.memberTable(w, answer.GetMembers()) })
}

func (c *console) memberTable(w io.Writer, members []*quorumcronv1.Member) {
	row(w, "MEMBER", c.paint(plain, "STATE"), "SHARDS", "CAPACITY", "GRPC", "HTTP", "VERSION", "LABELS")
	for _, m := range members {
		state, colour := "live", green
		if m.GetDraining() {
			state, colour = "draining", yellow
		}
		if m.GetDispatcher() {
			state += ", dispatcher"
		}
		row(w, m.GetName(), c.paint(colour, state), fmt.Sprint(m.GetShardsOwned()), fmt.Sprint(m.GetCapacity()),
			orDash(m.GetGrpcAddress()), orDash(m.GetHttpAddress()), orDash(m.GetVersion()), orDash(pairs(m.GetLabels())))
	}
}
