package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

func commandJob() Job {
	return Job{
		Name:     JobName{"default", "report"},
		Schedule: Schedule{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
		Run:      Executable{Command: &Command{Args: []string{"/usr/local/bin/report", "--daily"}}},
	}.WithDefaults()
}

func handlerJob() Job {
	j := commandJob()
	j.Run = Executable{Handler: &HandlerCall{Name: "send-report"}}
	return j
}

func TestADefinitionWithDefaultsIsValid(t *testing.T) {
	t.Parallel()
	for _, j := range []Job{commandJob(), handlerJob(), everyMinute()} {
		if got := j.Validate(); got != nil {
			t.Errorf("%s: %v", j.Name, got)
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	for _, row := range []struct {
		name   string
		change func(*Job)
		field  string
		in     string // part of what is said
	}{
		{"no name", func(j *Job) { j.Name.Name = "" }, "name", "missing"},
		{"a name in capitals", func(j *Job) { j.Name.Name = "Report" }, "name", "lower-case"},
		{"a name that begins with a dot", func(j *Job) { j.Name.Name = ".report" }, "name", "begin"},
		{"a name that ends with a dash", func(j *Job) { j.Name.Name = "report-" }, "name", "end"},
		{"a name with a slash, which would be another key", func(j *Job) { j.Name.Name = "a/b" }, "name", "not a name"},
		{"a name that is too long", func(j *Job) { j.Name.Name = long }, "name", "300 bytes"},
		{"a namespace in other letters", func(j *Job) { j.Name.Namespace = "büro" }, "namespace", "not a name"},
		{"too many labels", func(j *Job) { j.Labels = many(65) }, "labels", "64"},
		{"a label key with a space", func(j *Job) { j.Labels = map[string]string{"a b": "c"} }, "labels.a b", "label key"},
		{"an empty label key", func(j *Job) { j.Labels = map[string]string{"": "c"} }, "labels.", "label key"},
		{"a label value with a line break", func(j *Job) { j.Labels = map[string]string{"a": "b\nc"} }, "labels.a", "label value"},
		{"a label key that is too long", func(j *Job) { j.Labels = map[string]string{long: "v"} }, "labels." + long, "label key"},
		{"a label value that is too long", func(j *Job) { j.Labels = map[string]string{"a": long} }, "labels.a", "label value"},
		{"a label value that is no text", func(j *Job) { j.Labels = map[string]string{"a": "\xff"} }, "labels.a", "label value"},
		{"no schedule", func(j *Job) { j.Schedule = Schedule{} }, "schedule.cron", "empty"},
		{"an expression that is none", func(j *Job) { j.Schedule.Cron = []string{"30 2 * * *", "61 * * * *"} }, "schedule.cron[1]", "59"},
		{"a zone that is none", func(j *Job) { j.Schedule.TimeZone = "Europe/Berlino" }, "schedule.timeZone", ""},
		{"an interval below a second", func(j *Job) { j.Schedule.Every = time.Millisecond }, "schedule.every", ""},
		{"a date that is no whole second", func(j *Job) { j.Schedule.At = []time.Time{epoch.Add(1)} }, "schedule.at[0]", ""},
		{"bounds without anything between", func(j *Job) { j.Schedule.Start, j.Schedule.End = epoch, epoch }, "schedule.end", ""},
		{"a jitter beyond a day", func(j *Job) { j.Schedule.Jitter = 25 * time.Hour }, "schedule.jitter", "24h"},
		{"a negative jitter", func(j *Job) { j.Schedule.Jitter = -1 }, "schedule.jitter", "24h"},
		{"too many calendars", func(j *Job) { j.Schedule.Exclude = make257()[:MaxExclude+1] }, "schedule.exclude", "16"},
		{"a calendar named twice", func(j *Job) { j.Schedule.Exclude = []string{"a", "a"} }, "schedule.exclude[1]", "twice"},
		{"nothing to run", func(j *Job) { j.Run = Executable{} }, "run", "nothing"},
		{"two things to run", func(j *Job) { j.Run.Handler = &HandlerCall{Name: "h"} }, "run", "more than one"},
		{"no program", func(j *Job) { j.Run.Command.Args = nil }, "run.command.args", "program"},
		{"an empty program", func(j *Job) { j.Run.Command.Args = []string{""} }, "run.command.args", "program"},
		{"too many arguments", func(j *Job) { j.Run.Command.Args = make257() }, "run.command.args", "256"},
		{"arguments beyond what a kernel takes", func(j *Job) { j.Run.Command.Args = []string{"a", strings.Repeat("x", 129<<10)} }, "run.command", "bytes"},
		{"a zero byte in an argument", func(j *Job) { j.Run.Command.Args = []string{"a", "b\x00c"} }, "run.command.args[1]", "zero byte"},
		{"a reserved variable", func(j *Job) { j.Run.Command.Env = map[string]string{"QUORUMCRON_TOKEN": "1"} }, "run.command.env.QUORUMCRON_TOKEN", "reserved"},
		{"a variable whose name has an equals sign", func(j *Job) { j.Run.Command.Env = map[string]string{"A=B": "1"} }, "run.command.env.A=B", "name of a variable"},
		{"a variable without a name", func(j *Job) { j.Run.Command.Env = map[string]string{"": "1"} }, "run.command.env.", "name of a variable"},
		{"a variable whose name has a line break", func(j *Job) { j.Run.Command.Env = map[string]string{"A\nB": "1"} }, "run.command.env.A\nB", "name of a variable"},
		{"a zero byte in a variable", func(j *Job) { j.Run.Command.Env = map[string]string{"A": "\x00"} }, "run.command.env.A", "zero byte"},
		{"too many variables", func(j *Job) { j.Run.Command.Env = many(257) }, "run.command.env", "256"},
		{"a relative directory", func(j *Job) { j.Run.Command.Dir = "srv" }, "run.command.dir", "absolute"},
		{"a zero byte in the directory", func(j *Job) { j.Run.Command.Dir = "/\x00" }, "run.command.dir", "zero byte"},
		{"a user that is a pair", func(j *Job) { j.Run.Command.User = "a:b" }, "run.command.user", "user name"},
		{"a user that is too long", func(j *Job) { j.Run.Command.User = long }, "run.command.user", "user name"},
		{"a user with a line break", func(j *Job) { j.Run.Command.User = "a\nb" }, "run.command.user", "user name"},
		{"a handler without a name", func(j *Job) { j.Run = Executable{Handler: &HandlerCall{}} }, "run.handler.name", "handler's name"},
		{"a handler's name that is too long", func(j *Job) { j.Run = Executable{Handler: &HandlerCall{Name: long}} }, "run.handler.name", "handler's name"},
		{"a selector with a bad key", func(j *Job) { j.Target.Selector = map[string]string{"zone=": "eu"} }, "target.selector.zone=", "label key"},
		{"preferred members", func(j *Job) { j.Target.Prefer = []string{"a"} }, "target.prefer", "not supported yet"},
		{"a mode to come", func(j *Job) { j.Target.Mode = "all" }, "target.mode", "not supported yet"},
		{"a mode that is none", func(j *Job) { j.Target.Mode = "some" }, "target.mode", "use one"},
		{"an overlap policy to come", func(j *Job) { j.Policy.Overlap = "allow_all" }, "policy.overlap", "not supported yet"},
		{"an overlap policy that is none", func(j *Job) { j.Policy.Overlap = "forbid" }, "policy.overlap", "use skip"},
		{"a catch-up to come", func(j *Job) { j.Policy.CatchUp.Mode = "all" }, "policy.catchUp.mode", "not supported yet"},
		{"a negative window", func(j *Job) { j.Policy.CatchUp.Window = -1 }, "policy.catchUp.window", "positive"},
		{"no catch-up at all", func(j *Job) { j.Policy.CatchUp.Max = -1 }, "policy.catchUp.max", "1 to"},
		{"onLost that is none", func(j *Job) { j.Policy.OnLost = "ignore" }, "policy.onLost", "fail or retry"},
		{"onSessionLost that is none", func(j *Job) { j.Policy.OnSessionLost = "ignore" }, "policy.onSessionLost", "kill or finish"},
		{"too many attempts", func(j *Job) { j.Policy.Retry.MaxAttempts = 101 }, "policy.retry.maxAttempts", "1 to 100"},
		{"a negative time-out", func(j *Job) { j.Policy.Timeout = -time.Second }, "policy.timeout", "negative"},
		{"a negative deadline", func(j *Job) { j.Policy.StartDeadline = -time.Second }, "policy.startDeadline", "negative"},
		{"too long a history", func(j *Job) { j.HistoryLimit = 101 }, "history.limit", "1 to 100"},
		{"no history", func(j *Job) { j.HistoryLimit = -1 }, "history.limit", "1 to 100"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			j := commandJob()
			row.change(&j)
			got := j.Validate()
			if len(got) != 1 || got[0].Field != row.field {
				t.Fatalf("got %v, want one error about %s", got, row.field)
			}
			if text := got[0].Error(); !strings.Contains(text, row.in) {
				t.Errorf("got %q, want %q in it", text, row.in)
			}
			if got[0].Problem == "" || got[0].Remedy == "" {
				t.Errorf("an error says what is wrong and what to do: %+v", got[0])
			}
		})
	}
}

func TestRequestIDsAreBounded(t *testing.T) {
	t.Parallel()
	for id, in := range map[string]string{
		"": "missing", strings.Repeat("x", MaxRequestID): "", strings.Repeat("x", MaxRequestID+1): "longer", "a/b": "character",
	} {
		got := TriggerRequest{RequestID: id}.Validate()
		if in == "" && got != nil || in != "" && (len(got) != 1 || got[0].Field != "requestId" || !strings.Contains(got[0].Problem, in)) {
			t.Errorf("%q: got %v, want %q", id, got, in)
		}
	}
}

func TestDescriptionsOfCalendarsAreBounded(t *testing.T) {
	t.Parallel()
	for description, ok := range map[string]bool{
		strings.Repeat("x", MaxCalendarDescription): true, strings.Repeat("x", MaxCalendarDescription+1): false, "two\nlines": false,
	} {
		c := NewCalendar(CalendarName{Namespace: "default", Name: "a"}, description, cron.CalendarSpec{Weekdays: []string{"mon"}})
		if got := c.Validate(); ok && got != nil || !ok && (len(got) != 1 || got[0].Field != "description") {
			t.Errorf("%d bytes: got %v", len(description), got)
		}
	}
}

func make257() []string {
	args := make([]string, 257)
	args[0] = "a"
	return args
}

func TestHandlersAreChecked(t *testing.T) {
	t.Parallel()
	j := handlerJob()
	j.Run.Handler = &HandlerCall{Name: "send report", Payload: strings.Repeat("x", MaxPayloadBytes+1)}
	got := j.Validate()
	if len(got) != 2 || got[0].Field != "run.handler.name" || got[1].Field != "run.handler.payload" {
		t.Errorf("got %v", got)
	}
	j.Run.Handler = &HandlerCall{Name: "a.b/c_d-1", Payload: strings.Repeat("x", MaxPayloadBytes)}
	if got := j.Validate(); got != nil {
		t.Errorf("at the limit: %v", got)
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	j := commandJob()
	j.Name.Name = "A"
	j.Schedule = Schedule{Cron: []string{"* * *", "61 * * * *"}, TimeZone: "Nowhere", Jitter: -1}
	j.Run.Command.Args = nil
	j.Policy.Overlap = "forbid"
	j.HistoryLimit = 1000
	var fields []string
	for _, e := range j.Validate() {
		fields = append(fields, e.Field)
	}
	want := "name schedule.timeZone schedule.cron[0] schedule.cron[1] schedule.jitter run.command.args policy.overlap history.limit"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if err := error(FieldErrors(j.Validate())); !errors.Is(err, ErrInvalid) || strings.Count(err.Error(), "; ") < len(fields)-1 {
		t.Errorf("joined: %v", err)
	}
}

func TestTheWholeDefinitionIsBounded(t *testing.T) {
	t.Parallel()
	j := commandJob()
	j.Run.Command.Env = map[string]string{"A": strings.Repeat("x", 120<<10)}
	j.Labels, j.Target.Selector = map[string]string{}, map[string]string{}
	for i := range MaxLabels {
		j.Labels[fmt.Sprint("key", i)] = strings.Repeat("v", MaxLabelBytes)
		j.Target.Selector[fmt.Sprint("key", i)] = strings.Repeat("v", MaxLabelBytes)
	}
	if got := j.Validate(); got != nil {
		t.Fatalf("below the limit: %v", got)
	}
	for range 32 {
		j.Schedule.Cron = append(j.Schedule.Cron[:0:0], append(j.Schedule.Cron, "0 0 1 1 "+strings.Repeat("1,", 3000)+"1")...)
	}
	found := false
	for _, e := range j.Validate() {
		found = found || e.Field == "job" && strings.Contains(e.Error(), "more than 262144")
	}
	if !found {
		t.Errorf("%d bytes of text are not refused", j.textBytes())
	}
}

func TestALongValueIsCutInItsError(t *testing.T) {
	t.Parallel()
	j := commandJob()
	j.Name.Name = strings.Repeat("ä", 5000)
	got := j.Validate()
	if len(got) != 1 || len(got[0].Value) > 80 || !strings.HasSuffix(got[0].Value, "…") {
		t.Errorf("got %v", got)
	}
}

func TestDefaultsFillOnlyWhatWasLeftOut(t *testing.T) {
	t.Parallel()
	j := Job{Name: JobName{Name: "a"}}.WithDefaults()
	if j.Name.Namespace != "default" || j.HistoryLimit != 10 || j.Target.Mode != "one" {
		t.Errorf("got %+v", j)
	}
	want := Policy{
		Overlap: OverlapSkip, CatchUp: CatchUp{CatchUpLatest, 24 * time.Hour, 100},
		OnLost: OnLostFail, OnSessionLost: SessionLostKill, Retry: Retry{1},
	}
	if j.Policy != want {
		t.Errorf("got %+v, want %+v", j.Policy, want)
	}
	if again := j.WithDefaults(); again.Policy != j.Policy || again.HistoryLimit != j.HistoryLimit {
		t.Errorf("a second time changes %+v", again)
	}
	given := Job{
		Name: JobName{"ns", "a"}, HistoryLimit: 3, Target: Target{Mode: "all"},
		Policy: Policy{
			Overlap: "x", CatchUp: CatchUp{CatchUpNone, time.Hour, 5}, OnLost: OnLostRetry,
			OnSessionLost: SessionLostFinish, Retry: Retry{9}, Timeout: 1, StartDeadline: 2,
		},
	}
	if got := given.WithDefaults(); got.Policy != given.Policy || got.Name != given.Name || got.HistoryLimit != 3 || got.Target.Mode != "all" {
		t.Errorf("what was given was changed: %+v", got)
	}
	if got := (Job{Policy: Policy{OnLost: OnLostRetry}}).WithDefaults().Policy.Retry.MaxAttempts; got != 3 {
		t.Errorf("retry without a number of attempts: got %d, want 3", got)
	}
}
