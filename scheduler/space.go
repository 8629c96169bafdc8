package scheduler

import (
	"fmt"
	"time"
)

// SpaceLevel is what is written to etcd, as the share of its quota allows. Each level keeps the last
// bytes for what cannot be left out: the verdicts of what was granted.
type SpaceLevel string

const (
	// SpaceNormal: nothing is held back.
	SpaceNormal SpaceLevel = "normal"
	// SpaceTight: records are written in short form (Run.Shortened).
	SpaceTight SpaceLevel = "tight"
	// SpaceFull: besides, no new job and no trigger is taken.
	SpaceFull SpaceLevel = "full"
)

// The shares of the quota, in percent, from which a level holds. It is left again spaceBack below, so
// that a database which breathes around a bound does not change the rules with each breath.
const (
	TightShare = 80
	FullShare  = 90
	spaceBack  = 3
)

// Next is the level that follows at a share of the quota. An alarm for want of space is as good as a
// full database, whatever the sizes say: etcd refuses every put until it is cleared.
func (l SpaceLevel) Next(share int, noSpace bool) SpaceLevel {
	from := func(bound int, held bool) bool {
		if held {
			bound -= spaceBack
		}
		return share >= bound
	}
	switch {
	case noSpace, from(FullShare, l == SpaceFull):
		return SpaceFull
	case from(TightShare, l == SpaceTight || l == SpaceFull):
		return SpaceTight
	}
	return SpaceNormal
}

// Share is how much of its quota etcd's database takes up, in whole percent: of the whole file, free
// pages included, for that is what etcd itself compares with the quota before it raises NOSPACE.
// Compaction makes pages free and the file no smaller; defragmentation does. It is 0 when etcd has no
// quota, or does not tell (before 3.6): then the alarm alone is heeded.
func (e EtcdHealth) Share() int {
	if e.DBQuota <= 0 {
		return 0
	}
	return int(100 * float64(e.DBSize) / float64(e.DBQuota))
}

// NoSpace says whether an alarm for want of space is raised.
func (e EtcdHealth) NoSpace() bool {
	for _, a := range e.Alarms {
		if a == AlarmNoSpace {
			return true
		}
	}
	return false
}

// The alarms that etcd knows.
const (
	AlarmNoSpace = "NOSPACE"
	AlarmCorrupt = "CORRUPT"
)

// spaceRemedy is what gives space back.
const spaceRemedy = "compact its history, defragment it, or raise its --quota-backend-bytes"

// usage is the share in words.
func (e EtcdHealth) usage() string {
	if e.NoSpace() {
		return "etcd has raised NOSPACE"
	}
	const mib = 1 << 20
	return fmt.Sprintf("etcd uses %d %% of its quota (%.1f of %.1f MiB)", e.Share(), float64(e.DBSize)/mib, float64(e.DBQuota)/mib)
}

// Refusal is why no new job and no trigger is taken, nil as long as they are.
func (e EtcdHealth) Refusal() error {
	if e.Space != SpaceFull {
		return nil
	}
	if e.NoSpace() {
		return fmt.Errorf("%w: %s, and no new jobs and triggers are taken until it is cleared; %s, and then clear the alarm", ErrNoRoom, e.usage(), spaceRemedy)
	}
	return fmt.Errorf("%w: %s, and no new jobs and triggers are taken from %d %% on until it is below %d %%; %s",
		ErrNoRoom, e.usage(), FullShare, FullShare-spaceBack, spaceRemedy)
}

// Warnings are what an operator should do something about, though all that was asked of etcd is done.
func (e EtcdHealth) Warnings() []string {
	var w []string
	switch {
	case e.NoSpace():
		w = append(w, fmt.Sprintf("etcd has raised NOSPACE: nothing can be granted or recorded; %s, and then clear the alarm", spaceRemedy))
	case e.Space == SpaceTight:
		w = append(w, fmt.Sprintf("%s: records are written in short form, and from %d %% on no new jobs and triggers are taken; %s",
			e.usage(), FullShare, spaceRemedy))
	case e.Space == SpaceFull:
		w = append(w, fmt.Sprintf("%s: no new jobs and triggers are taken until it is below %d %%, and records are written in short form; %s",
			e.usage(), FullShare-spaceBack, spaceRemedy))
	}
	for _, a := range e.Alarms {
		if a != AlarmNoSpace {
			w = append(w, "etcd raises "+a+": nothing can be granted until it is cleared")
		}
	}
	if e.HistoryStood > 0 {
		w = append(w, fmt.Sprintf("etcd has not compacted its history for %s, in which it wrote %d revisions: switch on its auto-compaction, or start all nodes with --compact=5m",
			e.HistoryStood.Round(time.Minute), e.HistoryWritten))
	}
	return w
}

// HistoryWatch notices that etcd's history is not compacted: that its compaction revision stands still
// though revisions are written. The zero value has seen nothing yet. It goes by readings alone, which
// may come at any distance.
type HistoryWatch struct {
	known     bool
	compacted int64         // the compaction revision last seen
	revision  int64         // etcd's revision when it was first seen
	since     time.Duration // elapsed clock when it was first seen
}

const (
	// historyStill is how long the compaction revision may stand still. etcd's periodic auto-compaction
	// moves it once an hour at the longest; with one hour of history, two hours after the start of etcd
	// for the first time, for the first round only compacts to where etcd began.
	historyStill = 150 * time.Minute
	// historyFew revisions are not worth a warning: an idle cluster writes next to nothing.
	historyFew = 1_000
	// historyNever revisions without any compaction are more than are written in those two hours at full
	// speed (some 900 a second): nobody compacts, and the warning does not wait.
	historyNever = 10_000_000
)

// Observe takes a reading in. It returns for how long the compaction revision has stood still, and how
// many revisions were written in that time; zeros while that is nothing to speak of.
func (h *HistoryWatch) Observe(revision, compacted int64, now Reading) (still time.Duration, written int64) {
	if !h.known || compacted != h.compacted || revision < h.revision { // the latter: etcd was restored from a snapshot
		*h = HistoryWatch{known: true, compacted: compacted, revision: revision, since: now.Elapsed}
	}
	still, written = now.Elapsed-h.since, revision-h.revision
	switch {
	case compacted == 0 && revision >= historyNever:
		return max(still, time.Minute), revision
	case still >= historyStill && written >= historyFew:
		return still, written
	}
	return 0, 0
}
