// Package scheduler says what should happen, given what a member knows and an instant.
//
// It is the pure core: the nouns of the glossary, and every decision about a job as a function of
// values. Values go in and values come out; there is no clock, no I/O, no logging, no randomness and
// no goroutine in it, so that a test or a simulation can run a year in a moment and get the same
// answer twice. It knows nothing of etcd: a decision is data that package store turns into one
// guarded transaction.
//
// Everything here is safe for concurrent use as long as nobody changes the values handed in.
package scheduler
