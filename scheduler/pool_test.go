package scheduler

import (
	"fmt"
	"testing"
)

func TestShardIsTheFirstByteOfTheHash(t *testing.T) {
	t.Parallel()
	// sha256sum of the name without a newline. A change of these would lose every job of a cluster.
	for name, want := range map[JobName]string{
		{"default", "job"}:            "52",
		{"default", "nightly-report"}: "8e",
		{"billing", "nightly-report"}: "ed",
	} {
		if got := ShardOf(name).String(); got != want {
			t.Errorf("%s: got shard %s, want %s", name, got, want)
		}
	}
}

func TestShardsAreUsedEvenly(t *testing.T) {
	t.Parallel()
	n := [ShardCount]int{}
	for i := range 256 * 100 {
		n[ShardOf(JobName{"default", fmt.Sprint("job-", i)})]++
	}
	for s, got := range n {
		if got < 50 || got > 160 {
			t.Errorf("shard %s has %d of 25,600 jobs", Shard(s), got)
		}
	}
}

func TestPoolsAreNamedByTheirContent(t *testing.T) {
	t.Parallel()
	job := func(handler string, selector map[string]string) Job {
		j := Job{Target: Target{Selector: selector}}
		if handler != "" {
			j.Run.Handler = &HandlerCall{Name: handler}
		} else {
			j.Run.Command = &Command{Args: []string{"true"}}
		}
		return j
	}
	if got := PoolOf(job("", nil)).ID; got != PoolAll {
		t.Errorf("no selector: got %q", got)
	}
	if got := PoolOf(job("", map[string]string{})).ID; got != PoolAll {
		t.Errorf("an empty selector: got %q", got)
	}
	a := PoolOf(job("", map[string]string{"zone": "eu", "disk": "ssd"}))
	b := PoolOf(job("", map[string]string{"disk": "ssd", "zone": "eu"}))
	if a.ID != b.ID || len(a.ID) != 16 {
		t.Errorf("the same content has ids %q and %q", a.ID, b.ID)
	}
	// One more part each; none may be mistaken for another.
	seen := map[string]Job{}
	for _, j := range []Job{
		job("", map[string]string{"zone": "eu"}), job("", map[string]string{"zone": "eu", "disk": "ssd"}),
		job("", map[string]string{"zone": "e", "u": ""}), job("", map[string]string{"zon": "eeu"}), job("", map[string]string{"zoneeu": ""}),
		job("report", nil), job("report", map[string]string{"zone": "eu"}), job("zone", map[string]string{"eu": ""}),
	} {
		id := PoolOf(j).ID
		if other, twice := seen[id]; twice || id == PoolAll {
			t.Errorf("%+v and %+v share the id %s", j, other, id)
		}
		seen[id] = j
	}
}

func TestWhoBelongsToAPool(t *testing.T) {
	t.Parallel()
	m := Member{Name: "a", Labels: map[string]string{"zone": "eu", "disk": ""}, Handlers: []string{"report"}}
	for _, row := range []struct {
		name string
		pool Pool
		want bool
	}{
		{"everybody belongs to the pool of all", Pool{ID: PoolAll}, true},
		{"a member with the label", Pool{Selector: map[string]string{"zone": "eu"}}, true},
		{"another value of the label", Pool{Selector: map[string]string{"zone": "us"}}, false},
		{"one label of two", Pool{Selector: map[string]string{"zone": "eu", "team": "x"}}, false},
		{"an empty value is a value", Pool{Selector: map[string]string{"disk": ""}}, true},
		{"a missing label is no empty value", Pool{Selector: map[string]string{"gpu": ""}}, false},
		{"the handler is registered", Pool{Handler: "report"}, true},
		{"the handler is not registered", Pool{Handler: "mail"}, false},
		{"handler and label", Pool{Handler: "report", Selector: map[string]string{"zone": "us"}}, false},
	} {
		if got := row.pool.Matches(m); got != row.want {
			t.Errorf("%s: got %v", row.name, got)
		}
	}
}
