package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Entry is the new entry of a begin: what is granted. It is false for every other kind.
func (d Decision) Entry() (Entry, bool) {
	i := d.granted()
	if i < 0 {
		return Entry{}, false
	}
	return d.Next.Entries[i], true
}

// Grant fills in what planning cannot know of the attempt that a begin grants: who will run it, the
// nonce drawn for this very request, and TTL + grace of the lock lease it is sent under. Other kinds
// come back as they are. d is not changed.
func (d Decision) Grant(member, nonce string, hold time.Duration) Decision {
	i := d.granted()
	if i < 0 {
		return d
	}
	d.Next.Entries = slices.Clone(d.Next.Entries)
	e := &d.Next.Entries[i]
	e.Member, e.Nonce, e.Hold = member, nonce, hold
	return d
}

func (d Decision) granted() int {
	if d.Kind != KindBegin {
		return -1
	}
	return slices.IndexFunc(d.Next.Entries, func(e Entry) bool {
		return e.Firing == d.Firing && e.Attempt == d.Attempt && e.Token == 0
	})
}

// String is one line of a trace: what is decided about which firing or instants, and why.
//
//	begin default/report 01j…@2026-12-24T18:00:00Z attempt 1 slot 3
//	skip default/report 01j…@2026-12-24T18:05:00Z SKIPPED(overlap) because of 01j…@2026-12-24T18:00:00Z
//	miss default/report 42 instants 2026-12-24T17:00:00Z…2026-12-24T17:59:00Z MISSED(catch-up policy) fold 1
func (d Decision) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", d.Kind, d.Job)
	switch {
	case d.Firing != Firing{}:
		fmt.Fprintf(&b, " %s", d.Firing)
	case !d.First.IsZero():
		fmt.Fprintf(&b, " %d instants %s…%s", d.Instants, d.First.Format(time.RFC3339), d.Last.Format(time.RFC3339))
	}
	if d.Attempt > 0 {
		fmt.Fprintf(&b, " attempt %d slot %d", d.Attempt, d.Slot)
	}
	if d.Verdict != "" {
		fmt.Fprintf(&b, " %s", d.Verdict)
	}
	if d.Reason != "" {
		fmt.Fprintf(&b, "(%s)", d.Reason)
	}
	for i, blame := range d.Blame {
		b.WriteString([]string{" because of ", ", "}[min(i, 1)])
		b.WriteString(blame.Firing.String())
	}
	if d.Excluded > 0 {
		fmt.Fprintf(&b, " after %d excluded", d.Excluded)
	}
	if len(d.Folded) > 0 {
		fmt.Fprintf(&b, " fold %d", len(d.Folded))
	}
	return b.String()
}
