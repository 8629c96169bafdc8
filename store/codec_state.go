package store

import (
	"github.com/quorumcron/quorumcron/proto/quorumcron/stored/v1"
	"github.com/quorumcron/quorumcron/scheduler"
)

// mostElements bounds the lists of a state that is read: a value beyond it is damaged, not large.
const mostElements = 1000

func encodeState(s scheduler.State) (*storedv1.State, error) {
	var e encoder
	m := &storedv1.State{
		Uid:      s.UID,
		Cursor:   encodeTime(s.Cursor),
		NextSlot: int32(s.NextSlot),
		Slots:    int32(s.Slots),
		Settled:  encodeTime(s.Settled),
	}
	if b := s.Backlog; b != nil {
		m.Backlog = &storedv1.Backlog{First: encodeTime(b.First), Last: encodeTime(b.Last), Count: b.Count}
	}
	for _, x := range s.Entries {
		m.Entries = append(m.Entries, &storedv1.Entry{
			Firing: encodeFiring(x.Firing), Attempt: int32(x.Attempt), Generation: x.Generation, Slot: int32(x.Slot),
			Member: x.Member, Nonce: x.Nonce, Token: x.Token,
			Hold: encodeDuration(x.Hold), Granted: encodeTime(x.Granted), Due: encodeTime(x.Due),
			Past: e.attempts(x.Past),
		})
	}
	for _, r := range s.Retries {
		m.Retries = append(m.Retries, &storedv1.PendingRetry{
			Firing: encodeFiring(r.Firing), Attempt: int32(r.Attempt), Slot: int32(r.Slot), Past: e.attempts(r.Past),
			NotBefore: encodeTime(r.NotBefore), Generation: r.Generation, Due: encodeTime(r.Due),
		})
	}
	for _, r := range s.Ranges {
		m.Ranges = append(m.Ranges, &storedv1.Range{
			Verdict: encodeWord[storedv1.Verdict](&e, verdicts, r.Verdict),
			Reason:  encodeWord[storedv1.Reason](&e, reasons, r.Reason),
			First:   encodeTime(r.First), Last: encodeTime(r.Last), Count: r.Count, Trigger: r.Trigger,
		})
	}
	for _, c := range s.Counters {
		m.Counters = append(m.Counters, &storedv1.Counter{
			Verdict: encodeWord[storedv1.Verdict](&e, verdicts, c.Verdict),
			Reason:  encodeWord[storedv1.Reason](&e, reasons, c.Reason),
			Count:   c.Count,
		})
	}
	return m, e.err
}

// decodeState reads a state. Tokens that are left to the value's mod revision stay 0: see Fill.
func decodeState(m *storedv1.State) (scheduler.State, error) {
	var d decoder
	if m.GetUid() == "" {
		d.fail("no uid")
	}
	if m.GetCursor() == nil {
		d.fail("no cursor")
	}
	d.atLeast("slots", 1, int64(m.GetSlots()))
	d.atLeast("nextSlot", 0, int64(m.GetNextSlot()))
	if len(m.GetEntries()) > mostElements || len(m.GetRetries()) > mostElements || len(m.GetRanges()) > mostElements || len(m.GetCounters()) > mostElements {
		d.fail("a list with more than %d elements", mostElements)
		return scheduler.State{}, d.err
	}
	s := scheduler.State{
		UID:      m.GetUid(),
		Cursor:   d.time("cursor", m.GetCursor()),
		NextSlot: int(m.GetNextSlot()),
		Slots:    int(m.GetSlots()),
		Settled:  d.time("settled", m.GetSettled()),
	}
	if b := m.GetBacklog(); b != nil {
		s.Backlog = &scheduler.Backlog{First: d.time("backlog.first", b.GetFirst()), Last: d.time("backlog.last", b.GetLast()), Count: b.GetCount()}
	}
	for _, x := range m.GetEntries() {
		s.Entries = append(s.Entries, d.entry(s.UID, x))
	}
	for _, r := range m.GetRetries() {
		s.Retries = append(s.Retries, d.retry(s.UID, r))
	}
	for _, r := range m.GetRanges() {
		s.Ranges = append(s.Ranges, scheduler.Range{
			Verdict: verdicts.word(int32(r.GetVerdict())), Reason: reasons.word(int32(r.GetReason())),
			First: d.time("range.first", r.GetFirst()), Last: d.time("range.last", r.GetLast()),
			Count: r.GetCount(), Trigger: r.GetTrigger(),
		})
	}
	for _, c := range m.GetCounters() {
		s.Counters = append(s.Counters, scheduler.Counter{
			Verdict: verdicts.word(int32(c.GetVerdict())), Reason: reasons.word(int32(c.GetReason())), Count: c.GetCount(),
		})
	}
	return s, d.err
}

func (d *decoder) entry(uid string, m *storedv1.Entry) scheduler.Entry {
	d.atLeast("entry.attempt", 1, int64(m.GetAttempt()))
	d.atLeast("entry.slot", 0, int64(m.GetSlot()))
	return scheduler.Entry{
		Firing: decodeFiring(uid, m.GetFiring()), Attempt: int(m.GetAttempt()), Generation: m.GetGeneration(), Slot: int(m.GetSlot()),
		Member: m.GetMember(), Nonce: m.GetNonce(), Token: m.GetToken(),
		Hold: d.duration("entry.hold", m.GetHold()), Granted: d.time("entry.granted", m.GetGranted()), Due: d.time("entry.due", m.GetDue()),
		Past: d.attempts(m.GetPast()),
	}
}

func (d *decoder) retry(uid string, m *storedv1.PendingRetry) scheduler.PendingRetry {
	d.atLeast("retry.attempt", 1, int64(m.GetAttempt()))
	d.atLeast("retry.slot", 0, int64(m.GetSlot()))
	return scheduler.PendingRetry{
		Firing: decodeFiring(uid, m.GetFiring()), Attempt: int(m.GetAttempt()), Slot: int(m.GetSlot()), Past: d.attempts(m.GetPast()),
		NotBefore: d.time("retry.notBefore", m.GetNotBefore()), Generation: m.GetGeneration(), Due: d.time("retry.due", m.GetDue()),
	}
}

func (e *encoder) attempts(lines []scheduler.Attempt) []*storedv1.Attempt {
	var ms []*storedv1.Attempt
	for _, a := range lines {
		ms = append(ms, &storedv1.Attempt{
			Number: int32(a.Number), Token: a.Token, Member: a.Member,
			Granted: encodeTime(a.Granted), Started: encodeTime(a.Started), Finished: encodeTime(a.Finished),
			Verdict: encodeWord[storedv1.Verdict](e, verdicts, a.Verdict),
			Reason:  encodeWord[storedv1.Reason](e, reasons, a.Reason),
			Message: a.Message, ExitCode: a.ExitCode,
		})
	}
	return ms
}

func (d *decoder) attempts(ms []*storedv1.Attempt) []scheduler.Attempt {
	if len(ms) > mostElements {
		d.fail("more than %d attempts", mostElements)
		return nil
	}
	var lines []scheduler.Attempt
	for _, m := range ms {
		lines = append(lines, scheduler.Attempt{
			Number: int(m.GetNumber()), Token: m.GetToken(), Member: m.GetMember(),
			Granted: d.time("attempt.granted", m.GetGranted()), Started: d.time("attempt.started", m.GetStarted()),
			Finished: d.time("attempt.finished", m.GetFinished()),
			Verdict:  verdicts.word(int32(m.GetVerdict())), Reason: reasons.word(int32(m.GetReason())),
			Message: m.GetMessage(), ExitCode: m.ExitCode,
		})
	}
	return lines
}
