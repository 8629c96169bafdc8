package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func jobNamed(name string) JobName { return JobName{"default", name} }

func names(list []JobName) []string {
	var out []string
	for _, n := range list {
		out = append(out, n.Name)
	}
	return out
}

func TestTheAgendaGivesWhatIsDueInOrder(t *testing.T) {
	t.Parallel()
	a := NewAgenda()
	at := func(s string) time.Time { return clockTime(t, s) }
	a.Set(jobNamed("later"), at("10:00:50"), 0)
	a.Set(jobNamed("b"), at("10:00:40"), 0)
	a.Set(jobNamed("a"), at("10:00:40"), 0)
	a.Set(jobNamed("c"), at("10:00:35"), 0)
	if wait, ok := a.Wait(reading(epoch)); !ok || wait != 5*time.Second {
		t.Errorf("got wait %v %v, want 5s", wait, ok)
	}
	if got := a.Due(reading(at("10:00:34.999999999"))); got != nil {
		t.Errorf("too early: %v", got)
	}
	if got := names(a.Due(reading(at("10:00:40")))); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("got %v, want by wake and then by name", got)
	}
	if got := a.Due(reading(at("10:00:40"))); got != nil {
		t.Errorf("given out twice: %v", got)
	}
	if wait, ok := a.Wait(reading(at("10:00:49.5"))); !ok || wait != 500*time.Millisecond {
		t.Errorf("got wait %v %v", wait, ok)
	}
	if wait, ok := a.Wait(reading(at("10:09:00"))); !ok || wait != 0 {
		t.Errorf("overdue: got wait %v %v, want 0", wait, ok)
	}
	if a.Len() != 1 {
		t.Errorf("%d jobs left", a.Len())
	}
}

func TestSettingAgainForgetsWhatWasSet(t *testing.T) {
	t.Parallel()
	a := NewAgenda()
	job := jobNamed("a")
	for _, row := range []struct {
		name string
		set  func()
		want bool // on the agenda, due at 10:01:00
	}{
		{"set", func() { a.Set(job, clockTime(t, "10:01:00"), 0) }, true},
		{"set later", func() { a.Set(job, clockTime(t, "10:02:00"), 0) }, false},
		{"set to the elapsed clock", func() { a.Set(job, time.Time{}, elapsedAt(clockTime(t, "10:00:59"))) }, true},
		{"never", func() { a.Set(job, clockTime(t, "10:00:31"), 0); a.Set(job, time.Time{}, 0) }, false},
		{"soon", func() { a.Set(job, clockTime(t, "10:09:00"), 0); a.Soon(job) }, true},
		{"soon, then later", func() { a.Soon(job); a.Set(job, clockTime(t, "10:09:00"), 0) }, false},
		{"removed", func() { a.Soon(job); a.Remove(job); a.Remove(job) }, false},
	} {
		row.set()
		got := a.Due(reading(clockTime(t, "10:01:00")))
		if (len(got) == 1) != row.want || len(got) > 1 {
			t.Errorf("%s: got %v", row.name, got)
		}
		a.Remove(job)
		if a.Len() != 0 || len(a.wall.items)+len(a.elapsed.items) != 0 {
			t.Fatalf("%s: something is left on the agenda", row.name)
		}
	}
	if _, ok := a.Wait(reading(epoch)); ok {
		t.Error("an empty agenda waits for something")
	}
}

// TestAStepOfTheWallClockHoldsUpNoElapsedWait is why the agenda has two orders.
func TestAStepOfTheWallClockHoldsUpNoElapsedWait(t *testing.T) {
	t.Parallel()
	a := NewAgenda()
	now := reading(epoch)
	a.Set(jobNamed("a"), now.Wall.Add(time.Hour), now.Elapsed+10*time.Second)
	a.Set(jobNamed("b"), now.Wall.Add(5*time.Second), 0)
	now.Elapsed += 10 * time.Second
	now.Wall = now.Wall.Add(-3 * time.Hour)
	if wait, ok := a.Wait(now); !ok || wait != 0 {
		t.Errorf("got wait %v %v", wait, ok)
	}
	if got := names(a.Due(now)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v, want the job that waited on the elapsed clock", got)
	}
	now.Wall = now.Wall.Add(5 * time.Hour)
	if got := names(a.Due(now)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("got %v; a job given out for one clock must not be left in the other order", got)
	}
}

// TestTheAgendaAgreesWithAList plays random calls against a list that is searched through.
func TestTheAgendaAgreesWithAList(t *testing.T) {
	t.Parallel()
	type wake struct {
		wall    time.Time
		elapsed time.Duration
	}
	rng := rand.New(rand.NewPCG(4, 4))
	a, list := NewAgenda(), map[JobName]wake{}
	now := reading(epoch)
	for step := range 20_000 {
		job := jobNamed(fmt.Sprint("j", rng.IntN(40)))
		switch rng.IntN(8) {
		case 0:
			a.Remove(job)
			delete(list, job)
		case 1:
			a.Soon(job)
			list[job] = wake{elapsed: 1}
		case 2:
			now.Wall, now.Elapsed = now.Wall.Add(time.Second), now.Elapsed+time.Second
			got := a.Due(now)
			for _, job := range got {
				w, on := list[job]
				if !on || !(w.elapsed > 0 && w.elapsed <= now.Elapsed || !w.wall.IsZero() && !w.wall.After(now.Wall)) {
					t.Fatalf("step %d: %s was given out and not due: %+v", step, job, w)
				}
				delete(list, job)
			}
			for job, w := range list {
				if w.elapsed > 0 && w.elapsed <= now.Elapsed || !w.wall.IsZero() && !w.wall.After(now.Wall) {
					t.Fatalf("step %d: %s was due and not given out: %+v", step, job, w)
				}
			}
		default:
			var w wake
			if rng.IntN(2) == 0 {
				w.wall = now.Wall.Add(time.Duration(rng.IntN(20)) * time.Second)
			}
			if rng.IntN(2) == 0 {
				w.elapsed = now.Elapsed + time.Duration(rng.IntN(20))*time.Second
			}
			a.Set(job, w.wall, w.elapsed)
			if delete(list, job); w != (wake{}) {
				list[job] = w
			}
		}
		if a.Len() != len(list) {
			t.Fatalf("step %d: %d jobs on the agenda, want %d", step, a.Len(), len(list))
		}
	}
}
