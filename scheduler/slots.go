package scheduler

// mostInFlight is how many slots of a job may be promised at once. With overlap skip it is one: an
// entry and a pending retry each block the next firing. No policy may allow more than 100.
func mostInFlight(Job) int { return 1 }

// ringSize is how many slots a job's records go round in, so that HistoryLimit finished runs are kept
// beside the promised slots. It never shrinks (see State.Slots), and it always leaves a slot for one
// more than are promised, even if a former definition allowed more in flight.
func ringSize(j Job, s State) int {
	inFlight := max(mostInFlight(j), len(s.Entries)+len(s.Retries)+1)
	return max(s.Slots, j.HistoryLimit+inFlight)
}

// takeSlot gives out the next slot in turn, jumping over promised ones: the record that a promised
// slot will hold, or holds and nobody has folded yet, is the only proof of how its attempt ended.
func (s *State) takeSlot(j Job) int {
	s.Slots = ringSize(j, *s)
	slot := s.NextSlot % s.Slots
	for s.promised(slot) && !cutSlotsShared { // ends: the ring is larger than the number of promises
		slot = (slot + 1) % s.Slots
	}
	s.NextSlot = (slot + 1) % s.Slots
	return slot
}

// promised says whether an entry or an owed retry will put its record into the slot.
func (s *State) promised(slot int) bool {
	for _, e := range s.Entries {
		if e.Slot == slot {
			return true
		}
	}
	for _, r := range s.Retries {
		if r.Slot == slot {
			return true
		}
	}
	return false
}
