package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// levelFlag is a flag that takes a log level.
type levelFlag struct{ slog.Level }

// String implements pflag.Value.
func (f *levelFlag) String() string { return strings.ToLower(f.Level.String()) }

// Type implements pflag.Value: what the help shows.
func (f *levelFlag) Type() string { return "debug|info|warn|error" }

// Set implements pflag.Value.
func (f *levelFlag) Set(s string) error {
	switch s {
	case "debug", "info", "warn", "error":
		return f.UnmarshalText([]byte(s))
	}
	return fmt.Errorf("must be debug, info, warn or error")
}

// newLogger writes text for a person at a terminal, and JSON for everything else.
func newLogger(w io.Writer, terminal bool, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if terminal {
		return slog.New(slog.NewTextHandler(w, options))
	}
	// A duration would be a number of nanoseconds, which nobody reads.
	options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
