// Package cron turns cron expressions, intervals, dates and time zones into instants.
//
// It guarantees that one [Spec] names the same instants on every member and in every year: zones
// come from the archive embedded in the binary and never from the machine, and nothing here reads a
// clock. An instant is a whole second in UTC. Next, Last and Count agree with one another, they
// are bounded for every input, and a [Timetable] never panics or blocks.
//
// # Clock changes
//
// An expression names times of the wall clock. A time that the wall clock shows once is that
// instant. For the others the expression is either a wildcard, when its minute or hour field begins
// with "*", or fixed:
//
//	                      fixed                               wildcard
//	skipped by ≤ 3 h      once, at the end of the gap         not made up
//	skipped by > 3 h      not made up                         not made up
//	repeated by ≤ 3 h     the first pass only                 both passes
//	repeated by > 3 h     both passes                         both passes
//
// So a nightly job runs once every night, and an hourly job does not fall silent for a repeated hour.
// Several times in one gap are one instant. Jumps of more than three hours are corrections of the calendar,
// such as a country that crosses the date line.
//
// # Expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with seconds first; or
// @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly. A field is a list of N, N-M,
// N-M/S, N/S (to the end of the field), *, */S; days may be "?" for "*". Months and days of the
// week have English three-letter names; 7 is Sunday, as an upper end too. When both day fields are
// restricted, a day that matches either matches; a full star (*, ? or */1) leaves the other alone.
//
// What has no certain meaning is refused, with what to write instead: see [FieldError].
//
// # Calendars
//
// A [Calendar] excludes times of the wall clock: an instant is excluded when the wall clock shows an excluded
// date, day of the week or time at it, whatever the clock has been through. Between two boundaries there is one
// answer (Stretch), so that a search needs no walk over instants.
//
// The package leaves reading job files to its callers, and so which calendars a schedule names and when they
// said what, jitter, and what is done about instants that passed. It starts no goroutines; its only shared state is the cache
// of zones that were read from the archive.
package cron
