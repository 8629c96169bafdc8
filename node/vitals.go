package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Ready says whether this member does its work, with every condition. It answers from memory.
func (n *Node) Ready() scheduler.Readiness {
	r := scheduler.Readiness{Ready: true}
	check := func(name string, ok bool, detail string) {
		if ok {
			detail = ""
		}
		r.Checks = append(r.Checks, scheduler.Check{Name: name, OK: ok, Detail: detail})
		r.Ready = r.Ready && ok
	}
	waiting := n.waiting.Load()
	if waiting == nil || *waiting != "" {
		reason := "not started yet"
		if waiting != nil {
			reason = *waiting
		}
		check("etcd", false, reason)
		return r
	}
	s := n.sessions.Status()
	check("sessions", len(s.Reasons) == 0, strings.Join(s.Reasons, "; "))
	check("rules", n.rules.Load() != nil, "the assignments have not been read yet")
	check("assignment", n.assigned.Load(), "no assignment names this member yet")
	check("shards", n.loaded.Load(), "some owned shards have not been read yet")
	trouble := ""
	if t := n.pulse.trouble.Load(); t != nil {
		trouble = *t
	}
	check("claims", trouble == "", "etcd refuses them: "+trouble)
	check("clock", n.trusted.Load(), "the wall clock has stepped; nothing is planned until it has stood for a minute")
	check("draining", !n.draining.Load(), "this member hands its shards over and takes no new ones")
	if err := n.Alive(); err != nil {
		check("loop", false, err.Error())
	}
	return r
}

// Alive is nil while the loop turns.
func (n *Node) Alive() error {
	turned := time.Duration(n.pulse.turn.Load())
	if turned == 0 {
		return nil // not running yet: that is Ready's business
	}
	if since := n.cfg.Clock().Elapsed - turned; since > n.cfg.SessionTTL {
		return fmt.Errorf("the loop has not turned for %s", since.Round(time.Millisecond))
	}
	return nil
}

// full says whether a kind of attempt has no room left.
func (n *Node) full() bool {
	return n.held.count(commands) >= n.cfg.Capacity || n.held.count(handlers) >= n.cfg.HandlerCapacity
}
