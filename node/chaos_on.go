//go:build chaos

package node

import "github.com/quorumcron/quorumcron/internal/chaos"

func failPoint(name string) bool { return chaos.Point(name) }
