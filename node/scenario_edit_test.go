package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/scheduler/cron"
)

func TestSA46_NothingIsGrantedUnderAnOlderDefinitionAfterTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b", "c")
		defer s.close()
		var groups [4][]scheduler.Job // deleted, paused, with another payload, with another schedule
		for g, name := range []string{"deleted", "paused", "payload", "schedule"} {
			for i := range 50 {
				groups[g] = append(groups[g], s.apply(ticking(fmt.Sprintf("%s-%d", name, i), time.Second, "950ms v1")))
			}
		}
		time.Sleep(3 * time.Second)
		members := []*bubbleMember{s.members["a"], s.members["b"], s.members["c"]}
		for _, m := range members { // so that edits and claims of one instant meet on their way
			m.link.Delay(2*time.Millisecond, 2*time.Millisecond)
		}
		due := s.next(time.Second, 0)
		var mu sync.Mutex
		acknowledged := map[scheduler.JobName]int64{}
		var all sync.WaitGroup
		for g, jobs := range groups {
			for i, job := range jobs {
				all.Go(func() {
					before := 100 * time.Millisecond
					if i%2 == 1 { // at the same moment as the claims
						before = time.Duration(i) * 400 * time.Microsecond
					}
					s.until(due.Add(-before))
					m := members[i%3]
					var edit scheduler.Edit
					var err error
					switch g {
					case 0:
						edit, err = m.Delete(t.Context(), job.Name, 0)
					case 1:
						edit, err = m.Pause(t.Context(), job.Name, 0)
					case 2:
						job.Run.Handler = &scheduler.HandlerCall{Name: "seen", Payload: "950ms v2"}
						edit, err = m.Apply(t.Context(), job, 0)
					default:
						job.Schedule.Cron = []string{expressions[30*time.Second]}
						edit, err = m.Apply(t.Context(), job, 0)
					}
					if err != nil {
						t.Errorf("job %s: %v", job.Name, err)
					}
					mu.Lock()
					defer mu.Unlock()
					acknowledged[job.Name] = edit.Job.Revision
				})
			}
		}
		all.Wait()
		inFlight := 0
		for _, one := range s.seen(slices.Concat(groups[:]...)...) {
			if !one.done.IsZero() {
				continue
			}
			inFlight++ // it was claimed before, and goes on
			if _, deleted := acknowledged[one.id.Job]; deleted && strings.HasPrefix(one.id.Job.Name, "deleted") {
				continue
			}
			if run := s.record(one.id.Firing); run.Generation != 1 && strings.HasSuffix(one.id.Payload, "v1") {
				t.Errorf("job %s: %s runs %s and is shown with generation %d", one.id.Job, one.id.Firing.Key(), one.id.Payload, run.Generation)
			}
		}
		if inFlight < 20 {
			t.Errorf("only %d runs were in flight when the replies came: too few to show anything", inFlight)
		}
		time.Sleep(5 * time.Second)
		for g, jobs := range groups {
			for _, job := range jobs {
				s.holdsAfter(job, acknowledged[job.Name], g)
			}
		}
		s.checkStarts()
	})
}

// holdsAfter checks what was granted of a job after the revision of its edit.
func (s *scene) holdsAfter(job scheduler.Job, revision int64, group int) {
	s.t.Helper()
	later := s.grantedAfter(job, revision)
	payloads := map[int64]string{}
	for _, one := range s.seen(job) {
		payloads[one.id.Token] = one.id.Payload
	}
	switch {
	case group < 2 && len(later) > 0:
		s.t.Errorf("job %s: granted after the reply at revision %d: %+v", job.Name, revision, later)
	case group == 2 && len(later) < 2:
		s.t.Errorf("job %s: %d grants in the 5 s after its edit", job.Name, len(later))
	}
	for _, g := range later {
		if group == 2 && payloads[g.token] != "950ms v2" {
			s.t.Errorf("job %s: %s was granted after the edit and ran %q", job.Name, g.firing.Key(), payloads[g.token])
		}
		if group == 3 && g.firing.Instant().Second()%30 != 0 {
			s.t.Errorf("job %s: %s is no instant of the new schedule", job.Name, g.firing.Key())
		}
	}
}

// shown is the next instant that each member shows of a job; they must agree.
func (s *scene) shown(job scheduler.Job) time.Time {
	s.t.Helper()
	var first time.Time
	for name, m := range s.members {
		view, err := m.Job(s.t.Context(), job.Name)
		if err != nil || len(view.Next) == 0 {
			s.t.Fatalf("member %s shows %v as the next instants of %s, %v", name, view.Next, job.Name, err)
		}
		if first.IsZero() {
			first = view.Next[0]
		}
		if !view.Next[0].Equal(first) {
			s.t.Errorf("member %s shows %s as the next instant of %s, another one %s", name, view.Next[0], job.Name, first)
		}
	}
	return first
}

