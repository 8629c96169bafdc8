package executor

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	tailBytes    = 1 << 10 // of output in a result
	messageBytes = 1 << 10 // of a message in a result
)

// capture takes the output of one attempt: the head of it into a file, the end of it into memory, and
// the length. It takes everything it is given whatever becomes of the file, because an attempt must
// never fail or wait for its own output. Safe for concurrent use.
type capture struct {
	open  func() (*os.File, error) // called with the first byte; nil keeps the tail only
	limit int64

	mu      sync.Mutex
	file    *os.File
	filed   int64 // bytes of output in the file
	total   int64
	recent  []byte // the newest tailBytes are at its end
	full    bool   // the file takes no more
	failure error  // why, unless it is the limit
	closed  bool
}

func newCapture(open func() (*os.File, error), limit int64) *capture {
	return &capture{open: open, limit: limit, full: open == nil}
}

// Write never fails before close.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, os.ErrClosed
	}
	c.total += int64(len(p))
	c.remember(p)
	if !c.full && len(p) > 0 {
		c.fileAway(p)
	}
	return len(p), nil
}

func (c *capture) remember(p []byte) {
	if len(p) > tailBytes {
		p = p[len(p)-tailBytes:]
	}
	// Twice the tail before it is moved down, so that a byte is moved once and not for each write.
	if len(c.recent)+len(p) > 2*tailBytes {
		c.recent = append(c.recent[:0], c.recent[max(0, len(c.recent)-tailBytes):]...)
	}
	c.recent = append(c.recent, p...)
}

func (c *capture) fileAway(p []byte) {
	if c.file == nil {
		file, err := c.open()
		if err != nil {
			c.full, c.failure = true, err
			return
		}
		c.file = file
	}
	room := min(int64(len(p)), c.limit-c.filed)
	n, err := c.file.Write(p[:room])
	c.filed += int64(n)
	if err != nil {
		c.full, c.failure = true, err
		return
	}
	if room < int64(len(p)) {
		c.full = true
		// The marker is for readers of the file; it is no part of the output and is not counted.
		if _, err := fmt.Fprintf(c.file, "\n[quorumcron: output cut after %d bytes]\n", c.filed); err != nil {
			c.failure = err
		}
	}
}

// captured is what came of an attempt's output.
type captured struct {
	Tail           []byte
	Total, Dropped int64
	Filed          int64  // bytes in the file
	Failure        string // why the file is cut, unless it is the limit
}

// close ends the capture; it takes nothing afterwards.
func (c *capture) close() captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.file != nil {
		if err := c.file.Close(); err != nil && c.failure == nil {
			c.failure = err
		}
		c.file = nil
	}
	r := captured{Total: c.total, Dropped: c.total - c.filed, Filed: c.filed}
	if c.failure != nil {
		r.Failure = c.failure.Error()
	}
	if len(c.recent) > 0 {
		r.Tail = []byte(lastText(string(c.recent), tailBytes))
	}
	return r
}

// lastText is the end of s as valid UTF-8 of at most limit bytes, beginning with a whole character.
func lastText(s string, limit int) string {
	for range 2 { // Replacing what is not UTF-8 may make it longer, so it is cut again.
		if len(s) > limit {
			s = s[len(s)-limit:]
			for i := 0; i < utf8.UTFMax && len(s) > 0 && !utf8.RuneStart(s[0]); i++ {
				s = s[1:]
			}
		}
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// clip is the beginning of a message as valid UTF-8 of at most messageBytes.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= messageBytes {
		return s
	}
	end := messageBytes - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
