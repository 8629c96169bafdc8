package cron_test

import (
	"fmt"
	"time"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// A nightly job in the week in which summer time begins: the night without a 02:30 has its run at
// 03:00.
func ExampleTimetable_Next() {
	table, err := cron.Compile(cron.Spec{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"})
	if err != nil {
		fmt.Println(err)
		return
	}
	berlin, err := cron.LoadZone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, time.March, 28, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at = table.Next(at)
		fmt.Println(at.Format(time.RFC3339), "=", at.In(berlin).Format("Mon 15:04 MST"))
	}
	// Output:
	// 2026-03-28T01:30:00Z = Sat 02:30 CET
	// 2026-03-29T01:00:00Z = Sun 03:00 CEST
	// 2026-03-30T00:30:00Z = Mon 02:30 CEST
}

// With both day fields restricted, either is enough: 12 firsts of the month and 52 Mondays, of which
// one is a first.
func ExampleTimetable_Count() {
	table, err := cron.Compile(cron.Spec{Cron: []string{"0 9 1 * mon"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	year := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	fmt.Println(table.Count(year, year.AddDate(1, 0, 0)))
	// Output: 63
}

func ExampleCompile_refused() {
	_, err := cron.Compile(cron.Spec{Cron: []string{"60 2 * * *", "0 0 30 2 *"}, TimeZone: "europe/berlin"})
	fmt.Println(err)
	// Output:
	// timeZone: "europe/berlin": zone names distinguish upper and lower case; write Europe/Berlin
	// cron[0]: "60": minute is outside 0 to 59; write values from 0 to 59
	// cron[1]: "0 0 30 2 *": none of its months has such a day, so it would never fire; give a day that exists in one of the months
}

func ExampleSpecOf() {
	noon := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	spec, err := cron.SpecOf("@every 90m", "", noon)
	if err != nil {
		fmt.Println(err)
		return
	}
	table, err := cron.Compile(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Next(noon.Add(time.Minute)).Format(time.RFC3339))
	// Output: 2026-01-01T13:30:00Z
}
