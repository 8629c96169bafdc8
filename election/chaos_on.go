//go:build chaos

package election

import (
	"time"

	"github.com/quorumcron/quorumcron/internal/chaos"
)

func bent(wall time.Time) time.Time { return chaos.Bend(wall) }
