package scheduler

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
)

// maxMembers is how many members one pool's shards can be given to: an owner is one byte, 0 is none.
const maxMembers = 255

// Assign gives every shard of the pool to one of its members, as evenly as can be: any two differ by at
// most one shard. It keeps what it can of prev (nil if there is none): when a member joins, shards
// move to it alone; when one leaves, only its own shards move. A member that was started again is the
// same member under its new ID. Among those with room a shard goes to the first in rendezvous order,
// a hash of member name and shard, so that a member that returns finds much of what it had.
//
// Draining members get nothing as long as there is another; if all are draining they share. The order
// of the members does not matter. Of more than 255 the oldest are taken.
func Assign(prev *Assignment, members []Member, pool Pool) Assignment {
	taking := eligible(members, pool)
	next := Assignment{Pool: pool.ID}
	place := map[string]int{}
	for i, m := range taking {
		next.Members = append(next.Members, m.ID())
		place[m.Name] = i
	}
	if len(taking) == 0 {
		return next
	}
	b := balance{owner: [ShardCount]int{}, load: make([]int, len(taking)), names: make([]string, len(taking))}
	for i, m := range taking {
		b.names[i] = m.Name
	}
	for s := range b.owner {
		b.owner[s] = -1
		if prev == nil {
			continue
		}
		if i, here := place[memberName(prev.Owner(Shard(s)))]; here {
			b.owner[s] = i
			b.load[i]++
		}
	}
	b.shed()
	b.give()
	for s, i := range b.owner {
		next.Owners[s] = uint8(i + 1)
	}
	return next
}

// Owner is the ID of the member that owns the shard, or "" if nobody does.
func (a Assignment) Owner(s Shard) string {
	i := int(a.Owners[s])
	if i == 0 || i > len(a.Members) {
		return ""
	}
	return a.Members[i-1]
}

// memberName is the name in a member's ID: what stays the same when it is started again.
func memberName(id string) string {
	name, _, _ := strings.Cut(id, "#")
	return name
}

// eligible are the members that may own shards of the pool, by name. Of two with one name the later
// start counts: the other is what is left of a process that is gone.
func eligible(members []Member, pool Pool) []Member {
	byName := map[string]Member{}
	for _, m := range members {
		if have, ok := byName[m.Name]; pool.Matches(m) && (!ok || have.Incarnation < m.Incarnation) {
			byName[m.Name] = m
		}
	}
	var staying, draining []Member
	for _, m := range byName {
		if m.Draining {
			draining = append(draining, m)
		} else {
			staying = append(staying, m)
		}
	}
	if len(staying) == 0 {
		staying = draining
	}
	slices.SortFunc(staying, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.CreateRevision, b.CreateRevision), strings.Compare(a.Name, b.Name))
	})
	staying = staying[:min(len(staying), maxMembers)]
	slices.SortFunc(staying, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return staying
}

// balance is the work of one Assign. Members are numbered in order of name.
type balance struct {
	names []string
	load  []int
	owner [ShardCount]int // member, or -1
}

// floor is the load of most members; so many of them as the division leaves over have one more.
func (b *balance) floor() (load, oneMore int) {
	return ShardCount / len(b.names), ShardCount % len(b.names)
}

// shed takes from members what is beyond their share. The fullest keep the one shard more, for that
// moves least; each gives up the shards that stand lowest in its own rendezvous order.
func (b *balance) shed() {
	floor, oneMore := b.floor()
	order := make([]int, len(b.names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(b.load[k], b.load[i]) })
	for _, i := range order {
		share := floor
		if oneMore > 0 && b.load[i] > floor {
			share++
			oneMore--
		}
		for _, s := range b.shardsOf(i)[:max(b.load[i]-share, 0)] {
			b.owner[s] = -1
			b.load[i]--
		}
	}
}

// give hands each shard without owner to the first in its rendezvous order that is below its share.
func (b *balance) give() {
	floor, oneMore := b.floor()
	for _, load := range b.load {
		if load > floor {
			oneMore--
		}
	}
	for s, owner := range b.owner {
		if owner >= 0 {
			continue
		}
		best, bestScore := -1, uint64(0)
		for i, name := range b.names {
			if b.load[i] > floor || b.load[i] == floor && oneMore == 0 {
				continue
			}
			if sc := score(name, Shard(s)); best < 0 || sc > bestScore {
				best, bestScore = i, sc
			}
		}
		if b.load[best] == floor {
			oneMore--
		}
		b.owner[s] = best
		b.load[best]++
	}
}

// shardsOf are the shards of member i, those first that it is the least suited to by rendezvous.
func (b *balance) shardsOf(i int) []int {
	var list []int
	for s, owner := range b.owner {
		if owner == i {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(s, t int) int {
		return cmp.Or(cmp.Compare(score(b.names[i], Shard(s)), score(b.names[i], Shard(t))), cmp.Compare(s, t))
	})
	return list
}

// score ranks members for a shard. It is by name, not by ID: a member that was started again must find
// the same shards.
func score(member string, s Shard) uint64 {
	h := fnv.New64a()
	h.Write([]byte(member))
	h.Write([]byte{'/', byte(s)})
	return mix(h.Sum64())
}
