package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorumcron/quorumcron/internal/memetcd"
	"github.com/quorumcron/quorumcron/scheduler"
)

// ballast makes the database so large that what a test does to it is small against it.
func (s *scene) ballast() {
	s.t.Helper()
	client := s.etcd.Link("ballast").Client(s.t.Context())
	for i := range 32 {
		if _, err := client.Put(s.t.Context(), fmt.Sprintf("/ballast/%d", i), strings.Repeat("x", 1<<20)); err != nil {
			s.t.Fatal(err)
		}
	}
	_ = client.Close()
}

// fill has the database be so many percent of its quota.
func (s *scene) fill(percent int64) { s.etcd.SetQuota(s.etcd.Size() * 100 / percent) }

// spaceOf is the level that a member goes by, without asking etcd.
func (m *bubbleMember) spaceOf() scheduler.SpaceLevel {
	last := m.space.last.Load()
	if last == nil {
		return ""
	}
	return last.health.Space
}

func TestEveryMemberKnowsHowFullEtcdIsWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		for _, step := range []struct {
			share  int64
			want   scheduler.SpaceLevel
			warned string
		}{
			{10, scheduler.SpaceNormal, ""},
			{82, scheduler.SpaceTight, "short form"},
			{78, scheduler.SpaceTight, "short form"},
			{93, scheduler.SpaceFull, "no new jobs"},
			{88, scheduler.SpaceFull, "no new jobs"},
			{50, scheduler.SpaceNormal, ""},
		} {
			s.fill(step.share)
			time.Sleep(spaceEvery + time.Second)
			for name, m := range s.members {
				if got := m.spaceOf(); got != step.want {
					t.Errorf("at %d %%: member %s goes by %q, want %q", step.share, name, got, step.want)
				}
			}
			if got, want := s.metric("etcd_db_quota_share", ""), 2*float64(step.share)/100; got < want-0.04 || got > want+0.04 {
				t.Errorf("at %d %%: the shares that the members tell add up to %.2f", step.share, got)
			}
			status, err := s.any().Status(t.Context())
			if err != nil || status.Etcd == nil || status.Etcd.Space != step.want {
				t.Fatalf("at %d %%: status %+v, %v", step.share, status.Etcd, err)
			}
			if text := strings.Join(status.Warnings, "\n"); !strings.Contains(text, step.warned) || step.warned == "" && text != "" {
				t.Errorf("at %d %%: warnings %q, want %q", step.share, text, step.warned)
			}
		}
		if n := s.alarmed("etcd's space changed"); n != 4 { // tight and full, on two members
			t.Errorf("%d warnings in the logs, want 4", n)
		}
	})
}

// TestSpaceFollowsTheStatusAndTheAlarm: whoever asks for the status has the level follow at once.
func TestSpaceFollowsTheStatusAndTheAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		a := s.members["a"]
		time.Sleep(time.Second)
		s.etcd.SetNoSpace(true)
		if got := a.spaceOf(); got != scheduler.SpaceNormal {
			t.Fatalf("known before it was read: %q", got)
		}
		status, err := a.Status(t.Context())
		if err != nil || a.spaceOf() != scheduler.SpaceFull || !strings.Contains(strings.Join(status.Warnings, "\n"), "NOSPACE") {
			t.Errorf("with the alarm: level %q, warnings %q, %v", a.spaceOf(), status.Warnings, err)
		}
		if got := s.metric("etcd_alarm", scheduler.AlarmNoSpace); got != 1 {
			t.Errorf("the alarm's metric is %v", got)
		}
		a.link.Cut() // while etcd is away what was known holds
		time.Sleep(3 * time.Minute)
		if got := a.spaceOf(); got != scheduler.SpaceFull {
			t.Errorf("while etcd is away: %q", got)
		}
		a.link.Mend()
		s.etcd.SetNoSpace(false)
		time.Sleep(2 * spaceEvery)
		if got, alarm := a.spaceOf(), s.metric("etcd_alarm", scheduler.AlarmNoSpace); got != scheduler.SpaceNormal || alarm != 0 {
			t.Errorf("after it was cleared: %q, metric %v", got, alarm)
		}
	})
}

func TestHistoryThatIsNotCompactedIsSaidSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		s.apply(ticking("tick", 10*time.Second, "50ms"))
		const said = "history not compacted"
		for range 14 {
			time.Sleep(10 * time.Minute)
			if n := s.alarmed(said); n != 0 {
				t.Fatalf("%d warnings within %s of the start", n, time.Since(s.start))
			}
		}
		time.Sleep(20 * time.Minute)
		if n := s.alarmed(said); n != 1 {
			t.Fatalf("%d warnings after 2 h 40 min without compaction, want 1", n)
		}
		status, err := s.any().Status(t.Context())
		if err != nil || !strings.Contains(strings.Join(status.Warnings, "\n"), "has not compacted its history") {
			t.Errorf("warnings %q, %v", status.Warnings, err)
		}
		time.Sleep(6 * time.Hour)
		if n := s.alarmed(said); n != 1 {
			t.Errorf("%d warnings after nine hours, want still 1", n)
		}
		if err := s.etcd.Compact(s.etcd.Rev()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if status, err = s.any().Status(t.Context()); err != nil || len(status.Warnings) != 0 {
			t.Errorf("warnings after a compaction %q, %v", status.Warnings, err)
		}
		if status.Etcd.CompactRevision == 0 {
			t.Error("the compaction revision is not shown")
		}
	})
}

func TestAutoCompactionOfAnHourIsGoodEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOn(t, memetcd.Config{AutoCompact: time.Hour}, "2026-03-10T12:00:00Z", "a")
		defer s.close()
		s.apply(ticking("tick", 10*time.Second, "50ms"))
		time.Sleep(4 * time.Hour)
		if n := s.alarmed("history not compacted"); n != 0 {
			t.Errorf("%d warnings, though history is compacted", n)
		}
	})
}

