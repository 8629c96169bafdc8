package store

import (
	"fmt"
	"slices"

	"github.com/quorumcron/quorumcron/scheduler"
)

// mostShort bounds a record in short form, in bytes as stored.
const mostShort = 200

// restriction is what etcd has no room for.
type restriction struct {
	short  bool
	refuse error
}

// Restrict says what etcd has no room for, until it is called again. Short has all records written in
// short form from now on, whoever writes them. Refuse, if not nil, is the answer to what would add to the
// database for good: a new job, a trigger. Edits and ends of what is there are never refused.
func (s *Store) Restrict(short bool, refuse error) {
	s.restricted.Store(&restriction{short: short, refuse: refuse})
}

// room is nil unless there is none for what would add to the database for good.
func (s *Store) room() error {
	if r := s.restricted.Load(); r != nil {
		return r.refuse
	}
	return nil
}

// recordOf is the value of a run's record. A record is never left out, for it is the proof that the
// attempt ended; when etcd is short of space it holds nothing beyond that proof.
func (s *Store) recordOf(run scheduler.Run) (string, error) {
	if r := s.restricted.Load(); r != nil && r.short {
		return shortRecord(run)
	}
	return encodedRun(run)
}

func encodedRun(run scheduler.Run) (string, error) {
	value, err := encodeRun(run)
	if err != nil {
		return "", fmt.Errorf("%w: record of %s: %w", scheduler.ErrInvalid, run.Firing, err)
	}
	return marshal(value)
}

// shortRecord is a record of at most mostShort bytes: the newest attempt with all that a fold, a verdict
// and a list go by, but no output and no message, and of the attempts before it what fits: the first,
// whose grant is the run's place in lists, and the newest, so that a member that repeats an earlier Finish
// still finds its verdict. A job's name that does not fit is left out; the reader has it from the state.
func shortRecord(run scheduler.Run) (string, error) {
	run.Shortened, run.Output, run.OutputDropped = true, nil, 0
	lines := slices.Clone(run.Attempts)
	for i := range lines {
		if lines[i].Message = ""; i < len(lines)-1 {
			lines[i] = scheduler.Attempt{
				Number: lines[i].Number, Token: lines[i].Token, Granted: lines[i].Granted,
				Verdict: lines[i].Verdict, Reason: lines[i].Reason,
			}
		}
	}
	for {
		run.Attempts = lines
		value, err := encodedRun(run)
		if err != nil || len(value) <= mostShort {
			return value, err
		}
		switch {
		case len(lines) > 2:
			lines = slices.Delete(lines, 1, 2) // the oldest after the first
		case run.Job.Name != "":
			run.Job = scheduler.JobName{}
		case run.OutputBytes != 0:
			run.OutputBytes = 0
		case len(lines) > 1:
			lines = lines[1:]
		default:
			return value, nil // the bounds of its fields keep a single line far below
		}
	}
}
