// Package api serves the admin API quorumcron.v1 over gRPC, and health, readiness and metrics over
// HTTP. It translates, bounds and refuses; it decides nothing about jobs.
//
// It guarantees that every error a member returns becomes one gRPC code, by one table (errors.go);
// that a request with several wrong fields is answered with all of them; that requests, replies and
// waits are bounded; and that a panic in a call ends that call alone.
//
// It leaves to its user, package cmd, to open listeners, and to the member behind the interfaces
// below all knowledge of jobs. Those interfaces are declared here and satisfied by package node,
// which does not know this package; what they exchange are values of package scheduler.
//
// Server.Serve runs gRPC's goroutines until its context ends; constructors start nothing.
package api
