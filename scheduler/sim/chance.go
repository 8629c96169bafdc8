package sim

import "time"

// chance is a stream of random numbers that belongs to one thing: the messages between one member and
// etcd about one job, the run of one attempt. What a thing meets by chance therefore does not depend on
// what else there is in the world, so that a job or a fault taken out of a script leaves the rest of
// its history nearly as it was. Without that no failing script could be made shorter.
type chance struct{ state uint64 }

// chanceOf names a stream.
func chanceOf(seed uint64, of string, numbers ...int64) chance {
	h := mix(seed ^ hashText(of))
	for _, n := range numbers {
		h = mix(h ^ uint64(n))
	}
	return chance{h}
}

// next is splitmix64.
func (c *chance) next() uint64 {
	c.state += 0x9e3779b97f4a7c15
	return mix(c.state)
}

// within draws from [from, to), or from where the two are the same.
func (c *chance) within(from, to time.Duration) time.Duration {
	if from >= to {
		return from
	}
	return from + time.Duration(c.next()%uint64(to-from))
}

func (c *chance) below(n int) int { return int(c.next() % uint64(n)) }

// mix spreads a number over all its bits (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashText is FNV-1a.
func hashText(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
