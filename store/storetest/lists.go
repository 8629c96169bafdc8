package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
	"github.com/quorumcron/quorumcron/store"
)

func listTests() []test {
	return []test{
		{"JobsAreListedInOrderAndInPages", jobsAreListedInOrder},
		{"RunsAreListedNewestFirst", runsAreListedNewestFirst},
		{"ARunIsShownOnce", aRunIsShownOnce},
		{"RunsOfANamespaceAreCollected", runsOfANamespaceAreCollected},
		{"AFiringIsFoundWhateverBecameOfIt", aFiringIsFound},
		{"TheRingKeepsPromisedRecords", theRingKeepsPromisedRecords},
	}
}

func jobsAreListedInOrder(w *world) {
	var want []string
	// The namespaces' order differs from that of the keys: '-' sorts before '/'.
	for _, ns := range []string{"a", "a-b", "b"} {
		for i := range 13 {
			j := job(fmt.Sprintf("job-%02d", i))
			j.Name.Namespace = ns
			w.apply(j, noon)
			want = append(want, j.Name.String())
		}
	}
	_, err := w.store.Delete(w.ctx, store.EditRequest{Name: scheduler.JobName{Namespace: "a", Name: "job-05"}, Now: at(noon)})
	w.must(err)
	want = slices.DeleteFunc(want, func(n string) bool { return n == "a/job-05" })
	for _, limit := range []int{1, 7, 100} {
		for namespace, want := range map[string][]string{
			"": want, "a": only(want, "a/"), "a-b": only(want, "a-b/"), "none": nil,
		} {
			var got []string
			q := scheduler.JobQuery{Namespace: namespace, Limit: limit}
			for {
				page, err := w.store.Jobs(w.ctx, q)
				w.must(err)
				if len(page) > limit {
					w.Fatalf("a page of %d has %d jobs", limit, len(page))
				}
				for _, r := range page {
					got = append(got, r.Job.Name.String())
					if r.StateRevision == 0 || r.State.UID != r.Job.UID || r.Job.Revision == 0 {
						w.Errorf("%s is listed without its state or revision: %+v", r.Job.Name, r)
					}
				}
				if len(page) < limit {
					break
				}
				q.After = page[len(page)-1].Job.Name
			}
			if !slices.Equal(got, want) {
				w.Errorf("namespace %q in pages of %d:\ngot  %v\nwant %v", namespace, limit, got, want)
			}
		}
	}
}

func only(names []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, prefix) })
}

// fire grants, ends and folds n firings of a job, a minute apart.
func (w *world) fire(r store.JobRecord, n int) store.JobRecord {
	w.Helper()
	lease := w.lease()
	first := r.State.Cursor.Add(time.Minute).Truncate(time.Minute)
	for i := range n {
		var e scheduler.Entry
		r, e = w.grant(r, scheduler.At(r.Job.UID, first.Add(time.Duration(i)*time.Minute)), lease)
		f := ended(r, e, scheduler.Succeeded)
		f.Run.Attempts[0].Granted = e.Firing.Instant()
		w.finish(f)
		out, err := w.store.Settle(w.ctx, w.folded(r, f.Run))
		w.must(err)
		r.State, r.StateRevision = out.State, out.StateRevision
	}
	return r
}

func runsAreListedNewestFirst(w *world) {
	r := w.fire(w.apply(job("a"), noon), 5)
	var got []string
	q := scheduler.RunQuery{Namespace: "default", Job: "a", Limit: 2}
	for {
		page, err := w.store.Runs(w.ctx, q)
		w.must(err)
		for _, run := range page {
			got = append(got, run.Firing.Instant().Format("15:04"))
			if run.Job != r.Job.Name || run.Last().Verdict != scheduler.Succeeded {
				w.Errorf("got %+v", run)
			}
		}
		if len(page) < q.Limit {
			break
		}
		place := page[len(page)-1].Place()
		q.After = &place
	}
	if want := []string{"12:05", "12:04", "12:03", "12:02", "12:01"}; !slices.Equal(got, want) {
		w.Errorf("got %v, want %v", got, want)
	}
	_, err := w.store.Runs(w.ctx, scheduler.RunQuery{Namespace: "default", Job: "none", Limit: 1})
	w.wantErr("runs of no job", err, scheduler.ErrNotFound)
}

func aRunIsShownOnce(w *world) {
	shown := func(name scheduler.JobName) []scheduler.Run {
		runs, err := w.store.Runs(w.ctx, scheduler.RunQuery{Namespace: name.Namespace, Job: name.Name, Limit: 10})
		w.must(err)
		return runs
	}
	r, e, _ := w.running("a")
	if runs := shown(r.Job.Name); len(runs) != 1 || runs[0].Last().Verdict != "" || runs[0].Last().Token != e.Token || runs[0].Last().Member != e.Member {
		w.Errorf("while it runs: got %+v", runs)
	}
	w.finish(ended(r, e, scheduler.Succeeded))
	if runs := shown(r.Job.Name); len(runs) != 1 || runs[0].Last().Verdict != scheduler.Succeeded {
		w.Errorf("before the fold: got %+v", runs)
	}
	b, _, second := w.retrying("b")
	if runs := shown(b.Job.Name); len(runs) != 1 || len(runs[0].Attempts) != 2 || runs[0].Last().Verdict != "" || runs[0].Last().Token != second.Token {
		w.Errorf("the second attempt runs, and the first is recorded: got %+v", runs)
	}
	c, entry, lease := w.running("c", func(j *scheduler.Job) { j.Policy.OnLost = scheduler.OnLostRetry })
	w.revoke(lease)
	_, err := w.store.Settle(w.ctx, w.lost(c, entry))
	w.must(err)
	if runs := shown(c.Job.Name); len(runs) != 1 || len(runs[0].Attempts) != 2 || runs[0].Last().Verdict != "" || runs[0].Last().Number != 2 {
		w.Errorf("a retry is owed: got %+v", runs)
	}
}

