package store

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "run the random tests from this seed only; 0 draws one for each")

// Seed is the seed of a random test, which says it. It is exported to the tests outside the package.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return seed
}
