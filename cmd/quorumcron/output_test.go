package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// TestWordsOfTables reads what the samples of the golden files do not have: one of a kind, and none.
func TestWordsOfTables(t *testing.T) {
	t.Parallel()
	c := newTestConsole("")
	skipped := &quorumcronv1.Run{
		Job: "slow", Namespace: "default", Firing: "01abc+01trig", Verdict: "SKIPPED", Reason: "overlap",
		Attempts: []*quorumcronv1.Attempt{{Verdict: "SKIPPED", Reason: "overlap"}},
	}
	var shown strings.Builder
	c.runTable(&shown, skipped)
	var told strings.Builder
	c.runTable(&told, &quorumcronv1.Run{Firing: "01abc+01trig", Verdict: "FAILED", Reason: "error", Message: "first\tof\nmany \x1b[2K\u009b1A\n"})
	var going strings.Builder
	c.runTable(&going, &quorumcronv1.Run{Firing: "01abc+01trig", Attempts: []*quorumcronv1.Attempt{
		{Number: 1, Member: "a", Token: 7, Granted: timestamppb.New(c.now().Add(-time.Minute))},
	}})
	odd := runLine(&quorumcronv1.Executable{Kind: &quorumcronv1.Executable_Command{Command: &quorumcronv1.Command{
		Args: []string{"a\x1b[2K"}, Env: map[string]string{"B\u009b": ""}, User: "c\u009b",
	}}})
	var away strings.Builder
	c.statusTable(&away, &quorumcronv1.ClusterServiceStatusResponse{Members: make([]*quorumcronv1.Member, 1)})
	for name, tc := range map[string]struct{ got, want, never string }{
		"one attempt":         {policyLine(&quorumcronv1.Policy{Retry: &quorumcronv1.Retry{MaxAttempts: 1}}), "(1 attempt at most)", "attempts"},
		"three attempts":      {policyLine(&quorumcronv1.Policy{Retry: &quorumcronv1.Retry{MaxAttempts: 3}}), "(3 attempts at most)", ""},
		"one member of etcd":  {etcdLine(&quorumcronv1.Etcd{Version: "3.6.0", Members: 1}), "3.6.0, 1 member, revision", "members"},
		"one member":          {away.String(), "1 member, 0 of", "1 members"},
		"nobody counted":      {away.String(), "unaccounted not known", "0 unaccounted"},
		"nothing was run":     {shown.String(), "Attempts:\tnone: it was not run", "token 0"},
		"what others wrote":   {told.String(), "Message:\tfirst of\n\tmany ·[2K·1A\n", "\x1b"},
		"an odd command":      {odd, "command \"a\\x1b[2K\", as c·, with B·", "\x1b"},
		"an odd label":        {pairs(map[string]string{"a": "b\u009b\u202e"}), "a=b··", "\u202e"},
		"a run that goes on":  {going.String(), "1 running on a, token 7, granted 2", "started"},
		"how long it goes on": {going.String(), "Z, 1m ago", ""},
		"nothing was granted": {shown.String(), "Job:\tdefault/slow\n", "generation 0"},
	} {
		if !strings.Contains(tc.got, tc.want) || tc.never != "" && strings.Contains(tc.got, tc.never) {
			t.Errorf("%s: got\n%s\nwant it to contain %q, and not %q", name, tc.got, tc.want, tc.never)
		}
	}
}

// TestLogsShowDurationsAsPeopleWriteThem, to a terminal and to a file.
func TestLogsShowDurationsAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		var b strings.Builder
		newLogger(&b, terminal, slog.LevelInfo).Info("draining", "limit", 30*time.Second)
		if !strings.Contains(b.String(), "30s") {
			t.Errorf("terminal %v: got %q, want the limit as 30s", terminal, b.String())
		}
	}
}
