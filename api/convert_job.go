package api

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// DefaultNamespace is where a job lives that names no namespace.
const DefaultNamespace = "default"

// JobFromProto reads the definition in p: a job file's fields. Output-only fields are left out, since
// nothing that a client says about them is true. The errors are what has no translation, such as a
// duration that is none; whether the definition makes sense is for scheduler.Job.Validate to say.
func JobFromProto(p *quorumcronv1.Job) (scheduler.Job, []scheduler.FieldError) {
	r := &reader{}
	j := scheduler.Job{
		Name:         scheduler.JobName{Namespace: p.GetNamespace(), Name: p.GetName()},
		Labels:       p.GetLabels(),
		Schedule:     r.schedule(p.GetSchedule()),
		Run:          executableFromProto(p.GetRun()),
		Target:       targetFromProto(p.GetTarget()),
		Policy:       r.policy(p.GetPolicy()),
		HistoryLimit: int(p.GetHistory().GetLimit()),
		Paused:       p.GetPaused(),
	}
	if j.Name.Namespace == "" {
		j.Name.Namespace = DefaultNamespace
	}
	return j, r.errs
}

// reader collects what cannot be translated.
type reader struct{ errs []scheduler.FieldError }

func (r *reader) duration(field, s string) time.Duration {
	d, err := parseDuration(s)
	r.note(field, err)
	return d
}

func (r *reader) instant(field string, t *timestamppb.Timestamp) time.Time {
	at, err := instant(t)
	r.note(field, err)
	return at
}

func (r *reader) note(field string, err *scheduler.FieldError) {
	if err != nil {
		err.Field = field
		r.errs = append(r.errs, *err)
	}
}

func (r *reader) schedule(p *quorumcronv1.Schedule) scheduler.Schedule {
	s := scheduler.Schedule{
		Cron:     p.GetCron(),
		Every:    r.duration("schedule.every", p.GetEvery()),
		TimeZone: p.GetTimeZone(),
		Start:    r.instant("schedule.start", p.GetStart()),
		End:      r.instant("schedule.end", p.GetEnd()),
		Jitter:   r.duration("schedule.jitter", p.GetJitter()),
		Exclude:  p.GetExclude(),
	}
	for i, t := range p.GetAt() {
		s.At = append(s.At, r.instant(fmt.Sprintf("schedule.at[%d]", i), t))
	}
	return s
}

func (r *reader) policy(p *quorumcronv1.Policy) scheduler.Policy {
	return scheduler.Policy{
		Overlap: scheduler.OverlapPolicy(p.GetOverlap()),
		CatchUp: scheduler.CatchUp{
			Mode:   scheduler.CatchUpMode(p.GetCatchUp().GetMode()),
			Window: r.duration("policy.catchUp.window", p.GetCatchUp().GetWindow()),
			Max:    int(p.GetCatchUp().GetMax()),
		},
		OnLost:        scheduler.OnLost(p.GetOnLost()),
		OnSessionLost: scheduler.OnSessionLost(p.GetOnSessionLost()),
		Retry:         scheduler.Retry{MaxAttempts: int(p.GetRetry().GetMaxAttempts())},
		Timeout:       r.duration("policy.timeout", p.GetTimeout()),
		StartDeadline: r.duration("policy.startDeadline", p.GetStartDeadline()),
	}
}

func executableFromProto(p *quorumcronv1.Executable) scheduler.Executable {
	switch kind := p.GetKind().(type) {
	case *quorumcronv1.Executable_Command:
		c := kind.Command
		return scheduler.Executable{Command: &scheduler.Command{
			Args: c.GetArgs(), Env: c.GetEnv(), Dir: c.GetDir(), User: c.GetUser(),
		}}
	case *quorumcronv1.Executable_Handler:
		h := kind.Handler
		return scheduler.Executable{Handler: &scheduler.HandlerCall{Name: h.GetName(), Payload: h.GetPayload()}}
	}
	return scheduler.Executable{}
}

func targetFromProto(p *quorumcronv1.Target) scheduler.Target {
	return scheduler.Target{Selector: p.GetSelector(), Prefer: p.GetPrefer(), Mode: p.GetMode()}
}

