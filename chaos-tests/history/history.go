// Package history judges what a cluster did, from the outside: it holds what the commands themselves
// wrote down (lines), what the cluster says of them (jobs and runs), and what should have happened
// (plans), and says what does not fit.
//
// It has its own oracle of instants, plain arithmetic, and shares no code with what it judges. It
// guarantees nothing about a history that was taken while things still moved: take it when the jobs
// have ended and their ends are counted. It leaves collecting to its callers, and starts no goroutine.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Events of a line. A command writes Start first of all and End last; Beat every tenth of a second
// in between, so that its life is known without an end; Term when it is told to stop.
const (
	Start = "start"
	Beat  = "beat"
	Term  = "term"
	End   = "end"
	// What became of an effect that the command sent to the receiver: it was accepted, it was refused
	// for its token, or nobody answered.
	Done    = "effect"
	Refused = "effect_refused"
	Unsent  = "effect_unsent"
)

// Line is one line of the side-effect log, as the witness program writes it.
type Line struct {
	Event string `json:"ev"`
	// BootNS is the kernel's boot clock, the same for all processes of the machine; WallNS is Unix time.
	BootNS int64 `json:"boot"`
	WallNS int64 `json:"wall"`
	// Node is what the controller told the node's process to be: the scheduler has no hand in it.
	Node string `json:"node"`
	// What the scheduler told the command.
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Firing    string `json:"firing"`
	Instant   string `json:"instant"`
	Attempt   string `json:"attempt"`
	Token     string `json:"token"`
	Member    string `json:"member"`
	// PID writes; Nonce is drawn by the command, and handed to its children, whose lines say Child.
	PID   int    `json:"pid"`
	Nonce string `json:"nonce"`
	Child bool   `json:"child"`
	Exit  int    `json:"exit"`
	// Version is of the definition that it was started with; see Spec.Version.
	Version int `json:"version"`
}

// Wall is when the line was written.
func (l Line) Wall() time.Time { return time.Unix(0, l.WallNS).UTC() }

// Boot is when the line was written, by the clock that nobody sets.
func (l Line) Boot() time.Duration { return time.Duration(l.BootNS) }

// Due is the instant that the command was told; zero when that is none.
func (l Line) Due() time.Time {
	t, err := time.Parse(time.RFC3339, l.Instant)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// Lateness is how long after its instant the line was written.
func (l Line) Lateness() time.Duration { return l.Wall().Sub(l.Due()) }

// ReadLines reads a side-effect log. A last line that was cut off by a kill counts as not written.
func ReadLines(r io.Reader) ([]Line, error) {
	var lines []Line
	err := eachLine(r, func(number int, text string) error {
		var l Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return fmt.Errorf("line %d, %q: %w", number, text, err)
		}
		lines = append(lines, l)
		return nil
	})
	return lines, err
}

// eachLine hands over the whole lines of a log, numbered from 1.
func eachLine(r io.Reader, do func(number int, text string) error) error {
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		text, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(number, strings.TrimSpace(text)); err != nil {
			return err
		}
	}
}

// Run is a run as `run list -o json` shows it.
type Run struct {
	Job       string    `json:"job"`
	Namespace string    `json:"namespace"`
	Firing    string    `json:"firing"`
	Instant   time.Time `json:"instant"`
	Attempt   int       `json:"attempt"`
	Verdict   string    `json:"verdict"`
	Reason    string    `json:"reason"`
	Member    string    `json:"member"`
	Token     string    `json:"token"`
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`
	ExitCode  *int      `json:"exitCode"`
	Attempts  []Attempt `json:"attempts"`
	// Shortened says that etcd was nearly full: members of attempts before the last are left out.
	Shortened bool `json:"shortened"`
	// Generation is of the definition that it was granted under.
	Generation int64 `json:"generation,string"`
}

// Attempt is one attempt of a Run.
type Attempt struct {
	Number  int    `json:"number"`
	Token   string `json:"token"`
	Member  string `json:"member"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

// Job is a job as `job show -o json` and `job list -o json` show it.
type Job struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	UID       string    `json:"uid"`
	Created   time.Time `json:"created"`
	Cursor    time.Time `json:"cursor"`
	Backlog   Backlog   `json:"backlog"`
	Counters  []Counter `json:"counters"`
	Ranges    []Range   `json:"ranges"`
	Owner     string    `json:"owner"`
	Paused    bool      `json:"paused"`
}

// Backlog are late instants that wait.
type Backlog struct {
	Count int64 `json:"count,string"`
}

// Counter is the number of firings that ended in one way.
type Counter struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Count   int64  `json:"count,string"`
}

// Range is a row of consecutive instants that were not run.
type Range struct {
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int64     `json:"count,string"`
	Trigger string    `json:"trigger"`
}

// Ended is how many firings of the job are counted as ended.
func (j Job) Ended() int64 {
	var n int64
	for _, c := range j.Counters {
		n += c.Count
	}
	return n
}
