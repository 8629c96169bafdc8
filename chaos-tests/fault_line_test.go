package chaos

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// Faults of lines: between a node and etcd, between users and a node. The proof is always what the
// proxies counted.

// toEtcd are the lines from a node to all members of etcd.
func (b *bed) toEtcd(n *node) []*proxy {
	var all []*proxy
	for _, e := range b.etcds() {
		all = append(all, b.wires[n.name][e.name])
	}
	return all
}

func sum(all []*proxy) counts {
	var total counts
	add := func(to *tally, t tally) { *to = tally{to.passed + t.passed, to.held + t.held, to.dropped + t.dropped} }
	for _, p := range all {
		c := p.sum()
		add(&total.requests, c.requests)
		add(&total.replies, c.replies)
		total.resets += c.resets
	}
	return total
}

// onLines is a fault of some lines, which is proved by what they count.
func onLines(f history.Fault, lines []*proxy, l line, lasts time.Duration, proves func(counts) bool) breakage {
	var before counts
	return breakage{
		Fault: f, lasts: lasts,
		inject: func() error {
			before = sum(lines)
			for _, p := range lines {
				p.set(l)
			}
			return nil
		},
		proof: func() string {
			if now := sum(lines).minus(before); proves(now) {
				return now.String()
			}
			return ""
		},
		heal: func() error {
			for _, p := range lines {
				p.set(pass)
			}
			return nil
		},
	}
}

// nodeCut moves nothing between a node and etcd.
func (b *bed) nodeCut(n *node, lasts time.Duration) breakage {
	return onLines(onNode("F11", history.NodeCut, n, "black hole for %s", lasts), b.toEtcd(n), blackHole, lasts,
		func(c counts) bool { return c.requests.held > 0 })
}

// halfCut moves nothing one way, and everything the other.
func (b *bed) halfCut(n *node, l line, what string, lasts time.Duration) breakage {
	return onLines(onNode("F12", history.NodeHalfCut, n, "%s for %s", what, lasts), b.toEtcd(n), l, lasts, func(c counts) bool {
		way, other := c.requests, c.replies
		if l.replies != passes {
			way, other = other, way
		}
		return way.held+way.dropped > 0 && other.held+other.dropped == 0
	})
}

// refused ends the lines from a node to etcd, and takes no new ones.
func (b *bed) refused(n *node, lasts time.Duration) breakage {
	return onLines(onNode("F13", history.NodeRefused, n, "refused for %s", lasts), b.toEtcd(n), refuse, lasts,
		func(c counts) bool { return c.resets > 0 })
}

// resets ends the lines from a node to etcd so many times, and takes new ones at once.
func (b *bed) resets(n *node, times int) breakage {
	f := onLines(onNode("F13", history.NodeReset, n, "reset %d times", times), b.toEtcd(n), pass, 0,
		func(c counts) bool { return c.resets >= times })
	begin := f.inject
	f.inject = func() error {
		if err := begin(); err != nil {
			return err
		}
		for range times {
			for _, p := range b.toEtcd(n) {
				p.reset()
			}
			time.Sleep(700 * time.Millisecond)
		}
		return nil
	}
	return f
}

// slowed delays everything between a node and etcd. It is proved by a round trip.
func (b *bed) slowed(n *node, delay, lasts time.Duration) breakage {
	f := onLines(onNode("F14", history.Slow, n, "each way %s ± half of it, for %s", delay, lasts), b.toEtcd(n), slow(delay, delay/2), lasts,
		func(counts) bool { return true })
	f.proof = func() string {
		client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		for _, p := range b.toEtcd(n) { // a member may be gone
			began := time.Now()
			answer, err := client.Get("http://" + p.address + "/health")
			if err != nil {
				continue
			}
			answer.Body.Close()
			if took := time.Since(began); took >= delay {
				return fmt.Sprintf("a round trip takes %s", took.Round(time.Millisecond))
			}
		}
		return ""
	}
	return f
}

