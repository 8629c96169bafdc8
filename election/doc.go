// Package election issues the rights that hang on a lease, and the proof of each.
package election
