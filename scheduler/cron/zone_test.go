package cron

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"
)

// TestVersionIsThatOfTheArchive fails when one of the two is replaced without the other.
func TestVersionIsThatOfTheArchive(t *testing.T) {
	t.Parallel()
	const known, sum = "2025c", "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"
	got := sha256.Sum256(archive)
	if Version() != known || hex.EncodeToString(got[:]) != sum {
		t.Errorf("version %q with archive %x, want %q with %s: set version and this test together", Version(), got, known, sum)
	}
}

// TestTableAgreesWithLocation compares the table of every zone with package time, at random instants
// of many centuries and at both sides of each change.
func TestTableAgreesWithLocation(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	for _, name := range zoneNames() {
		z, wrong := openZone(name)
		if wrong != nil {
			t.Fatal(wrong)
		}
		check := func(at int64) {
			t.Helper()
			p := z.at(at)
			_, offset := time.Unix(at, 0).In(z.location).Zone()
			if p.offset != int64(offset) || at < p.start || at >= p.end {
				t.Fatalf("%s at %s: period %+v, want one with offset %d that holds %d", name, time.Unix(at, 0).UTC(), p, offset, at)
			}
			if p.start > dawn && (z.at(p.start-1).offset != p.before || z.at(p.start-1).end != p.start) {
				t.Fatalf("%s at %s: period %+v does not follow on %+v", name, time.Unix(at, 0).UTC(), p, z.at(p.start-1))
			}
		}
		for range 100 {
			check(day(1800, 1, 1).Unix() + r.Int64N(1000*366*daySeconds))
			check(day(tableEndYear-2, 1, 1).Unix() + r.Int64N(4*366*daySeconds))
		}
		check(firstInstant)
		check(lastInstant)
		for i, start := range z.starts {
			if i > 0 && start < tableEnd {
				check(start)
				check(start - 1)
			}
		}
	}
}

const tableEndYear = 2500

func TestTableEndsAtANewYear(t *testing.T) {
	t.Parallel()
	if got := day(tableEndYear, 1, 1).Unix(); got != tableEnd {
		t.Errorf("tableEnd = %d, want %d", tableEnd, got)
	}
}

// TestEveryZoneFollowsItsRuleBeforeTheTableEnds is what makes it right to repeat its last 400 years.
func TestEveryZoneFollowsItsRuleBeforeTheTableEnds(t *testing.T) {
	t.Parallel()
	for _, name := range zoneNames() {
		z, wrong := openZone(name)
		if wrong != nil {
			t.Fatal(wrong)
		}
		for at := day(2100, 1, 1); at.Year() < 2110; at = at.Add(36 * time.Hour) {
			if now, later := z.at(at.Unix()), z.at(at.Unix()+cycle); now.offset != later.offset {
				t.Fatalf("%s: offset %d at %s, but %d after 400 years", name, now.offset, at, later.offset)
			}
		}
	}
}

func TestLoadZoneTakesExactNamesOnly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "UTC", "Europe/Berlin", "Etc/GMT+5", "US/Pacific", "America/Argentina/Buenos_Aires"} {
		location, err := LoadZone(name)
		if err != nil {
			t.Errorf("LoadZone(%q): %v", name, err)
			continue
		}
		again, err := LoadZone(name)
		if err != nil || again != location {
			t.Errorf("LoadZone(%q) again = %p, %v, want the same %p", name, again, err, location)
		}
	}
	for _, name := range []string{"Local", "local", "utc", "europe/berlin", "Europe", "Europe/", "/Europe/Berlin", "./UTC", "../UTC",
		"Europe//Berlin", " UTC", "UTC ", "UTC\x00", "+02:00", "GMT+2:00", "Berlin", "/etc/localtime", "localtime", "EST5", "🕛"} {
		_, err := LoadZone(name)
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Kind != KindZone {
			t.Errorf("LoadZone(%q): got %v, want kind tz", name, err)
		}
	}
}

func TestUnknownZoneSuggestsTheRightCase(t *testing.T) {
	t.Parallel()
	_, err := LoadZone("europe/BERLIN")
	var wrong *FieldError
	if !errors.As(err, &wrong) || wrong.Remedy != "write Europe/Berlin" {
		t.Errorf("got %v, want a suggestion of Europe/Berlin", err)
	}
}
