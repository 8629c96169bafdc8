package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// line is what a proxy does with what it gets.
type line int

const (
	pass        line = iota
	blackHole        // keeps connections, and moves nothing
	refuse           // ends connections, and takes no new ones
	dropReplies      // lets requests through, and their replies fall
)

// proxy stands between a node and etcd, on an address of its own that it keeps.
type proxy struct {
	t       *testing.T
	address string
	target  string

	mu       sync.Mutex // guards all below
	line     line
	changed  chan struct{} // closed when line changes
	listener net.Listener  // nil while it refuses
	open     map[net.Conn]bool
	dropped  int64 // bytes of replies that fell
}

// newProxy passes everything on, until it is told otherwise.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, address: freeAddress(t), target: target, changed: make(chan struct{}), open: map[net.Conn]bool{}}
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

// set changes what becomes of all connections, old and new.
func (p *proxy) set(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == l {
		return
	}
	before := p.line
	p.line = l
	close(p.changed)
	p.changed = make(chan struct{})
	if l == refuse || before == dropReplies { // a stream with a hole is of no use to anybody
		for conn := range p.open {
			reset(conn)
		}
	}
	switch {
	case l == refuse:
		p.listener.Close()
		p.listener = nil
	case p.listener == nil:
		p.listen()
	}
}

// reset ends a connection so that the other end notices at once.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// fallen is how many bytes of replies were dropped.
func (p *proxy) fallen() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil {
		reset(client)
		return
	}
	p.mu.Lock()
	if p.line == refuse {
		p.mu.Unlock()
		reset(client)
		reset(server)
		return
	}
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, false) })
	both.Go(func() { p.copy(client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, client)
	delete(p.open, server)
	p.mu.Unlock()
}

// copy moves bytes one way until either end is gone. Bytes held by a black hole go on when it is lifted,
// as they do on a network that was cut.
func (p *proxy) copy(to, from net.Conn, replies bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			now := p.wait()
			switch {
			case now == refuse:
				return
			case now == dropReplies && replies:
				p.mu.Lock()
				p.dropped += int64(n)
				p.mu.Unlock()
			default:
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			if err != io.EOF {
				reset(to)
			}
			return
		}
	}
}

// wait returns what to do with bytes, once anything is to be done with them.
func (p *proxy) wait() line {
	for {
		p.mu.Lock()
		now, changed := p.line, p.changed
		p.mu.Unlock()
		if now != blackHole {
			return now
		}
		<-changed
	}
}
