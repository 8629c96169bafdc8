// Package cron turns cron expressions, intervals, dates and zones into instants.
package cron

// Timetable is a compiled schedule.
type Timetable struct{}