// TestSchedulesGoOnWhileEtcdIsFull: short records at 80 %, nothing new at 90 %, and back.
func TestSchedulesGoOnWhileEtcdIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		s.ballast()
		job := s.apply(ticking("tick", 10*time.Second, "50ms"))
		manual := s.apply(rarely("manual", "50ms"))
		trigger := func(id string) error {
			_, err := s.any().Trigger(t.Context(), scheduler.TriggerRequest{Job: manual.Name, RequestID: id})
			return err
		}
		fresh := func(name string) error {
			_, err := s.any().Apply(t.Context(), rarely(name, "50ms"), 0)
			return err
		}
		runs := func() (long, short int) {
			all, err := s.any().Runs(t.Context(), scheduler.RunQuery{Namespace: "default", Job: "tick", Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if r.Shortened {
					short++
				} else if r.Last().Verdict != "" {
					long++
				}
			}
			return long, short
		}
		settle := func(percent int64) {
			s.fill(percent)
			time.Sleep(spaceEvery + 15*time.Second)
		}
		settle(50)
		long, short := runs()
		if long < 5 || short != 0 {
			t.Fatalf("at 50 %%: %d records and %d short ones", long, short)
		}
		settle(83)
		if nowLong, nowShort := runs(); nowShort < 1 || nowLong > long+7 {
			t.Errorf("at 83 %%: %d records and %d short ones, %d before", nowLong, nowShort, long)
		}
		if err := trigger("one"); err != nil {
			t.Errorf("a trigger at 83 %%: %v", err)
		}
		// From here on no member waits for its next look.
		s.fill(93)
		time.Sleep(spaceFresh + time.Second)
		for what, err := range map[string]error{"trigger": trigger("two"), "new job": fresh("new")} {
			if !errors.Is(err, scheduler.ErrNoRoom) || !strings.Contains(err.Error(), "93 %") {
				t.Errorf("a %s at 93 %%: %v", what, err)
			}
		}
		if err := trigger("one"); err != nil {
			t.Errorf("the repeat of a trigger at 93 %%: %v", err)
		}
		if _, err := s.any().Pause(t.Context(), manual.Name, 0); err != nil {
			t.Errorf("a pause at 93 %%: %v", err)
		}
		changed := job
		changed.Policy.Timeout = time.Minute
		if _, err := s.any().Apply(t.Context(), changed, 0); err != nil {
			t.Errorf("a change at 93 %%: %v", err)
		}
		from := s.next(10*time.Second, time.Second)
		s.until(from.Add(59 * time.Second))
		if n := len(between(s.seen(job), from, s.wall())); n != 6 {
			t.Errorf("%d starts in a minute at 93 %%, want 6", n)
		}
		s.fill(60)
		time.Sleep(spaceFresh + time.Second)
		if err := fresh("new"); err != nil {
			t.Errorf("a new job at 60 %%: %v", err)
		}
		time.Sleep(spaceEvery) // for the member that was not asked
		_, before := runs()
		time.Sleep(30 * time.Second)
		if _, after := runs(); after != before {
			t.Errorf("%d short records, %d more than before, though there is space", after, after-before)
		}
		s.checkStarts()
		s.balance(job, s.wall().Add(-12*time.Second))
	})
}

// etcdMembers answers for several members of etcd, each after its delay; a negative one never answers.
type etcdMembers struct {
	clientv3.Maintenance
	answers map[string]*clientv3.StatusResponse
	delays  map[string]time.Duration
}

// Status implements clientv3.Maintenance.
func (m etcdMembers) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	delay := m.delays[endpoint]
	if delay < 0 {
		delay = time.Hour
	}
	select {
	case <-time.After(delay):
		return m.answers[endpoint], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestTheFullestMemberOfEtcdCountsAndADeadOneDoesNotHoldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := memetcd.New(memetcd.Config{})
		defer etcd.Close()
		client := etcd.Link("many").Client(t.Context())
		client.Maintenance = etcdMembers{
			answers: map[string]*clientv3.StatusResponse{
				"one": {Version: "3.7.3", Header: &pb.ResponseHeader{Revision: 70}, DbSize: 500, DbSizeInUse: 400, DbSizeQuota: 1000},
				"two": {Version: "3.7.3", Header: &pb.ResponseHeader{Revision: 69}, DbSize: 850, DbSizeInUse: 300, DbSizeQuota: 1000, Errors: []string{"alarm"}},
				"big": {Version: "3.7.3", Header: &pb.ResponseHeader{Revision: 60}, DbSize: 2000, DbSizeInUse: 1500, DbSizeQuota: 9000},
			},
			delays: map[string]time.Duration{"one": time.Millisecond, "two": stragglers / 2, "big": 0, "dead": -1},
		}
		begin := time.Now()
		h, trouble := healthOf(statusOfAll(t.Context(), client, []string{"one", "dead", "two", "big"}))
		if took := time.Since(begin); took > stragglers+10*time.Millisecond {
			t.Errorf("a dead member held the look up for %s", took)
		}
		if h == nil || h.Share() != 85 || h.DBInUse != 300 || h.DBQuota != 1000 || h.Revision != 70 || !trouble {
			t.Errorf("got %+v, trouble %v; want the sizes of the fullest, the newest revision, and the trouble", h, trouble)
		}
		ctx, cancel := context.WithTimeout(t.Context(), statusTimeout)
		defer cancel()
		if h, _ := healthOf(statusOfAll(ctx, client, []string{"dead"})); h != nil {
			t.Errorf("nobody answered: %+v", h)
		}
	})
}
