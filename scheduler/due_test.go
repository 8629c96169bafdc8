package scheduler

import (
	"testing"
	"time"
)

func TestJitterKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		schedule Schedule
	}{
		{"far less than the distance", Schedule{Cron: []string{"*/10 * * * *"}, Jitter: 30 * time.Second}},
		{"as long as the distance", Schedule{Cron: []string{"* * * * *"}, Jitter: time.Minute}},
		{"far more than the distance", Schedule{Every: time.Second, Origin: epoch, Jitter: time.Hour}},
		{"uneven distances", Schedule{Cron: []string{"0,1,59 * * * *"}, Jitter: 20 * time.Minute}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			j := Job{UID: uid, Schedule: row.schedule}
			table := compile(t, j.Schedule)
			list := instants(table, epoch, epoch.Add(3*time.Hour))
			for n, i := range list[:len(list)-1] {
				due := Due(j, table, i)
				if due.Before(i) || due.Sub(i) > row.schedule.Jitter {
					t.Fatalf("%s is due %s: outside its jitter", i, due)
				}
				if !due.Before(list[n+1]) {
					t.Fatalf("%s is due %s, when %s is due or past", i, due, list[n+1])
				}
			}
		})
	}
}

func TestJitterSpreadsAndIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	s := Schedule{Cron: []string{"0 * * * *"}, Jitter: 10 * time.Minute}
	table := compile(t, s)
	early, late := 0, 0
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		j := Job{UID: id, Schedule: s}
		for _, i := range instants(table, epoch, epoch.Add(100*time.Hour)) {
			d := Due(j, table, i)
			if !d.Equal(Due(Job{UID: id, Schedule: s, Generation: 7}, table, i)) {
				t.Fatal("the delay depends on more than uid and instant")
			}
			if d.Sub(i) < s.Jitter/2 {
				early++
			} else {
				late++
			}
		}
	}
	if early < 350 || late < 350 { // of 800
		t.Errorf("%d in the first half, %d in the second: not spread", early, late)
	}
}

func TestWithoutJitterAnInstantIsDueAtOnce(t *testing.T) {
	t.Parallel()
	j := everyMinute()
	if got := Due(j, compile(t, j.Schedule), epoch); !got.Equal(epoch) {
		t.Errorf("got %s, want %s", got, epoch)
	}
}

func TestTheLastInstantMayUseAllOfItsJitter(t *testing.T) {
	t.Parallel()
	at := epoch.Add(time.Minute)
	j := Job{UID: uid, Schedule: Schedule{At: []time.Time{at}, Jitter: time.Hour}}
	if d := Due(j, compile(t, j.Schedule), at); d.Before(at) || d.After(at.Add(time.Hour)) || d.Equal(at) {
		t.Errorf("got %s", d)
	}
}

// TestLastDueAgreesWithASlowSearch compares the one step back that jitter needs with a search through
// every instant.
func TestLastDueAgreesWithASlowSearch(t *testing.T) {
	t.Parallel()
	j := Job{UID: uid, Schedule: Schedule{Cron: []string{"0,7,8 * * * *"}, Jitter: 45 * time.Minute}}
	table := compile(t, j.Schedule)
	for n := range 500 {
		after := epoch.Add(time.Duration(n%7) * time.Minute)
		through := epoch.Add(time.Duration(n) * 37 * time.Second)
		want := time.Time{}
		for _, i := range instants(table, after, through) {
			if !Due(j, table, i).After(through) {
				want = i
			}
		}
		if got := lastDue(j, table, after, through); !got.Equal(want) {
			t.Fatalf("after %s, due by %s: got %s, want %s", after, through, got, want)
		}
	}
}
