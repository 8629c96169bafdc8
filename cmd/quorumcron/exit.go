package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorumcron/quorumcron/scheduler"
)

// The exit codes. Scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnreachable = 5
)

// exitHelp is their table in the help.
func exitHelp() string {
	return "Exit codes:\n" +
		"  0  done\n" +
		"  1  failed, or nobody knows whether it was done\n" +
		"  2  wrong usage or invalid input; nothing was changed\n" +
		"  3  not found\n" +
		"  4  conflict: somebody else has changed it, the name is taken, or its state forbids it\n" +
		"  5  no node, or no etcd, could be reached"
}

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *exitError) Unwrap() error { return e.err }

func failedWith(code int, err error) error { return &exitError{code, err} }

// usageError is a command line that cannot be understood: it points to the command's help.
func usageError(cmd *cobra.Command, err error) error {
	return &exitError{exitUsage, fmt.Errorf("%w\nsee %s --help", err, cmd.CommandPath())}
}

// invalid is input that is understood, but not acceptable.
func invalid(err error) error { return &exitError{exitUsage, err} }

// codeExit maps what a server answers to exit codes, and is the only place that does.
func codeExit(code codes.Code) int {
	switch code {
	case codes.OK:
		return exitDone
	case codes.InvalidArgument, codes.OutOfRange:
		return exitUsage
	case codes.NotFound:
		return exitNotFound
	case codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition:
		return exitConflict
	case codes.Unavailable, codes.DeadlineExceeded:
		return exitUnreachable
	default:
		return exitFailed
	}
}

// exitCode is the exit code of an error.
func exitCode(err error) int {
	var known *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &known):
		return known.code
	}
	if s, ok := status.FromError(err); ok {
		return codeExit(s.Code())
	}
	return exitFailed
}

// report prints an error, once, and returns its exit code.
func (c *console) report(err error) int {
	if err == nil {
		return exitDone
	}
	if text := explain(err); text != "" {
		c.say("quorumcron: %s", text)
	}
	return exitCode(err)
}

// errReported ends a command whose failure is on the screen already.
func errReported(code int) error { return &exitError{code, errSilent{}} }

// errSilent has nothing to say.
type errSilent struct{}

// Error implements error.
func (errSilent) Error() string { return "" }

// explain is an error in words for a person. A server's answer is shown without gRPC's wrapping.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	fields := violations(err)
	if len(fields) == 0 {
		return s.Message()
	}
	lines := []string{"the server refused it:"}
	for _, f := range fields {
		lines = append(lines, "  "+f.Error())
	}
	return strings.Join(lines, "\n")
}

// violations are the wrong fields that a server's answer names.
func violations(err error) []scheduler.FieldError {
	s, _ := status.FromError(err)
	var fields []scheduler.FieldError
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, scheduler.FieldError{Field: v.GetField(), Problem: v.GetDescription()})
			}
		}
	}
	return fields
}