func TestSA47_ShownNextIsTheNextStartWhateverIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:10Z", "a", "b")
		defer s.close()
		byCron, byInterval := s.apply(ticking("cron", time.Hour, "50ms")), watched("interval", "50ms")
		byInterval.Schedule.Every = 7 * time.Minute
		byInterval = s.apply(byInterval)
		jobs := []*scheduler.Job{&byCron, &byInterval}
		fires := func(what string) {
			t.Helper()
			for _, job := range jobs {
				next := s.shown(*job)
				s.until(next.Add(-time.Millisecond))
				if before := between(s.seen(*job), next.Add(-time.Minute), s.wall()); len(before) != 0 {
					t.Errorf("%s: job %s started at %s, and %s was shown", what, job.Name, before[0].at, next)
				}
				s.until(next.Add(time.Second))
				seen := s.seen(*job)
				if len(seen) == 0 || !seen[len(seen)-1].id.Firing.Instant().Equal(next) {
					t.Errorf("%s: job %s did not start at %s, which was shown: %+v", what, job.Name, next, seen)
				}
			}
		}
		byCron.Schedule.Cron = []string{expressions[5*time.Minute]}
		byCron = s.apply(byCron)
		if next := s.shown(byCron); !next.Equal(s.next(5*time.Minute, 0)) {
			t.Errorf("after the edit %s is shown", next)
		}
		fires("after an edit of the schedule")

		before := []time.Time{s.shown(byCron), s.shown(byInterval)}
		unchanged := func(what string) {
			t.Helper()
			for i, job := range jobs {
				if next := s.shown(*job); !next.Equal(before[i]) {
					t.Errorf("%s: job %s is shown with %s as the next, and %s before", what, job.Name, next, before[i])
				}
			}
		}
		for _, job := range jobs {
			s.trigger(*job)
		}
		unchanged("after a run by hand")
		byInterval.Labels = map[string]string{"team": "billing"}
		byInterval = s.apply(byInterval)
		unchanged("after an edit of something else")
		s.down(s.wall().Add(10 * time.Second))
		unchanged("after a restart")
		fires("after a run by hand and a restart")
		s.checkStarts()
	})
}

// zones are forty time zones with all kinds of offsets.
var zones = strings.Fields(`Africa/Abidjan Africa/Cairo Africa/Casablanca Africa/Johannesburg Africa/Nairobi
	America/Anchorage America/Argentina/Buenos_Aires America/Bogota America/Caracas America/Chicago America/Denver
	America/Halifax America/Havana America/Los_Angeles America/Mexico_City America/New_York America/Phoenix
	America/Santiago America/Sao_Paulo America/St_Johns Asia/Bangkok Asia/Dhaka Asia/Dubai Asia/Jerusalem
	Asia/Kabul Asia/Karachi Asia/Kathmandu Asia/Kolkata Asia/Shanghai Asia/Tehran Asia/Tokyo Asia/Yangon
	Australia/Adelaide Australia/Eucla Australia/Lord_Howe Europe/Berlin Europe/London Europe/Moscow
	Pacific/Chatham Pacific/Kiritimati`)

func TestSA48_ShownNextIsTheNextStartInEveryZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Half an hour before the clocks of Europe go forward.
		s := newScene(t, "2026-03-29T00:30:00Z", "a", "b", "c")
		defer s.close()
		if len(zones) != 40 {
			t.Fatalf("%d zones", len(zones))
		}
		begin := s.wall().Truncate(time.Minute)
		var jobs []scheduler.Job
		want := map[scheduler.JobName]time.Time{}
		for i := range 200 {
			zone, err := cron.LoadZone(zones[i%len(zones)])
			if err != nil {
				t.Fatal(err)
			}
			at := begin.Add(time.Duration(2+i%58) * time.Minute)
			local := at.In(zone)
			job := watched(fmt.Sprintf("local-%d", i), "50ms")
			job.Schedule.Cron = []string{fmt.Sprintf("%d %d * * *", local.Minute(), local.Hour())}
			job.Schedule.TimeZone = zones[i%len(zones)]
			job = s.apply(job)
			jobs = append(jobs, job)
			want[job.Name] = s.shown(job)
			if !want[job.Name].Equal(at) {
				t.Errorf("job %s: %s in %s is shown as %s, want %s", job.Name, job.Schedule.Cron, job.Schedule.TimeZone, want[job.Name], at)
			}
		}
		s.until(begin.Add(61 * time.Minute))
		for _, job := range jobs {
			seen := s.seen(job)
			if len(seen) != 1 || !seen[0].id.Firing.Instant().Equal(want[job.Name]) || seen[0].late() > time.Second {
				t.Errorf("job %s in %s: %+v, want one start at %s", job.Name, job.Schedule.TimeZone, seen, want[job.Name])
			}
		}
		s.checkStarts()
	})
}
