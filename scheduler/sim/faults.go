package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// faultAction is what goes wrong with a member, or what mends it.
func (c Command) faultAction() (action, error) {
	a, err := c.arguments(-1, "folder")
	if err != nil {
		return nil, err
	}
	if len(a.names) == 0 {
		return nil, fmt.Errorf("%s takes a member", c.Verb)
	}
	fault, err := c.fault(a.names[1:], a.named["folder"] != "lost")
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		m := w.member(a.names[0])
		if m == nil {
			return fmt.Errorf("there is no member %s", a.names[0])
		}
		return fault(w, m)
	}, nil
}

// fault is what happens to a member.
type fault func(w *world, m *member) error

// done makes a fault of what cannot fail.
func done(do func(m *member)) fault {
	return func(_ *world, m *member) error {
		do(m)
		return nil
	}
}

func (c Command) fault(rest []string, folder bool) (fault, error) {
	word := ""
	if len(rest) > 0 {
		word = rest[0]
	}
	switch c.Verb {
	case "crash":
		return done(func(m *member) { m.crash(folder) }), takes(rest, 0)
	case "restart":
		return done((*member).start), takes(rest, 0)
	case "drain":
		return done((*member).drain), takes(rest, 0)
	case "heal":
		return done((*member).heal), takes(rest, 0)
	case "deaf":
		return done((*member).deafen), takes(rest, 0)
	case "cut":
		if word != "" && word != "requests" && word != "replies" {
			return nil, errors.New("cut severs both directions, or requests, or replies")
		}
		return done(func(m *member) { m.cut(word != "replies", word != "requests") }), takes(rest, len(rest))
	case "revoke":
		if word != "member" && word != "locks" {
			return nil, errors.New("revoke takes member or locks")
		}
		return done(func(m *member) { m.revokeOutside(word) }), takes(rest, 1)
	case "panic":
		return panicFault(rest)
	case "lose", "delay":
		return c.order(rest)
	}
	d, err := time.ParseDuration(word)
	if err != nil || len(rest) != 1 {
		return nil, fmt.Errorf("%s takes a member and a duration", c.Verb)
	}
	return done(func(m *member) {
		switch c.Verb {
		case "slow":
			m.slow(d)
		case "stall":
			m.stall(d)
		case "freeze":
			m.freeze(d)
		default:
			m.step(d)
		}
	}), nil
}

func takes(rest []string, n int) error {
	if len(rest) != n {
		return fmt.Errorf("takes %d words after the member, not %d", n, len(rest))
	}
	return nil
}

// panicFault has a member forget its next grant, of a job or of any.
func panicFault(rest []string) (fault, error) {
	if len(rest) > 1 {
		return nil, errors.New("panic takes a member and perhaps a job")
	}
	name := ""
	if len(rest) == 1 {
		name = rest[0]
	}
	return done(func(m *member) { m.crashes = append(m.crashes, name) }), nil
}

// requestKinds are what a loss or delay can be ordered for.
var requestKinds = []string{"begin", "skip", "miss", "lose", "fold", "sweep", "resolve", "finish", "late", "read", "look", "list", "keep-alive", "publish", "any"}

// order is a loss or a delay of the next request of a kind.
func (c Command) order(rest []string) (fault, error) {
	if len(rest) < 2 || len(rest) > 3 || !slices.Contains(requestKinds, rest[1]) {
		return nil, fmt.Errorf("%s takes a member, %s, one of %v, and perhaps a job", c.Verb,
			map[string]string{"lose": "request or reply", "delay": "a duration"}[c.Verb], requestKinds)
	}
	o := order{kind: rest[1]}
	if o.kind == "any" {
		o.kind = ""
	}
	if c.Verb == "lose" {
		if o.lose = rest[0]; o.lose != "request" && o.lose != "reply" {
			return nil, errors.New("lose takes request or reply")
		}
	} else {
		d, err := time.ParseDuration(rest[0])
		if err != nil {
			return nil, err
		}
		o.delay = d
	}
	return func(w *world, m *member) error {
		if len(rest) == 3 {
			if o.job = w.find(rest[2]); o.job == nil {
				return fmt.Errorf("there is no job %s", rest[2])
			}
		}
		m.link.orders = append(m.link.orders, o)
		w.count("order")
		return nil
	}, nil
}

// deafen has the watches of a member lose what they should tell.
func (m *member) deafen() {
	m.world.tell(m.name, "is deaf: its watches lose events")
	m.world.count("deaf")
	m.link.deaf = true
}

// slow adds to the time that each message travels.
func (m *member) slow(d time.Duration) {
	m.world.tell(m.name, "has a slow link: %s more each way", d)
	m.world.count("slow link")
	m.link.slow = d
}

// revokeOutside has somebody revoke a lease of the member.
func (m *member) revokeOutside(what string) {
	m.world.tell("somebody", "revokes the %s lease of %s", what, m.name)
	m.world.count("revoked")
	m.world.trouble(0)
	if what == "member" && m.memberLease != nil {
		m.world.etcd.revoke(m.memberLease)
	}
	if what == "locks" {
		for _, s := range slices.Clone(m.sessions) {
			m.world.etcd.revoke(s.lease)
		}
	}
}