// flapping cuts a node off again and again, for a while each.
func (b *bed) flapping(n *node, times int, cut time.Duration) breakage {
	f := onLines(onNode("F15", history.Slow, n, "cut off %d times for %s", times, cut), b.toEtcd(n), blackHole, 0,
		func(c counts) bool { return c.requests.held > 0 })
	inject, heal := f.inject, f.heal
	f.inject = func() error {
		for i := range times {
			if i == 0 {
				if err := inject(); err != nil {
					return err
				}
			}
			for _, p := range b.toEtcd(n) {
				p.set(blackHole)
			}
			time.Sleep(cut)
			if err := heal(); err != nil {
				return err
			}
			time.Sleep(cut)
		}
		return nil
	}
	return f
}

// lostReplies lets what a node asks of etcd through at so many instants, and drops what is answered.
func (b *bed) lostReplies(n *node, times int) breakage {
	const before, after = 20 * time.Millisecond, 400 * time.Millisecond
	f := onLines(onNode("F16", history.LostReplies, n, "around %d instants", times), b.toEtcd(n), pass, 0,
		func(c counts) bool { return c.replies.dropped > 0 && c.requests.passed > 0 })
	begin := f.inject
	f.inject = func() error {
		if err := begin(); err != nil {
			return err
		}
		for range times {
			due := time.Now().Truncate(time.Second).Add(time.Second)
			sleepUntil(due.Add(-before))
			for _, p := range b.toEtcd(n) {
				p.set(dropReplies)
			}
			sleepUntil(due.Add(after))
			for _, p := range b.toEtcd(n) {
				p.set(pass)
			}
			time.Sleep(time.Second)
		}
		return nil
	}
	return f
}

// usersLine is a fault of the line between users and a node. What the cluster does is not touched by it:
// its kind is none that excuses anything.
func (b *bed) usersLine(n *node, l line, what string, lasts time.Duration) breakage {
	f := history.Fault{ID: "F16", Kind: "users-line", Detail: fmt.Sprintf("users to %s: %s for %s", n.name, what, lasts)}
	return onLines(f, []*proxy{b.fronts[n.name]}, l, lasts, func(c counts) bool {
		return c.requests.held+c.requests.dropped+c.replies.held+c.replies.dropped > 0
	})
}

// oneLine holds what one member of etcd answers to one node: watches and calls there stand still, while
// the others work. Nobody need notice: two of three answer.
func (b *bed) oneLine(n *node, e *etcd, lasts time.Duration) breakage {
	return onLines(onNode("F17", history.Slow, n, "replies of %s held for %s", e.name, lasts), []*proxy{b.wires[n.name][e.name]}, holdReplies, lasts,
		func(c counts) bool { return c.replies.held > 0 })
}

// etcdPartition cuts a member of etcd off from the other two; whoever talks to it, and its own clients,
// are not.
func (b *bed) etcdPartition(e *etcd, lasts time.Duration) breakage {
	var before counts
	var once sync.Once
	all := func() []*proxy { return []*proxy{b.peers["etcd1"], b.peers["etcd2"], b.peers["etcd3"]} }
	set := func(l line) error {
		for name, p := range b.peers {
			if name == e.name {
				p.set(l)
			} else {
				p.setFor(e.name, l)
			}
		}
		return nil
	}
	wasLeader := false
	return breakage{
		Fault: onMember("F45", history.EtcdPartition, e, "the %s, cut off from its peers for %s", b.role(e), lasts), lasts: lasts,
		inject: func() error {
			once.Do(func() { before = sum(all()) })
			wasLeader = b.leads(e)
			return set(blackHole)
		},
		proof: func() string {
			now := sum(all()).minus(before)
			if now.requests.held+now.replies.held == 0 || wasLeader && !b.othersLead(e) {
				return ""
			}
			if wasLeader {
				return "another leads; " + now.String()
			}
			return now.String()
		},
		heal: func() error { return set(pass) },
	}
}
