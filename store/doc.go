// Package store keeps the facts of a cluster in etcd: it reads them, follows them, and changes them
// in guarded transactions.
//
// It guarantees that every write compares what its author planned on, so that a write by somebody
// who has been overtaken changes nothing; that a call which returns has a definite outcome or says
// scheduler.ErrUnknown; that an outcome is never called definite because a read did not show it; and
// that an unreadable value is reported as quarantined and never stops anything else. Only here do
// tokens, revisions and guards become comparisons of etcd.
//
// It leaves to others what to write: states are planned by package scheduler, and definitions are
// validated before they come here. It does not read a clock; instants come with the call. It knows
// nothing of sessions: a lease is a number that etcd accepts or refuses.
//
// # Groups
//
// The writes of the firing path go through a packer (group.go). What gathers while earlier groups
// are on their way is committed as one transaction, each operation nested with its own guard, so
// that a thousand firings cost a dozen proposals. Claims carry one outer guard on the rules; ends
// carry none, so nothing ever holds up a verdict.
//
// # Unknown fields
//
// A value that a newer member wrote may hold fields that this version does not know. When such a
// value is rewritten here, they are kept: see kept.go.
//
// # Goroutines
//
// Store.Run starts the workers that commit groups and one that asks etcd for the progress of the
// watches; it returns when they have ended. Follow… methods run in their caller's goroutine. A Store
// is safe for concurrent use.
package store
