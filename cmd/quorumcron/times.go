package main

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// durationFlag is a flag that takes a duration, and says how one is written.
type durationFlag struct{ *time.Duration }

// durationVar makes a flag that takes a duration.
func durationVar(flags *pflag.FlagSet, value *time.Duration, name string, standard time.Duration, usage string) {
	*value = standard
	flags.Var(durationFlag{value}, name, usage)
}

// String implements pflag.Value. Nothing is said of a default of zero: its meaning is in the usage.
func (f durationFlag) String() string {
	if f.Duration == nil || *f.Duration == 0 {
		return ""
	}
	return f.Duration.String()
}

// Type implements pflag.Value: what the help shows.
func (f durationFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (f durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("must be a duration with its unit, such as 10s or 5m")
	}
	*f.Duration = d
	return nil
}

// span is a duration in one or two units, as precise as one cares to know.
func span(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	seconds, minutes, hours := int(d.Seconds())%60, int(d.Minutes())%60, int(d.Hours())
	switch {
	case d < time.Millisecond:
		return "0ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", seconds)
	case d < 10*time.Minute && seconds > 0:
		return fmt.Sprintf("%dm %ds", minutes, seconds)
	case d < time.Hour:
		return fmt.Sprintf("%dm", minutes)
	case hours < 24 && minutes > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	case hours < 24:
		return fmt.Sprintf("%dh", hours)
	case hours < 240 && hours%24 > 0:
		return fmt.Sprintf("%dd %dh", hours/24, hours%24)
	default:
		return fmt.Sprintf("%dd", hours/24)
	}
}

// relative is an instant as seen from now: "in 4m", "2m ago". Clocks differ by a moment, so what is
// less than a second away is now.
func relative(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return "-"
	case d == math.MaxInt64: // 292 years or more: a duration holds no more
		return fmt.Sprintf("in %dd", (t.Unix()-now.Unix())/86400)
	case d == math.MinInt64:
		return fmt.Sprintf("%dd ago", (now.Unix()-t.Unix())/86400)
	case d >= time.Second:
		return "in " + span(d.Round(time.Second))
	case d <= -time.Second:
		return span(d.Round(time.Second)) + " ago"
	default:
		return "now"
	}
}

// ago is relative for a timestamp that may be absent.
func (c *console) ago(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return relative(t.AsTime(), c.now())
}

// stamp is a timestamp in full; "-" if it is absent.
func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

// both is a timestamp in full and as seen from now.
func (c *console) both(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return stamp(t) + " (" + c.ago(t) + ")"
}

// took is how long a run took, or has been going on.
func (c *console) took(start, end *timestamppb.Timestamp) string {
	switch {
	case start == nil:
		return "-"
	case end == nil:
		return span(c.now().Sub(start.AsTime()).Round(time.Second))
	default:
		return span(end.AsTime().Sub(start.AsTime()))
	}
}
