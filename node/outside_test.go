package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
)

// This file is about what is done to the keys of a cluster from outside: by hand, by a newer version, by a
// restore of etcd.

// remove deletes what lies below a key, as somebody with etcdctl does.
func (s *scene) remove(key string) {
	s.t.Helper()
	if _, err := s.etcd.Client(s.t.Context()).Delete(s.t.Context(), "/quorumcron/"+key, clientv3.WithPrefix()); err != nil {
		s.t.Fatal(err)
	}
}

func TestRulesThatSomebodyRemovedAreMadeAgain(t *testing.T) {
	for _, key := range []string{"rules/head", "rules/"} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
				defer s.close()
				job := s.apply(ticking("second", time.Second, "20ms"))
				time.Sleep(5 * time.Second)
				asked := s.etcd.Stats().Txns
				s.remove(key)
				time.Sleep(10 * time.Second)
				after := between(s.seen(job), s.wall().Add(-8*time.Second), s.wall())
				if len(after) != 8 || latest(after) > time.Second {
					t.Errorf("%d starts in the last 8 s, up to %s late; want 8", len(after), latest(after))
				}
				if n := s.etcd.Stats().Txns - asked; n > 100 {
					t.Errorf("%d transactions in 10 s: claims that are refused are tried again at once", n)
				}
				s.checkStarts()
			})
		})
	}
}

func TestDefinitionThatSomebodyRemovedCanBeAppliedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(rarely("report", "20s"))
		time.Sleep(time.Second)
		before := s.trigger(job)
		s.remove("jobs/")
		time.Sleep(time.Second)
		job = s.apply(job)
		time.Sleep(time.Minute)
		s.want(job, map[string]int64{"SUCCEEDED": 1})
		if s.trigger(job); job.UID != before.id.Firing.UID {
			t.Errorf("uid %s, want that of the attempt in flight, %s", job.UID, before.id.Firing.UID)
		}
		s.checkStarts()
	})
}

func TestMemberThatWasAwayWhileTheFormatRoseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("second", time.Second, "20ms"))
		old := s.members["b"]
		old.link.Cut()
		time.Sleep(time.Minute)
		// What the dispatcher of a newer version does when every member supports a higher format.
		value, err := proto.Marshal(&storedv1.Meta{ClusterId: "any", Format: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.etcd.Client(t.Context()).Put(t.Context(), "/quorumcron/meta", string(value)); err != nil {
			t.Fatal(err)
		}
		old.link.Mend()
		healed := s.wall()
		select {
		case err := <-old.done:
			if !errors.Is(err, ErrFormat) {
				t.Errorf("it ended with %v, want ErrFormat", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a member that cannot read the format in force goes on")
		}
		delete(s.members, "b")
		old.end()
		for _, g := range s.granted(job) {
			if g.by == "b" && !g.at.Before(healed) {
				t.Errorf("%s was granted to it at %s", g.firing, g.at)
			}
		}
	})
}

func TestRestoredEtcdEndsProcessesThatRememberMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "2026-03-10T12:00:00Z", "a", "b")
		defer s.close()
		job := s.apply(ticking("second", time.Second, "20ms"))
		time.Sleep(5 * time.Second)
		snapshot := s.etcd.Rev()
		time.Sleep(10 * time.Second)
		s.add("c")
		time.Sleep(20 * time.Second)
		s.etcd.Restore(snapshot)
		restored := s.wall()
		ended := 0
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
			for name, m := range s.members {
				select {
				case err := <-m.done:
					if !errors.Is(err, ErrHistory) {
						t.Errorf("member %s ended with %v, want ErrHistory", name, err)
					}
					ended++
					m.end()
					s.add(name) // as a service manager does
				default:
				}
			}
		}
		if ended == 0 {
			t.Error("no process noticed that etcd has gone back")
		}
		if last := between(s.seen(job), s.wall().Add(-10*time.Second), s.wall()); len(last) != 10 || latest(last) > time.Second {
			t.Errorf("%d starts in the last 10 s, up to %s late; want 10 (restored at %s)", len(last), latest(last), restored)
		}
	})
}
