package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, c *console) int {
	root := newRoot(c)
	root.SetArgs(append([]string{}, args...)) // Of nil cobra would make the process's own arguments.
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	return c.report(root.ExecuteContext(ctx))
}

// newRoot builds the tree of commands.
func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "quorumcron",
		Short: "Cron for a fleet: every firing once, whichever node dies",
		Long: "Cron for a fleet: every firing once, whichever node dies.\n\n" +
			"Try it on this machine:   quorumcron dev\n" +
			"Run a node of a cluster:  quorumcron start --name node-a --data-dir /var/lib/quorumcron --etcd-endpoints …\n" +
			"Then:                     quorumcron job apply -f jobs/ · job list · run list · cluster status\n\n" +
			exitHelp(),
		SilenceErrors:     true, // report prints them, once
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return applyEnvironment(cmd, c) },
		RunE:              needCommand,
		Args:              cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run it:"}, &cobra.Group{ID: "use", Title: "Use it:"})
	root.SetHelpCommandGroupID("use")
	root.SetCompletionCommandGroupID("use")
	for _, cmd := range []*cobra.Command{newDev(c), newStart(c)} {
		cmd.GroupID = "run"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{newJob(c), newCalendar(c), newRun(c), newMember(c), newCluster(c), newSchedule(c), newVersion(c)} {
		cmd.GroupID = "use"
		root.AddCommand(cmd)
	}
	return root
}

// noun makes a command that only holds others.
func noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: needCommand, Args: cobra.ArbitraryArgs}
	cmd.AddCommand(verbs...)
	return cmd
}

// needCommand is what a noun does without a verb, or with one that does not exist: it fails, so that a
// script notices.
func needCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		var verbs []string
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() {
				verbs = append(verbs, verb.Name())
			}
		}
		return usageError(cmd, errors.New("what? one of "+strings.Join(verbs, ", ")))
	}
	text := fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean `%s %s`?", cmd.CommandPath(), near[0])
	}
	return usageError(cmd, errors.New(text))
}

// exactly demands as many arguments as there are names, and says which one is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError(cmd, fmt.Errorf("%s is missing", names[len(args)]))
		case len(args) > len(names):
			return usageError(cmd, fmt.Errorf("unexpected argument %q", args[len(names)]))
		}
		return nil
	}
}
