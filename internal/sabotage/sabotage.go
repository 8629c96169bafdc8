// Package sabotage names the protections that a test build can go without, one at a time, so that
// chaos-tests/sabotage can show that a test notices each of them missing.
//
// It guarantees that a build without the tag "sabotage" has none of this in it: only files with that
// tag import it (internal/archtest holds them to it), and what they switch are constants, false, in
// every other build. What a protection is for stands at its constant, in the sabotage_off.go of its
// package; which test catches it is chaos-tests/sabotage's. It starts no goroutines.
package sabotage

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable that names the cut to make; empty or not set is none.
const Variable = "QUORUMCRON_SABOTAGE"

// Cut is one protection that can be taken out.
type Cut struct {
	Name string
	// Without says what the program does without it.
	Without string
}

// On says whether the environment asks for the cut. It panics if the environment asks for one that
// does not exist: a test that meant to take something out would pass for the wrong reason.
func On(name string) bool {
	asked := os.Getenv(Variable)
	if !known(name) {
		panic(fmt.Sprintf("sabotage: %q is none of the cuts: %s", name, names()))
	}
	if asked != "" && !known(asked) {
		panic(fmt.Sprintf("%s=%s is none of the cuts: %s", Variable, asked, names()))
	}
	return asked == name
}

func known(name string) bool {
	return slices.ContainsFunc(Cuts(), func(c Cut) bool { return c.Name == name })
}

func names() string {
	var list []string
	for _, c := range Cuts() {
		list = append(list, c.Name)
	}
	return strings.Join(list, " ")
}