func runsOfANamespaceAreCollected(w *world) {
	for i := range 40 {
		w.fire(w.apply(job(fmt.Sprintf("job-%02d", i)), noon.Add(time.Duration(i)*time.Minute)), 1)
	}
	other := job("other")
	other.Name.Namespace = "elsewhere"
	w.fire(w.apply(other, noon.Add(time.Hour)), 1)
	for namespace, want := range map[string]string{
		"default": "default/job-39 default/job-38 default/job-37", "": "elsewhere/other default/job-39 default/job-38", "none": "",
	} {
		runs, err := w.store.Runs(w.ctx, scheduler.RunQuery{Namespace: namespace, Limit: 3})
		w.must(err)
		var got []string
		for _, r := range runs {
			got = append(got, r.Job.String())
		}
		if strings.Join(got, " ") != want {
			w.Errorf("namespace %q: got %v, want %v", namespace, got, want)
		}
	}
}

func aFiringIsFound(w *world) {
	r := w.fire(w.apply(job("a"), noon), 2)
	recorded := scheduler.At(r.Job.UID, noon.Add(2*time.Minute))
	t, err := w.trigger(r.Job.Name, "x", "")
	w.must(err)
	r, _ = w.grant(r, scheduler.At(r.Job.UID, noon.Add(3*time.Minute)), w.lease())
	skip := w.skip(r, scheduler.ReasonOverlap)
	skip.Decision.Next.Ranges = []scheduler.Range{{Verdict: scheduler.Skipped, Reason: scheduler.ReasonOverlap, First: noon.Add(4 * time.Minute), Last: noon.Add(4 * time.Minute), Count: 1}}
	skip.Decision.Next.Backlog = &scheduler.Backlog{First: noon.Add(5 * time.Minute), Last: noon.Add(6 * time.Minute), Count: 2}
	out, err := w.store.Claim(w.ctx, skip)
	w.must(err)
	if !out.Committed {
		w.Fatalf("skip: got %+v", out)
	}
	fresh := w.apply(job("fresh"), noon)
	for _, c := range []struct {
		what    string
		firing  scheduler.Firing
		verdict scheduler.Verdict
		number  int
		err     error
	}{
		{"recorded", recorded, scheduler.Succeeded, 1, nil},
		{"in flight", scheduler.At(r.Job.UID, noon.Add(3*time.Minute)), "", 1, nil},
		{"skipped", scheduler.At(r.Job.UID, noon.Add(4*time.Minute)), scheduler.Skipped, 0, nil},
		{"in the backlog", scheduler.At(r.Job.UID, noon.Add(6*time.Minute)), "", 0, nil},
		{"a waiting trigger", t.Firing, "", 0, nil},
		{"not decided yet", scheduler.At(r.Job.UID, noon.Add(time.Hour)), "", 0, scheduler.ErrNotFound},
		{"of a job without records", scheduler.At(fresh.Job.UID, noon), "", 0, scheduler.ErrNotFound},
		{"of nobody", scheduler.At("01jz3q8n0v5d6h7k8m9p0q1r2s", noon), "", 0, scheduler.ErrNotFound},
	} {
		run, err := w.store.RunByFiring(w.ctx, c.firing)
		if c.err != nil {
			w.wantErr(c.what, err, c.err)
			continue
		}
		if err != nil || run.Firing != c.firing || run.Job != r.Job.Name || run.Last().Verdict != c.verdict || run.Last().Number != c.number {
			w.Errorf("%s: got %+v, %v, want verdict %q of attempt %d", c.what, run, err, c.verdict, c.number)
		}
	}
	first, err := w.trigger(fresh.Job.Name, "first", "")
	w.must(err)
	if run, err := w.store.RunByFiring(w.ctx, first.Firing); err != nil || run.Job != fresh.Job.Name {
		w.Errorf("the first trigger of a job: got %+v, %v", run, err)
	}
}

// theRingKeepsPromisedRecords: firings go round in the ring while the record of an attempt that is not
// folded stays where it is.
func theRingKeepsPromisedRecords(w *world) {
	r := w.apply(job("a", func(j *scheduler.Job) { j.HistoryLimit = 2 }), noon)
	r = w.fire(r, 7)
	runs, err := w.store.Runs(w.ctx, scheduler.RunQuery{Namespace: "default", Job: "a", Limit: 100})
	w.must(err)
	if len(runs) != r.State.Slots || runs[0].Firing.Instant() != noon.Add(7*time.Minute) {
		w.Errorf("got %d runs, newest %s, want the newest %d", len(runs), runs[0].Firing, r.State.Slots)
	}
}
