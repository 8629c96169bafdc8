package scheduler

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Due is when the firing at an instant may begin: the instant, put off by the job's jitter. The delay
// is spread evenly by a hash of uid and instant, so that every member reckons the same; it is at most
// Schedule.Jitter and less than the distance to the next instant, so that the order is kept.
func Due(j Job, t *cron.Timetable, instant time.Time) time.Time {
	most := j.Schedule.Jitter
	if most <= 0 {
		return instant
	}
	if following := t.Next(instant); !following.IsZero() {
		most = min(most, following.Sub(instant)-time.Millisecond)
	}
	h := fnv.New64a()
	h.Write([]byte(j.UID))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(instant.Unix())))
	steps := uint64(most/time.Millisecond) + 1
	return instant.Add(time.Duration(mix(h.Sum64())%steps) * time.Millisecond)
}

// lastDue is the newest instant after the given one that is due at the latest at through, or zero.
// Jitter keeps the order, so it is the newest instant at all or the one before it.
func lastDue(j Job, t *cron.Timetable, after, through time.Time) time.Time {
	last := t.Last(after, through)
	if last.IsZero() || !Due(j, t, last).After(through) {
		return last
	}
	return t.Last(after, last.Add(-time.Second))
}

// mix spreads a hash over all its bits (the finaliser of MurmurHash3): FNV alone leaves the low bits
// of short, similar inputs alike.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}