// JobToProto writes a job with all that is known of it.
func JobToProto(v scheduler.JobView) *quorumcronv1.Job {
	p := definitionToProto(v.Job)
	p.Uid, p.Generation, p.Revision = v.Job.UID, v.Job.Generation, v.Job.Revision
	p.Created, p.Edited = timestamp(v.Job.Created), timestamp(v.Job.Edited)
	p.Schedule.Origin = timestamp(v.Job.Schedule.Origin)
	p.NextInstants = timestamps(v.Next)
	p.Owner, p.Pool, p.Problem = v.Owner, v.Pool, v.Problem
	p.Shard = scheduler.ShardOf(v.Job.Name).String()
	if v.State != nil {
		stateToProto(*v.State, p)
	}
	for _, r := range v.Running {
		p.Running = append(p.Running, RunToProto(r))
	}
	return p
}

func definitionToProto(j scheduler.Job) *quorumcronv1.Job {
	return &quorumcronv1.Job{
		Name:      j.Name.Name,
		Namespace: j.Name.Namespace,
		Labels:    j.Labels,
		Schedule: &quorumcronv1.Schedule{
			Cron:     j.Schedule.Cron,
			Every:    formatDuration(j.Schedule.Every),
			At:       timestamps(j.Schedule.At),
			TimeZone: j.Schedule.TimeZone,
			Start:    timestamp(j.Schedule.Start),
			End:      timestamp(j.Schedule.End),
			Jitter:   formatDuration(j.Schedule.Jitter),
			Exclude:  j.Schedule.Exclude,
		},
		Run: executableToProto(j.Run),
		Target: &quorumcronv1.Target{
			Selector: j.Target.Selector, Prefer: j.Target.Prefer, Mode: j.Target.Mode,
		},
		Policy: &quorumcronv1.Policy{
			Overlap: string(j.Policy.Overlap),
			CatchUp: &quorumcronv1.CatchUp{
				Mode:   string(j.Policy.CatchUp.Mode),
				Window: formatDuration(j.Policy.CatchUp.Window),
				Max:    int32(j.Policy.CatchUp.Max),
			},
			OnLost:        string(j.Policy.OnLost),
			OnSessionLost: string(j.Policy.OnSessionLost),
			Retry:         &quorumcronv1.Retry{MaxAttempts: int32(j.Policy.Retry.MaxAttempts)},
			Timeout:       formatDuration(j.Policy.Timeout),
			StartDeadline: formatDuration(j.Policy.StartDeadline),
		},
		History: &quorumcronv1.History{Limit: int32(j.HistoryLimit)},
		Paused:  j.Paused,
	}
}

func executableToProto(e scheduler.Executable) *quorumcronv1.Executable {
	p := &quorumcronv1.Executable{}
	switch {
	case e.Command != nil:
		p.Kind = &quorumcronv1.Executable_Command{Command: &quorumcronv1.Command{
			Args: e.Command.Args, Env: e.Command.Env, Dir: e.Command.Dir, User: e.Command.User,
		}}
	case e.Handler != nil:
		p.Kind = &quorumcronv1.Executable_Handler{Handler: &quorumcronv1.HandlerCall{
			Name: e.Handler.Name, Payload: e.Handler.Payload,
		}}
	}
	return p
}

func stateToProto(s scheduler.State, p *quorumcronv1.Job) {
	p.Cursor = timestamp(s.Cursor)
	p.Backlog = &quorumcronv1.Backlog{} // shown as 0, so that readers need not tell "none" from "not read"
	if b := s.Backlog; b != nil {
		p.Backlog = &quorumcronv1.Backlog{First: timestamp(b.First), Last: timestamp(b.Last), Count: b.Count}
	}
	for _, c := range s.Counters {
		p.Counters = append(p.Counters, &quorumcronv1.Counter{
			Verdict: string(c.Verdict), Reason: string(c.Reason), Count: c.Count,
		})
	}
	for _, r := range s.Ranges {
		p.Ranges = append(p.Ranges, &quorumcronv1.SkippedRange{
			Verdict: string(r.Verdict), Reason: string(r.Reason),
			First: timestamp(r.First), Last: timestamp(r.Last), Count: r.Count, Trigger: r.Trigger,
		})
	}
}
