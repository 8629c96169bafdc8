package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// PoolOf is the pool whose members may run the job. A tombstone runs nothing any more, and any member can
// settle it: its own pool may have lost its last member with the attempt that is to be settled, and the name
// would be taken for ever.
func PoolOf(j Job) Pool {
	if j.Tombstone() {
		return Pool{ID: PoolAll}
	}
	p := Pool{Selector: j.Target.Selector}
	if j.Run.Handler != nil {
		p.Handler = j.Run.Handler.Name
	}
	p.ID = p.id()
	return p
}

// Matches says whether the member belongs to the pool: it has every label of the selector, and has
// registered the handler.
func (p Pool) Matches(m Member) bool {
	for key, value := range p.Selector {
		if have, ok := m.Labels[key]; !ok || have != value {
			return false
		}
	}
	return p.Handler == "" || slices.Contains(m.Handlers, p.Handler)
}

// id is a short hash of the content in one canonical form: pools are stored under it and never change.
// Each part is preceded by its length, so that no two contents have the same form.
func (p Pool) id() string {
	if len(p.Selector) == 0 && p.Handler == "" {
		return PoolAll
	}
	var form []byte
	add := func(s string) {
		form = binary.AppendUvarint(form, uint64(len(s)))
		form = append(form, s...)
	}
	add(p.Handler)
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		add(key)
		add(p.Selector[key])
	}
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:8])
}
