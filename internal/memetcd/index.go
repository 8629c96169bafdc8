package memetcd

import "slices"

// maxChunk is the number of items after which a chunk of the index is split: small enough that
// an insertion moves little memory, large enough that a million keys are a few thousand chunks.
const maxChunk = 256

// version is one value, or the tombstone, that a key had from revision mod on.
type version struct {
	mod, create, count int64
	lease              int64
	value              []byte
	dead               bool
}

// item is one key with the versions that compaction has left of it, oldest first.
type item struct {
	key      string
	versions []version
}

// current is the newest version, or nil if the key does not exist now.
func (it *item) current() *version {
	if len(it.versions) == 0 {
		return nil
	}
	v := &it.versions[len(it.versions)-1]
	if v.dead {
		return nil
	}
	return v
}

// at is the version that was current at the end of revision rev, or nil.
func (it *item) at(rev int64) *version {
	i, _ := slices.BinarySearchFunc(it.versions, rev+1, func(v version, rev int64) int {
		if v.mod < rev {
			return -1
		}
		return 1
	})
	if i == 0 || it.versions[i-1].dead {
		return nil
	}
	return &it.versions[i-1]
}

// span is a set of keys as etcd's requests name them: one key, [from, to), or everything from a key on.
type span struct {
	from, to string
	one, all bool
}

// spanOf reads key and range end of a request: no end is one key, a single zero byte is "from key on".
func spanOf(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{from: string(key), one: true}
	case len(end) == 1 && end[0] == 0:
		return span{from: string(key), all: true}
	}
	return span{from: string(key), to: string(end)}
}

func (r span) holds(key string) bool {
	if r.one {
		return key == r.from
	}
	return key >= r.from && (r.all || key < r.to)
}

// index holds items in the order of their keys: a list of sorted chunks.
type index struct {
	chunks [][]*item
}

// seek answers the place of the first item whose key is not smaller than key.
func (x *index) seek(key string) (chunk, place int) {
	chunk, _ = slices.BinarySearchFunc(x.chunks, key, func(c []*item, key string) int {
		if c[len(c)-1].key < key {
			return -1
		}
		return 1
	})
	if chunk == len(x.chunks) {
		return chunk, 0
	}
	place, _ = slices.BinarySearchFunc(x.chunks[chunk], key, func(it *item, key string) int {
		if it.key < key {
			return -1
		}
		return 1
	})
	return chunk, place
}

func (x *index) find(key string) *item {
	c, i := x.seek(key)
	if c == len(x.chunks) || x.chunks[c][i].key != key {
		return nil
	}
	return x.chunks[c][i]
}

// insert adds an item whose key is not in the index.
func (x *index) insert(it *item) {
	c, i := x.seek(it.key)
	if len(x.chunks) == 0 {
		x.chunks = [][]*item{{it}}
		return
	}
	if c == len(x.chunks) {
		c--
		i = len(x.chunks[c])
	}
	x.chunks[c] = slices.Insert(x.chunks[c], i, it)
	if n := len(x.chunks[c]); n > maxChunk {
		tail := slices.Clone(x.chunks[c][n/2:])
		clear(x.chunks[c][n/2:])
		x.chunks[c] = x.chunks[c][:n/2]
		x.chunks = slices.Insert(x.chunks, c+1, tail)
	}
}

func (x *index) remove(key string) {
	c, i := x.seek(key)
	if c == len(x.chunks) || x.chunks[c][i].key != key {
		return
	}
	x.chunks[c] = slices.Delete(x.chunks[c], i, i+1)
	if len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
}

// visit calls f for each item of the span in order. f must not change the index.
func (x *index) visit(r span, f func(*item)) {
	if r.one {
		if it := x.find(r.from); it != nil {
			f(it)
		}
		return
	}
	c, i := x.seek(r.from)
	for ; c < len(x.chunks); c, i = c+1, 0 {
		for ; i < len(x.chunks[c]); i++ {
			it := x.chunks[c][i]
			if !r.all && it.key >= r.to {
				return
			}
			f(it)
		}
	}
}
