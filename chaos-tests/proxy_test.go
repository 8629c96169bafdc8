package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// way is what becomes of bytes in one direction.
type way int

const (
	passes way = iota
	holds      // nothing moves; what is held goes on when that ends, as on a network that was cut
	drops      // falls; a connection that has lost bytes is reset when that ends
)

// line is what a proxy does with what it gets.
type line struct {
	requests, replies way
	refused           bool          // connections are reset, and no new ones taken
	delay, jitter     time.Duration // each way; more or less by up to jitter
}

var (
	pass         = line{}
	blackHole    = line{requests: holds, replies: holds}
	holdRequests = line{requests: holds}
	holdReplies  = line{replies: holds}
	dropRequests = line{requests: drops}
	dropReplies  = line{replies: drops} // requests act, and nobody is told
	refuse       = line{refused: true}
)

func slow(delay, jitter time.Duration) line { return line{delay: delay, jitter: jitter} }

// tally is what became of bytes since the proxy began.
type tally struct{ passed, held, dropped int64 }

func (t tally) minus(o tally) tally {
	return tally{t.passed - o.passed, t.held - o.held, t.dropped - o.dropped}
}

// counts has a tally for each direction, and how many connections were reset or refused.
type counts struct {
	requests, replies tally
	resets            int
}

func (c counts) minus(o counts) counts {
	return counts{c.requests.minus(o.requests), c.replies.minus(o.replies), c.resets - o.resets}
}

// String is the proof of a fault of a line.
func (c counts) String() string {
	s := ""
	for _, d := range []struct {
		name string
		tally
	}{{"requests", c.requests}, {"replies", c.replies}} {
		s += fmt.Sprintf("bytes of %s: %d passed, %d held, %d fell; ", d.name, d.passed, d.held, d.dropped)
	}
	return s + fmt.Sprintf("%d connections reset", c.resets)
}

// proxy stands between two processes, on an address of its own that it keeps.
type proxy struct {
	t       *testing.T
	address string
	target  string
	// whose names the process behind a new connection; nil when all are treated alike.
	whose func(net.Conn) string

	mu       sync.Mutex // guards all below
	line     line
	lines    map[string]line // of connections whose name has one of its own
	changed  chan struct{}   // closed when a line changes
	listener net.Listener    // nil while it refuses
	open     map[*link]bool
	sums     counts
}

// link is a connection through a proxy: two sockets.
type link struct {
	client, server net.Conn
	name           string
	lossy          bool // bytes of it fell; guarded by the proxy's mu
}

// newProxy passes everything on, until it is told otherwise.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{
		t: t, address: freeAddress(t), target: target, changed: make(chan struct{}), lines: map[string]line{}, open: map[*link]bool{},
	}
	p.listen()
	t.Cleanup(func() { p.set(refuse) })
	return p
}

func (p *proxy) listen() {
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Errorf("proxy: %v", err)
		return
	}
	p.listener = l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
}

// set changes what becomes of all connections, old and new, but for those with a line of their own.
func (p *proxy) set(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == l {
		return
	}
	p.line = l
	p.apply()
	switch {
	case l.refused && p.listener != nil:
		p.listener.Close()
		p.listener = nil
	case !l.refused && p.listener == nil:
		p.listen()
	}
}

// setFor changes what becomes of the connections of one process.
func (p *proxy) setFor(name string, l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines[name] = l
	p.apply()
}

// apply makes open connections follow the lines. A stream with a hole is of no use to anybody. The
// caller holds mu.
func (p *proxy) apply() {
	close(p.changed)
	p.changed = make(chan struct{})
	for k := range p.open {
		now := p.of(k)
		if now.refused || k.lossy && now.requests != drops && now.replies != drops {
			p.cut(k)
		}
	}
}

// of is the line of a connection. The caller holds mu.
func (p *proxy) of(k *link) line {
	if l, ok := p.lines[k.name]; ok && k.name != "" {
		return l
	}
	return p.line
}

// reset ends all connections there are, so that both ends notice at once.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.open {
		p.cut(k)
	}
}

// cut ends a connection. The caller holds mu.
func (p *proxy) cut(k *link) {
	reset(k.client)
	reset(k.server)
	delete(p.open, k)
	p.sums.resets++
}

// reset ends a connection so that the other end notices at once.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// sum is what became of everything so far.
func (p *proxy) sum() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sums
}

// fallen is how many bytes of replies were dropped.
func (p *proxy) fallen() int64 { return p.sum().replies.dropped }

func (p *proxy) serve(client net.Conn) {
	k := &link{client: client}
	if p.whose != nil {
		k.name = p.whose(client)
	}
	server, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil {
		reset(client)
		return
	}
	k.server = server
	p.mu.Lock()
	if p.of(k).refused {
		p.cut(k)
		p.mu.Unlock()
		return
	}
	p.open[k] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(k, false) })
	both.Go(func() { p.copy(k, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, k)
	p.mu.Unlock()
}

// packet are bytes on their way, which arrive no sooner than at a moment.
type packet struct {
	bytes []byte
	at    time.Time
}

// onTheWay bounds how many packets a delayed or held direction keeps; then it reads no more.
const onTheWay = 1024

// copy moves bytes one way until either end is gone.
func (p *proxy) copy(k *link, replies bool) {
	to, from := k.server, k.client
	if replies {
		to, from = k.client, k.server
	}
	defer to.Close()
	defer from.Close()
	queue := make(chan packet, onTheWay)
	ended := make(chan error, 1)
	go func() {
		defer close(queue)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				queue <- packet{append([]byte(nil), buffer[:n]...), p.arrival(k)}
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for b := range queue {
		time.Sleep(time.Until(b.at))
		if !p.pass(k, replies, len(b.bytes)) {
			continue
		}
		if _, err := to.Write(b.bytes); err != nil {
			from.Close()
			for range queue { // until the reader has noticed
			}
			return
		}
	}
	if err := <-ended; err != io.EOF {
		reset(to)
	}
}

func (p *proxy) arrival(k *link) time.Time {
	p.mu.Lock()
	l := p.of(k)
	p.mu.Unlock()
	if l.delay == 0 {
		return time.Time{}
	}
	return time.Now().Add(l.delay - l.jitter + time.Duration(rand.Int64N(int64(2*l.jitter)+1)))
}

// pass waits while bytes are held, counts them, and says whether they go on.
func (p *proxy) pass(k *link, replies bool, bytes int) bool {
	held := false
	for {
		p.mu.Lock()
		l, sums, w := p.of(k), &p.sums.requests, way(0)
		if w = l.requests; replies {
			sums, w = &p.sums.replies, l.replies
		}
		changed := p.changed
		switch {
		case w == holds && !l.refused:
			if !held {
				sums.held += int64(bytes)
			}
			held = true
			p.mu.Unlock()
			<-changed
			continue
		case w == drops:
			sums.dropped += int64(bytes)
			k.lossy = true
		case !l.refused:
			sums.passed += int64(bytes)
		}
		p.mu.Unlock()
		return w == passes && !l.refused
	}
}
