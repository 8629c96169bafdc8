package store

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

func encodeJob(j scheduler.Job) (*storedv1.Job, error) {
	var e encoder
	m := &storedv1.Job{
		Namespace:    j.Name.Namespace,
		Name:         j.Name.Name,
		Uid:          j.UID,
		Generation:   j.Generation,
		Labels:       j.Labels,
		Schedule:     encodeSchedule(j.Schedule),
		Run:          encodeExecutable(j.Run),
		Target:       &storedv1.Target{Selector: j.Target.Selector, Prefer: j.Target.Prefer, Mode: encodeWord[storedv1.TargetMode](&e, targetModes, j.Target.Mode)},
		Policy:       encodePolicy(&e, j.Policy),
		HistoryLimit: int32(j.HistoryLimit),
		Paused:       j.Paused,
		Created:      encodeTime(j.Created),
		Edited:       encodeTime(j.Edited),
		Deleted:      encodeTime(j.Deleted),
	}
	return m, e.err
}

func encodeSchedule(s scheduler.Schedule) *storedv1.Schedule {
	m := &storedv1.Schedule{
		Cron:     s.Cron,
		Every:    encodeDuration(s.Every),
		Origin:   encodeTime(s.Origin),
		TimeZone: s.TimeZone,
		Start:    encodeTime(s.Start),
		End:      encodeTime(s.End),
		Jitter:   encodeDuration(s.Jitter),
		Exclude:  s.Exclude,
	}
	for _, t := range s.At {
		m.At = append(m.At, timestamppb.New(t))
	}
	return m
}

func encodeExecutable(x scheduler.Executable) *storedv1.Executable {
	switch {
	case x.Command != nil:
		c := x.Command
		return &storedv1.Executable{Kind: &storedv1.Executable_Command{
			Command: &storedv1.Command{Args: c.Args, Env: c.Env, Dir: c.Dir, User: c.User},
		}}
	case x.Handler != nil:
		return &storedv1.Executable{Kind: &storedv1.Executable_Handler{
			Handler: &storedv1.Handler{Name: x.Handler.Name, Payload: x.Handler.Payload},
		}}
	}
	return &storedv1.Executable{}
}

func encodePolicy(e *encoder, p scheduler.Policy) *storedv1.Policy {
	return &storedv1.Policy{
		Overlap: encodeWord[storedv1.OverlapPolicy](e, overlaps, p.Overlap),
		CatchUp: &storedv1.CatchUp{
			Mode:   encodeWord[storedv1.CatchUpMode](e, catchUps, p.CatchUp.Mode),
			Window: encodeDuration(p.CatchUp.Window),
			Max:    int32(p.CatchUp.Max),
		},
		OnLost:        encodeWord[storedv1.OnLost](e, onLosts, p.OnLost),
		OnSessionLost: encodeWord[storedv1.OnSessionLost](e, onSessionLosts, p.OnSessionLost),
		Retry:         &storedv1.Retry{MaxAttempts: int32(p.Retry.MaxAttempts)},
		Timeout:       encodeDuration(p.Timeout),
		StartDeadline: encodeDuration(p.StartDeadline),
	}
}

// decodeJob reads a definition found under the key of name. Its Revision is left to the caller.
func decodeJob(name scheduler.JobName, m *storedv1.Job) (scheduler.Job, error) {
	var d decoder
	if got := (scheduler.JobName{Namespace: m.GetNamespace(), Name: m.GetName()}); got != name {
		d.fail("the value names job %q", got)
	}
	if m.GetUid() == "" {
		d.fail("no uid")
	}
	d.atLeast("generation", 1, m.GetGeneration())
	j := scheduler.Job{
		Name:         name,
		UID:          m.GetUid(),
		Generation:   m.GetGeneration(),
		Labels:       m.GetLabels(),
		Schedule:     d.schedule(m.GetSchedule()),
		Run:          d.executable(m.GetRun()),
		Target:       scheduler.Target{Selector: m.GetTarget().GetSelector(), Prefer: m.GetTarget().GetPrefer(), Mode: targetModes.word(int32(m.GetTarget().GetMode()))},
		Policy:       d.policy(m.GetPolicy()),
		HistoryLimit: int(m.GetHistoryLimit()),
		Paused:       m.GetPaused(),
		Created:      d.time("created", m.GetCreated()),
		Edited:       d.time("edited", m.GetEdited()),
		Deleted:      d.time("deleted", m.GetDeleted()),
	}
	return j, d.err
}

func (d *decoder) schedule(m *storedv1.Schedule) scheduler.Schedule {
	s := scheduler.Schedule{
		Cron:     m.GetCron(),
		Every:    d.duration("schedule.every", m.GetEvery()),
		Origin:   d.time("schedule.origin", m.GetOrigin()),
		TimeZone: m.GetTimeZone(),
		Start:    d.time("schedule.start", m.GetStart()),
		End:      d.time("schedule.end", m.GetEnd()),
		Jitter:   d.duration("schedule.jitter", m.GetJitter()),
		Exclude:  m.GetExclude(),
	}
	if n := len(m.GetAt()); n > 0 {
		s.At = make([]time.Time, 0, n)
	}
	for _, t := range m.GetAt() {
		s.At = append(s.At, d.time("schedule.at", t))
	}
	return s
}

func (d *decoder) executable(m *storedv1.Executable) scheduler.Executable {
	switch kind := m.GetKind().(type) {
	case *storedv1.Executable_Command:
		c := kind.Command
		return scheduler.Executable{Command: &scheduler.Command{Args: c.GetArgs(), Env: c.GetEnv(), Dir: c.GetDir(), User: c.GetUser()}}
	case *storedv1.Executable_Handler:
		return scheduler.Executable{Handler: &scheduler.HandlerCall{Name: kind.Handler.GetName(), Payload: kind.Handler.GetPayload()}}
	}
	d.fail("it runs nothing that this version knows")
	return scheduler.Executable{}
}

func (d *decoder) policy(m *storedv1.Policy) scheduler.Policy {
	return scheduler.Policy{
		Overlap: overlaps.word(int32(m.GetOverlap())),
		CatchUp: scheduler.CatchUp{
			Mode:   catchUps.word(int32(m.GetCatchUp().GetMode())),
			Window: d.duration("policy.catchUp.window", m.GetCatchUp().GetWindow()),
			Max:    int(m.GetCatchUp().GetMax()),
		},
		OnLost:        onLosts.word(int32(m.GetOnLost())),
		OnSessionLost: onSessionLosts.word(int32(m.GetOnSessionLost())),
		Retry:         scheduler.Retry{MaxAttempts: int(m.GetRetry().GetMaxAttempts())},
		Timeout:       d.duration("policy.timeout", m.GetTimeout()),
		StartDeadline: d.duration("policy.startDeadline", m.GetStartDeadline()),
	}
}
