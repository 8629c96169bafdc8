package chaos

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// card is one kind of fault that a schedule can draw.
type card struct {
	name string
	// where it strikes: two cards of one round strike at different places, so that what is left can
	// still do its work, late.
	place place
	deal  func(d *dealer) breakage
}

type place int

const (
	atNode place = iota
	atEtcd
	atUsers
	everywhere // alone in its round
	aside      // beside several rounds: its node is left alone, and not asked to be ready
)

// dealer draws what a card leaves open.
type dealer struct {
	b    *bed
	turn int // counts rounds
	r    *rand.Rand
	seen func() int64    // what may be compacted
	away map[string]bool // nodes that are not to be asked for
	took map[string]bool // nodes that this round strikes already
}

// node draws one that is there, and that nothing strikes yet.
func (d *dealer) node() *node { return d.take(d.free()) }

// free are the nodes that are there, and that nothing strikes yet.
func (d *dealer) free() []*node {
	var fit []*node
	for _, n := range d.b.nodes {
		if !d.away[n.name] && !d.took[n.name] {
			fit = append(fit, n)
		}
	}
	return fit
}

// take draws one of some.
func (d *dealer) take(fit []*node) *node {
	n := fit[d.r.IntN(len(fit))]
	d.took[n.name] = true
	return n
}

// user draws the node whose users are struck: one that is there to answer.
func (d *dealer) user() *node { return d.node() }

// leader or follower of etcd.
func (d *dealer) member(leader bool) *etcd {
	var fit []*etcd
	for _, e := range d.b.etcds() {
		if d.b.leads(e) == leader {
			fit = append(fit, e)
		}
	}
	if len(fit) == 0 {
		fit = d.b.etcds()
	}
	return fit[d.r.IntN(len(fit))]
}

// dispatcher is the node that is elected, if it is free to be struck.
func (d *dealer) dispatcher() *node {
	if n, err := d.b.leading(); err == nil && !d.away[n.name] && !d.took[n.name] {
		d.took[n.name] = true
		return n
	}
	return d.node()
}

// between draws a duration, in steps of 100 ms.
func (d *dealer) between(least, most time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return least + time.Duration(d.r.Int64N(int64((most-least)/step)+1))*step
}

// sleepCard takes longer than any other: a short run is not dealt it unless it is asked for.
const (
	sleepCard     = "machine-sleep"
	sleepCardFrom = 8 * time.Minute
	// churnCard has the most patient of proofs.
	churnCard = "churn"
)

