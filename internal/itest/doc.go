// Package itest holds the tests that need a real etcd: it is the one test binary that links the
// embedded server, so that all others stay quick to build. It has no code of its own.
package itest
