// Command rejudge judges the histories of runs that are over once more, and prints what it finds. They
// are files that the mixed run of chaos-tests has kept (its flag -keep). It exits with 1 unless all are
// valid. All judging is package history's.
package main

import (
	"fmt"
	"os"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: rejudge FILE...")
		os.Exit(2)
	}
	code := 0
	for _, path := range os.Args[1:] {
		valid, err := judge(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "rejudge:", err)
		}
		if err != nil || !valid {
			code = 1
		}
	}
	os.Exit(code)
}

func judge(path string) (valid bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h, err := history.ReadHistory(f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	j := h.Judge(history.Full())
	fmt.Printf("%s: %s, %d instants, %d of them under fault\n", path, j.Verdict, j.Required, j.InFaults)
	for _, doubt := range j.Doubts {
		fmt.Println("  inconclusive:", doubt)
	}
	for _, finding := range j.Findings {
		fmt.Println("  " + finding.String())
	}
	return j.Verdict == history.Valid, nil
}
