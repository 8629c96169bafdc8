package api

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/scheduler"
)

// formatDuration writes d as a person would: "24h", not "24h0m0s". Zero, which always means "none" or
// "the default", is "".
func formatDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseDuration reads what formatDuration writes, and anything else in Go's syntax.
func parseDuration(s string) (time.Duration, *scheduler.FieldError) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	wrong := &scheduler.FieldError{Value: s, Problem: fmt.Sprintf("%q is not a duration", s)}
	var days int64
	var rest string
	if n, _ := fmt.Sscanf(s, "%dd%s", &days, &rest); n == 1 && s == fmt.Sprintf("%dd", days) && days > 0 && days < 36500 {
		wrong.Remedy = fmt.Sprintf("there is no unit for days, whose length varies: write \"%dh\"", 24*days)
	} else {
		wrong.Remedy = `write a number and h, m or s, such as "90s", "15m" or "1h30m"`
	}
	return 0, wrong
}

// timestamp is nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// instant is the time of t in UTC, and the zero time for nil, which nothing else is.
func instant(t *timestamppb.Timestamp) (time.Time, *scheduler.FieldError) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, &scheduler.FieldError{
			Value:   fmt.Sprintf("%d.%09d", t.GetSeconds(), t.GetNanos()),
			Problem: "is not a time between the years 1 and 9999",
			Remedy:  "write RFC 3339, such as 2026-12-24T18:00:00Z",
		}
	}
	at := t.AsTime()
	if at.IsZero() { // an end there would be none at all
		return at, &scheduler.FieldError{Value: "0001-01-01T00:00:00Z", Problem: "stands for no time at all", Remedy: "leave it out, or write a later time"}
	}
	return at, nil
}

// timestamps converts a list.
func timestamps(times []time.Time) []*timestamppb.Timestamp {
	var list []*timestamppb.Timestamp
	for _, t := range times {
		list = append(list, timestamppb.New(t))
	}
	return list
}
