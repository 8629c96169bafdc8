package cron

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// archive is lib/time/zoneinfo.zip of the Go distribution. The machine's own files are never read:
// two members with different versions of them would disagree about when a job is due. To bring in a
// newer one, copy it here and set version from update.bash beside the original; a test compares both.
//
//go:embed zoneinfo.zip
var archive []byte

// version is that of the time zone database in archive, which the archive itself does not tell.
const version = "2025c"

// Version is the release of the embedded time zone database, such as "2025c".
func Version() string { return version }

// LoadZone returns the zone of an IANA name as the embedded database has it; "" is UTC. Names are
// exact, upper and lower case included. The error is a *FieldError.
func LoadZone(name string) (*time.Location, error) {
	z, wrong := openZone(name)
	if wrong != nil {
		return nil, wrong
	}
	return z.location, nil
}

// maxZoneBytes bounds a file of the archive; the largest has under 2 KiB.
const maxZoneBytes = 1 << 20

// zones are those read so far, *zone by name. It holds at most one entry a name of the archive.
var zones sync.Map

// files is the archive's table of contents. The archive is part of the program, so failing to
// read it is a fault of the build.
var files = sync.OnceValue(func() map[string]*zip.File {
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		panic(fmt.Sprintf("embedded zone archive: %v", err))
	}
	byName := make(map[string]*zip.File, len(reader.File))
	for _, f := range reader.File {
		if !f.FileInfo().IsDir() {
			byName[f.Name] = f
		}
	}
	return byName
})

func openZone(name string) (*zone, *FieldError) {
	if name == "" {
		name = "UTC"
	}
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	refuse := func(problem, remedy string) (*zone, *FieldError) {
		return nil, &FieldError{Field: "timeZone", Value: shown(name), Kind: KindZone, Problem: problem, Remedy: remedy}
	}
	if strings.EqualFold(name, "local") {
		return refuse("it would differ from member to member", "name the zone, such as Europe/Berlin")
	}
	f, ok := files()[name]
	if !ok {
		if near := sameButForCase(name); near != "" {
			return refuse("zone names distinguish upper and lower case", "write "+near)
		}
		return refuse("it is not a time zone of the IANA database "+version,
			"write a name such as Europe/Berlin, or Etc/GMT+5 for five hours west of Greenwich")
	}
	content, err := readFile(f)
	if err != nil {
		return refuse(fmt.Sprintf("the embedded database cannot be read: %v", err), "replace the binary, it is damaged")
	}
	location, err := time.LoadLocationFromTZData(name, content)
	if err != nil {
		return refuse(fmt.Sprintf("the embedded database cannot be read: %v", err), "replace the binary, it is damaged")
	}
	z, _ := zones.LoadOrStore(name, newZone(location))
	return z.(*zone), nil
}

func readFile(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxZoneBytes))
}

// sameButForCase finds the name that somebody meant who wrote europe/berlin.
func sameButForCase(name string) string {
	var near []string
	for known := range files() {
		if strings.EqualFold(known, name) {
			near = append(near, known)
		}
	}
	if len(near) == 0 {
		return ""
	}
	sort.Strings(near)
	return near[0]
}

// zone is a time zone as a table of the instants at which its offset changes. A table answers in
// a few nanoseconds, also for years that the database describes by a rule only.
type zone struct {
	location *time.Location
	// starts and offsets are the periods in order: offsets[i] holds from starts[i] until starts[i+1].
	// The first start is the beginning of time.
	starts  []int64
	offsets []int32
	// cyclic zones go on changing for ever. Their table ends a little after tableEnd, and what
	// follows repeats the 400 years before tableEnd.
	cyclic bool
}

const (
	daySeconds = 24 * 60 * 60
	// cycle is how long the Gregorian calendar takes to repeat with its days of the week, and so
	// every rule of a zone: 400 years.
	cycle = 146097 * daySeconds
	// tableEnd is 2500-01-01. In the 400 years before it every zone follows its rule: the last change
	// that the database lists by its date is in 2087 (Morocco).
	tableEnd = 16725225600
	// tableLast is 2503-01-01: the end of the period that holds tableEnd has to be in the table too.
	tableLast = tableEnd + 3*366*daySeconds

	// dawn and forever bound the first and the last period. They leave room to add offsets.
	dawn    = math.MinInt64 / 4
	forever = math.MaxInt64 / 4
)

func newZone(location *time.Location) *zone {
	z := &zone{location: location, starts: []int64{dawn}}
	t := time.Unix(firstInstant, 0).In(location)
	_, offset := t.Zone()
	z.offsets = []int32{int32(offset)}
	for {
		_, end := t.ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(t) {
			// On 31 December of a leap year, under a rule, ZoneBounds names the beginning of that day.
			end = firstChange(t, t.Add(daySeconds*time.Second))
		}
		if t = end; t.Unix() > tableLast {
			break
		}
		// A change of the name alone, or the turn of a year under a rule, is no change.
		if _, offset = t.Zone(); int32(offset) != z.offsets[len(z.offsets)-1] {
			z.starts = append(z.starts, t.Unix())
			z.offsets = append(z.offsets, int32(offset))
		}
	}
	z.starts, z.offsets = slices.Clip(z.starts), slices.Clip(z.offsets)
	z.cyclic = z.starts[len(z.starts)-1] >= tableEnd-cycle
	return z
}

// firstChange returns the second after from at which the offset becomes that of to, or to itself when
// they have the same.
func firstChange(from, to time.Time) time.Time {
	_, old := from.Zone()
	if _, offset := to.Zone(); offset == old {
		return to
	}
	seconds := sort.Search(int(to.Unix()-from.Unix()), func(s int) bool {
		_, offset := from.Add(time.Duration(s) * time.Second).Zone()
		return offset != old
	})
	return from.Add(time.Duration(seconds) * time.Second)
}

// period is a stretch of time over which the offset of a zone stays the same: start ≤ t < end. The
// wall clock shows t + offset; just before start it went by the offset before.
type period struct {
	start, end     int64
	offset, before int64
}

// at returns the period that holds the instant t.
func (z *zone) at(t int64) period {
	var shift int64
	if z.cyclic && t >= tableEnd {
		shift = ((t-tableEnd)/cycle + 1) * cycle
		t -= shift
	}
	low, high := 0, len(z.starts)
	for high-low > 1 {
		if middle := int(uint(low+high) / 2); z.starts[middle] <= t {
			low = middle
		} else {
			high = middle
		}
	}
	p := period{start: z.starts[low], end: forever, offset: int64(z.offsets[low])}
	p.before = p.offset
	if low > 0 {
		p.start += shift
		p.before = int64(z.offsets[low-1])
	}
	if low+1 < len(z.starts) {
		p.end = z.starts[low+1] + shift
	}
	return p
}

// gap is how far the wall clock jumped forward at the start of p: it never showed the times from
// start + before to start + offset. Zero when it did not.
func (p period) gap() int64 { return max(0, p.offset-p.before) }

// repeat is how far the wall clock was set back at the start of p.
func (p period) repeat() int64 { return max(0, p.before-p.offset) }
