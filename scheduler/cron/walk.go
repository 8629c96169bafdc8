package cron

// maxJump is the widest change of the wall clock that is one of the clock; more is a correction of
// the calendar, after which nothing is made up and nothing counts as repeated.
const maxJump = 3 * 60 * 60

// shifts says whether the gap or repeat of this size changes what a fixed expression does.
func (e *expression) shifts(size int64) bool { return !e.wildcard && 0 < size && size <= maxJump }

// next returns the first instant of e in z after the given one, or none.
//
// It looks for the next wall time and goes along the periods of the zone until one shows it. The
// time found stays the next one while no period has reached it, so the calendar is searched again
// only where the wall clock jumps over it or back.
func (e *expression) next(z *zone, after int64) int64 {
	p := z.at(after)
	w := after + 1 + p.offset
	if e.shifts(p.repeat()) {
		w = max(w, p.start+p.before) // up to there the wall clock shows times it has shown before
	}
	for w = e.nextWall(w); w != none && p.start <= lastInstant; {
		if w < p.end+p.offset {
			return w - p.offset
		}
		p = z.at(p.end)
		wall := p.start + p.offset
		switch {
		case p.gap() > 0 && w < wall: // skipped
			if e.shifts(p.gap()) {
				return p.start
			}
			w = e.nextWall(wall)
		case p.repeat() > 0 && !e.shifts(p.repeat()):
			w = e.nextWall(wall)
		}
	}
	return none
}

// last returns the newest instant of e in z in (after, through], or none. It is next in reverse.
func (e *expression) last(z *zone, after, through int64) int64 {
	p := z.at(through)
	for w := e.lastWall(through + p.offset); w != none; {
		wall := p.start + p.offset
		if e.shifts(p.repeat()) {
			wall = p.start + p.before
		}
		if w >= wall {
			if t := w - p.offset; t > after {
				return t
			}
			return none
		}
		skipped := p.start + p.before // where the wall clock was when it was put forward or back
		switch {
		case p.start <= after:
			return none
		case e.shifts(p.gap()) && w >= skipped:
			return p.start
		case w >= skipped || p.repeat() > 0:
			w = e.lastWall(skipped - 1)
		}
		p = z.at(p.start - 1)
	}
	return none
}
