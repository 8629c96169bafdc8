package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// distrusts fails the test unless the member says that it does not plan by its clock, and has told somebody.
func (s *scene) distrusts(m *bubbleMember) {
	s.t.Helper()
	if r := m.Ready(); r.Ready || !strings.Contains(strings.Join(r.Reasons(), " "), "clock") {
		s.t.Errorf("ready %v with reasons %q, want not ready because of the clock", r.Ready, r.Reasons())
	}
	if s.alarmed("clock stepped") == 0 {
		s.t.Error("nobody was told of the step")
	}
}

func TestSA34_ClockThatRunsAheadAndReturnsLeavesNoJobSilent(t *testing.T) {
	t.Run("for a minute: nothing is done under it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:10Z", "only")
			defer s.close()
			job := s.apply(ticking("minute", time.Minute, "50ms"))
			stepped := time.Date(2026, 3, 10, 12, 3, 30, 500, time.UTC)
			s.until(stepped)
			s.clocks["only"].step(2 * time.Hour)
			time.Sleep(30 * time.Second)
			s.distrusts(s.members["only"])
			s.until(stepped.Add(time.Minute))
			s.clocks["only"].step(-2 * time.Hour)
			returned := s.wall()
			s.until(returned.Add(10 * time.Minute))
			for _, one := range s.seen(job) {
				if one.at.After(stepped) && one.at.Before(returned) {
					t.Errorf("%s started under the wrong clock, at %s", one.id.Firing.Key(), one.at)
				}
			}
			after := between(s.seen(job), returned, s.wall())
			for i, one := range after { // the first is late by what the step back needs to be believed
				minute := returned.Truncate(time.Minute).Add(time.Duration(i+1) * time.Minute)
				if !one.id.Firing.Instant().Equal(minute) || i > 0 && one.late() > time.Second || one.late() > scheduler.StepTrial {
					t.Errorf("start %d after the return is of %s, %s late; want %s", i+1, one.id.Firing.Instant(), one.late(), minute)
				}
			}
			if len(after) != 10 {
				t.Errorf("%d starts in ten minutes after the return, want 10", len(after))
			}
			s.checkStarts()
			if v := s.balance(job, s.wall().Add(-time.Minute)); v["MISSED(catch-up policy)"] != 1 || len(v) != 2 {
				t.Errorf("verdicts %v, want the minute under the wrong clock MISSED and all others SUCCEEDED", v)
			}
		})
	})
	t.Run("for so long that it is believed: nothing done under it is repeated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:10Z", "only")
			defer s.close()
			s.skew = 20 * time.Minute
			job := s.apply(ticking("minute", time.Minute, "50ms"))
			time.Sleep(3 * time.Minute)
			s.clocks["only"].step(s.skew)
			time.Sleep(3 * time.Minute)
			if s.alarmed("clock stepped") != 2 { // the second line says that it is believed
				t.Errorf("%d lines about the clock, want one for the step and one that it is believed", s.alarmed("clock stepped"))
			}
			ahead := s.wall().Add(s.skew)
			s.clocks["only"].step(-s.skew)
			s.until(ahead.Add(5 * time.Minute))
			s.checkStarts() // no firing twice
			after := between(s.seen(job), ahead.Add(time.Minute), s.wall())
			if len(after) < 4 || latest(after) > time.Second {
				t.Errorf("%d starts, the latest %s late, when the true time had come to where the wrong clock had been", len(after), latest(after))
			}
			s.balance(job, s.wall().Add(-time.Minute))
		})
	})
}