// deck has every kind once. A schedule goes through it in an order drawn from the seed, and then again.
func deck(b *bed) []card {
	const s, ms = time.Second, time.Millisecond
	cards := []card{
		{"node-kill", atNode, func(d *dealer) breakage { return d.b.nodeKill(d.node(), d.between(200*ms, 6*s)) }},
		{"dispatcher-kill", atNode, func(d *dealer) breakage { return d.b.nodeKill(d.dispatcher(), d.between(200*ms, 6*s)) }},
		{"supervisor-kill", atNode, func(d *dealer) breakage { return d.b.supervisorKill(d.node()) }},
		{"node-freeze-short", atNode, func(d *dealer) breakage { return d.b.nodeFreeze(d.node(), ttl/2) }},
		{"node-freeze-long", atNode, func(d *dealer) breakage { // its commands must be dead before it wakes up
			return d.b.nodeFreeze(d.amid(canceledJob), hold+ttl)
		}},
		{"machine-freeze", atNode, func(d *dealer) breakage { return d.b.machineFreeze(d.node(), d.between(ttl, 4*ttl)) }},
		{"node-term", atNode, func(d *dealer) breakage { return d.b.nodeTerm(d.node(), d.between(0, 3*s)) }},
		{"node-cut", atNode, func(d *dealer) breakage { return d.b.nodeCut(d.node(), d.between(2*s, 4*ttl)) }},
		{"replies-held", atNode, func(d *dealer) breakage {
			return d.b.halfCut(d.node(), holdReplies, "replies held", d.between(s, 3*ttl))
		}},
		{"requests-held", atNode, func(d *dealer) breakage {
			return d.b.halfCut(d.node(), holdRequests, "requests held", d.between(s, 3*ttl))
		}},
		{"requests-dropped", atNode, func(d *dealer) breakage {
			return d.b.halfCut(d.node(), dropRequests, "requests dropped", d.between(s, 2*ttl))
		}},
		{"refused", atNode, func(d *dealer) breakage { return d.b.refused(d.node(), d.between(s, 2*ttl)) }},
		{"resets", atNode, func(d *dealer) breakage { return d.b.resets(d.node(), 4) }},
		{"slow", atNode, func(d *dealer) breakage { return d.b.slowed(d.node(), d.between(50*ms, 700*ms), d.between(3*s, 8*s)) }},
		{"flapping", atNode, func(d *dealer) breakage { return d.b.flapping(d.node(), 5, d.between(500*ms, 2*s)) }},
		{"lost-replies", atNode, func(d *dealer) breakage { return d.b.lostReplies(d.node(), 4) }},
		{"one-line", atEtcd, func(d *dealer) breakage {
			return d.b.oneLine(d.node(), d.member(d.r.IntN(2) == 0), d.between(2*s, 8*s))
		}},
		{"member-lease", atNode, func(d *dealer) breakage { return d.b.revoke(d.node(), false) }},
		{"lock-lease", atNode, func(d *dealer) breakage { return d.b.revoke(d.node(), true) }},
		{"clock-ahead-a-little", atNode, func(d *dealer) breakage {
			return d.b.clock(d.node(), "F31", history.ClockDrift, []time.Duration{-300 * ms, 300 * ms}[d.r.IntN(2)], 0, 5*s)
		}},
		{"clock-step", aside, func(d *dealer) breakage {
			ahead := []time.Duration{-time.Hour, -6 * s, -2 * s, 2 * s, 6 * s, time.Hour, 24 * time.Hour}[d.r.IntN(7)]
			return d.b.clock(d.node(), "F32", history.ClockStep, ahead, 0, d.between(2*s, 25*s))
		}},
		{churnCard, atNode, func(d *dealer) breakage { return d.b.churn(fmt.Sprintf("guest%d", d.turn), d.between(2*s, 6*s)) }},
		{"users-lose-replies", atUsers, func(d *dealer) breakage {
			return d.b.usersLine(d.user(), dropReplies, "replies dropped", d.between(2*s, 6*s))
		}},
		{"users-cut", atUsers, func(d *dealer) breakage { return d.b.usersLine(d.user(), blackHole, "cut", d.between(2*s, 6*s)) }},
		{"etcd-pulses", atEtcd, func(d *dealer) breakage { return d.b.memberPulses(d.member(d.r.IntN(2) == 0), 15, 200*ms) }},
		{"all-killed", everywhere, func(d *dealer) breakage { return d.b.allKilled(d.between(0, 6*s)) }},
		{"clock-drift", atNode, func(d *dealer) breakage { return d.b.clock(d.node(), "F33", history.ClockDrift, 0, 0.02, 8*s) }},
		{"leader-kill", atEtcd, func(d *dealer) breakage {
			return d.b.memberKill(d.member(true), syscall.SIGKILL, d.between(s, 5*s))
		}},
		{"follower-kill", atEtcd, func(d *dealer) breakage {
			return d.b.memberKill(d.member(false), syscall.SIGKILL, d.between(s, 5*s))
		}},
		{"leader-term", atEtcd, func(d *dealer) breakage {
			return d.b.memberKill(d.member(true), syscall.SIGTERM, d.between(s, 5*s))
		}},
		{"leader-freeze", atEtcd, func(d *dealer) breakage { return d.b.memberFreeze(d.member(true), d.between(2*s, 2*ttl)) }},
		{"follower-freeze", atEtcd, func(d *dealer) breakage { return d.b.memberFreeze(d.member(false), d.between(s, 2*ttl)) }},
		{"leader-partition", atEtcd, func(d *dealer) breakage { return d.b.etcdPartition(d.member(true), d.between(4*s, 8*s)) }},
		{"follower-partition", atEtcd, func(d *dealer) breakage { return d.b.etcdPartition(d.member(false), d.between(3*s, 8*s)) }},
		{"maintenance", atEtcd, func(d *dealer) breakage { return d.b.maintenance() }},
		{"compaction", atEtcd, func(d *dealer) breakage { return d.b.compaction(d.seen, 8) }},
		{"quorum-lost", everywhere, func(d *dealer) breakage {
			all := d.b.etcds()
			d.r.Shuffle(3, func(i, j int) { all[i], all[j] = all[j], all[i] })
			return d.b.quorumLost([2]*etcd{all[0], all[1]}, d.between(s, 4*ttl))
		}},
		{"no-space", everywhere, func(d *dealer) breakage { return d.b.noSpace(d.seen, d.between(2*s, 3*ttl)) }},
	}
	if b.disk != "" {
		cards = append(cards, card{"disk-full", everywhere, func(d *dealer) breakage {
			return d.b.diskFull(d.b.nodes[2], d.b.disk, d.between(3*s, 8*s))
		}})
	}
	cards = append(cards, card{sleepCard, everywhere, func(d *dealer) breakage { return d.b.machineSleep(d.busy(sleepers)) }})
	for _, point := range points {
		cards = append(cards, card{point, atNode, func(d *dealer) breakage {
			orders := []string{"kill", "hang 2s", "hang 6s", "leave"}
			if point == "after-exec" || point == "after-exit" {
				orders = orders[:3] // the supervisor does not leave
			}
			order := orders[d.r.IntN(len(orders))]
			return d.b.failPoint(d.node(), point, order, d.between(s, 4*s))
		}})
	}
	return cards
}
