package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func newCluster(c *console) *cobra.Command {
	return noun("cluster", "Show how the cluster is", newClusterStatus(c))
}

type clusterStatusOptions struct {
	serverOptions
	output format
}

func newClusterStatus(c *console) *cobra.Command {
	o := &clusterStatusOptions{}
	cmd := &cobra.Command{
		Use: "status", Short: "Show the cluster as one node sees it", Args: exactly(),
		Long: "Show the cluster as one node sees it. It succeeds if that node answers, ready or not.",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), c) },
	}
	o.serverOptions.addFlags(cmd.Flags())
	addOutput(cmd, &o.output)
	return cmd
}

func (o *clusterStatusOptions) run(ctx context.Context, c *console) error {
	client, err := o.connect()
	if err != nil {
		return err
	}
	defer client.close()
	answer, err := call(ctx, client, client.cluster.Status, &quorumcronv1.ClusterServiceStatusRequest{})
	if err != nil {
		return err
	}
	if err := c.print(o.output, answer, func(w io.Writer) { c.statusTable(w, answer) }); err != nil || o.output != formatTable {
		return err
	}
	if _, err := fmt.Fprintln(c.out); err != nil {
		return err
	}
	return c.printTable(func(w io.Writer) { c.memberTable(w, answer.GetMembers()) })
}

// statusTable begins with the state of the cluster in one sentence.
func (c *console) statusTable(w io.Writer, s *quorumcronv1.ClusterServiceStatusResponse) {
	unaccounted := fmt.Sprintf("%d unaccounted", s.GetUnaccounted())
	if s.GetEtcd() == nil { // A zero that nobody has counted would read as good news.
		unaccounted = "unaccounted not known"
	}
	row(w, "Cluster:", fmt.Sprintf("%s, %d of %d shards owned, %s", counted(int64(len(s.GetMembers())), "member"),
		s.GetShardsOwned(), scheduler.ShardCount, unaccounted))
	dispatcher := s.GetDispatcher()
	if dispatcher == "" {
		dispatcher = "none yet"
	}
	row(w, "Dispatcher:", dispatcher)
	state := "ready"
	if !s.GetReady() {
		state = "NOT READY: " + strings.Join(s.GetReasons(), "; ")
	}
	row(w, "Asked:", fmt.Sprintf("%s %s, %s", s.GetMember(), s.GetVersion(), state))
	if e := s.GetEtcd(); e != nil {
		row(w, "Etcd:", etcdLine(e))
		row(w, "Space:", spaceLine(e))
	} else {
		row(w, "Etcd:", "AWAY")
	}
	row(w, "Id:", fmt.Sprintf("%s, stored format %d", orDash(s.GetClusterId()), s.GetFormat()))
	for i, q := range s.GetQuarantined() {
		row(w, first(i, "Unreadable:"), onOneLine(q.GetKey()+": "+q.GetProblem()))
	}
	for i, warning := range s.GetWarnings() {
		row(w, first(i, "Warnings:"), warning)
	}
}

func etcdLine(e *quorumcronv1.Etcd) string {
	line := fmt.Sprintf("%s, %s, revision %d", e.GetVersion(), counted(int64(e.GetMembers()), "member"), e.GetRevision())
	if e.GetCompactRevision() > 0 {
		line += fmt.Sprintf(", compacted to %d", e.GetCompactRevision())
	}
	if len(e.GetAlarms()) > 0 {
		line += ", ALARM " + strings.Join(e.GetAlarms(), ", ")
	}
	return line
}

// spaceLine is how full etcd is, and what follows from it.
func spaceLine(e *quorumcronv1.Etcd) string {
	line := size(e.GetDbSizeBytes())
	if e.GetDbQuotaBytes() > 0 {
		line += fmt.Sprintf(" of %s (%d %%)", size(e.GetDbQuotaBytes()), e.GetDbQuotaSharePercent())
	}
	line += ", " + size(e.GetDbInUseBytes()) + " in use"
	switch scheduler.SpaceLevel(e.GetSpace()) {
	case scheduler.SpaceTight:
		line += ", TIGHT: records in short form"
	case scheduler.SpaceFull:
		line += ", FULL: no new jobs and triggers, records in short form"
	}
	return line
}

// size is a number of bytes as a person reads it.
func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	default:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
}