func TestSA35_ClockSetBackADayRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T22:58:00Z", "only")
		defer s.close()
		want := watched("nightly", "50ms")
		want.Schedule.Cron = []string{"0 23 * * *"}
		job := s.apply(want)
		eleven := time.Date(2026, 3, 10, 23, 0, 0, 0, time.UTC)
		s.until(eleven.Add(5 * time.Minute))
		if n := len(s.seen(job)); n != 1 {
			t.Fatalf("%d starts at 23:00, want 1", n)
		}
		const back = 24*time.Hour + 15*time.Minute
		s.clocks["only"].step(-back) // to 22:50 of the day before
		time.Sleep(10 * time.Second)
		s.distrusts(s.members["only"])
		shows := func(wall time.Time) { s.until(wall.Add(back)) } // until the member's clock does
		shows(eleven.Add(-24*time.Hour + 2*time.Minute))
		if n := len(s.seen(job)); n != 1 {
			t.Errorf("%d starts, after the clock had passed 23:00 of the day before", n)
		}
		if !s.members["only"].Ready().Ready {
			t.Errorf("not ready, long after the step: %v", s.members["only"].Ready().Reasons())
		}
		s.down(eleven.Add(back - time.Minute)) // idle days cost a test ten seconds each
		shows(eleven.Add(2 * time.Minute))
		if n := len(s.seen(job)); n != 1 {
			t.Errorf("%d starts, after the clock had passed the 23:00 at which it had run", n)
		}
		next := eleven.Add(24 * time.Hour)
		s.down(next.Add(back - time.Minute))
		shows(next.Add(time.Minute))
		seen := s.seen(job)
		if len(seen) != 2 || !seen[1].id.Firing.Instant().Equal(next) || seen[1].at.Sub(next.Add(back)) > time.Second {
			t.Errorf("%+v, want the second start at 23:00 of the next new date", seen)
		}
		s.want(job, map[string]int64{"SUCCEEDED": 2})
		s.checkStarts()
	})
}

func TestSA36_MachineThatSleptDecidesAtOnce(t *testing.T) {
	const slept = 10 * time.Minute
	// sleep has the member's machine sleep: its clocks stand still, nothing goes in or out.
	sleep := func(s *scene, m *bubbleMember) {
		clock := s.clocks[m.cfg.Name]
		m.unreachable = true
		clock.suspend(s.read(clock))
		m.link.Pause()
		time.Sleep(slept)
		clock.wake()
		m.link.Resume()
		m.unreachable = false
	}
	t.Run("alone: late start or MISSED, by the policy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:10Z", "only")
			defer s.close()
			job := s.apply(ticking("minute", time.Minute, "50ms"))
			time.Sleep(3 * time.Minute)
			sleep(s, s.members["only"])
			woke := s.wall()
			time.Sleep(time.Second)
			after := between(s.seen(job), woke, s.wall())
			if len(after) != 1 || !after[0].id.Firing.Instant().Equal(woke.Truncate(time.Minute)) {
				t.Errorf("%+v within a second after the machine woke up, want the newest instant", after)
			}
			time.Sleep(3 * time.Minute)
			if s.alarmed("clock stepped") != 0 {
				t.Error("the sleep was taken for a step of the clock")
			}
			if n := len(between(s.seen(job), woke, s.wall())); n != 4 {
				t.Errorf("%d starts in 3 minutes after it, want 4", n)
			}
			s.checkStarts()
			if v := s.balance(job, s.wall().Add(-time.Minute)); v["MISSED(catch-up policy)"] != 9 || len(v) != 2 {
				t.Errorf("verdicts %v, want 9 MISSED(catch-up policy)", v)
			}
		})
	})
	t.Run("among others: they go on, and it starts nothing that it had been granted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, "2026-03-10T12:00:10Z", "a", "b")
			defer s.close()
			job := s.apply(ticking("minute", time.Minute, "50ms"))
			time.Sleep(3 * time.Minute)
			m := s.owner(job)
			due := s.next(time.Minute, 0)
			m.link.DropReplies(1, begins) // the grant is under way to it when its machine falls asleep
			m.link.Delay(0, 20*time.Millisecond)
			s.until(due.Add(10 * time.Millisecond))
			if g := s.granted(job); g[len(g)-1].firing.Instant() != due {
				t.Fatal("nothing had been granted when it fell asleep")
			}
			sleep(s, m)
			m.link.Delay(0, 0)
			woke := s.wall()
			time.Sleep(busyRecovery)
			for _, one := range s.seen(job) {
				if one.id.Member == m.cfg.Name && one.at.After(due) {
					t.Errorf("it started %s, which had been granted before, %s after it woke up", one.id.Firing.Key(), one.at.Sub(woke))
				}
			}
			if n := len(between(s.seen(job), due, woke)); n < 9 {
				t.Errorf("the other member started %d firings meanwhile, want at least 9", n)
			}
			s.ready()
			s.checkStarts()
			v := s.balance(job, s.wall().Add(-time.Minute))
			if v["LOST(member lost)"]+v["LOST(never started)"] != 1 {
				t.Errorf("verdicts %v, want the one that it had been granted LOST", v)
			}
		})
	})
}
