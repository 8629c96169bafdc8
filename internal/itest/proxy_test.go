package itest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is a loopback connection to etcd that can be held up in each direction and broken.
type proxy struct {
	listener net.Listener
	target   string

	mu           sync.Mutex
	changed      sync.Cond // anything below
	holdRequests bool
	holdReplies  bool
	caught       bool // what follows the held requests is lost
	pipes        map[*pipe]bool
	closed       bool
	wg           sync.WaitGroup
}

// pipe is one connection through the proxy.
type pipe struct {
	client, server net.Conn
	held           []byte // from the client, not passed on
	answers        answers
}

// answers counts the gRPC answers in the bytes of a server: headers frames that end a stream.
type answers struct {
	head  []byte // of the frame that has begun
	skip  int    // bytes of its body still to come
	count int
}

func (a *answers) see(b []byte) {
	for len(b) > 0 {
		if a.skip > 0 {
			n := min(a.skip, len(b))
			a.skip, b = a.skip-n, b[n:]
			continue
		}
		n := min(9-len(a.head), len(b))
		a.head, b = append(a.head, b[:n]...), b[n:]
		if len(a.head) < 9 {
			return
		}
		const headers, endStream = 1, 1
		if a.head[3] == headers && a.head[4]&endStream != 0 {
			a.count++
		}
		a.skip = int(binary.BigEndian.Uint32(append([]byte{0}, a.head[:3]...)))
		a.head = a.head[:0]
	}
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, pipes: map[*pipe]bool{}}
	p.changed.L = &p.mu
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) endpoint() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.reset()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pipe{client: client, server: server}
		p.mu.Lock()
		p.pipes[c] = true
		if p.closed {
			p.breakLocked(c)
		}
		p.mu.Unlock()
		p.wg.Go(func() { p.pump(c, client, p.request) })
		p.wg.Go(func() { p.pump(c, server, p.reply) })
	}
}

// pump reads one direction and has what it read dealt with, until either end is closed.
func (p *proxy) pump(c *pipe, from io.Reader, deal func(*pipe, []byte) error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err == nil {
			err = deal(c, buf[:n])
		}
		if err != nil {
			p.mu.Lock()
			p.breakLocked(c)
			p.mu.Unlock()
			return
		}
	}
}

func (p *proxy) request(c *pipe, b []byte) error {
	p.mu.Lock()
	if p.holdRequests {
		if !p.caught {
			c.held = append(c.held, b...)
			p.changed.Broadcast()
		}
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	_, err := c.server.Write(b)
	return err
}

func (p *proxy) reply(c *pipe, b []byte) error {
	p.mu.Lock()
	c.answers.see(b)
	p.changed.Broadcast()
	for p.holdReplies && p.pipes[c] {
		p.changed.Wait()
	}
	p.mu.Unlock()
	_, err := c.client.Write(b)
	return err
}

func (p *proxy) breakLocked(c *pipe) {
	_ = c.client.Close()
	_ = c.server.Close()
	delete(p.pipes, c)
	p.changed.Broadcast()
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdRequests, p.holdReplies, p.caught = false, false, false
	for c := range p.pipes {
		p.breakLocked(c)
	}
}

func (p *proxy) hold(requests, replies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdRequests, p.holdReplies = p.holdRequests || requests, p.holdReplies || replies
}

// catch waits until a held request contains marker, and loses what follows.
func (p *proxy) catch(marker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for c := range p.pipes {
			if bytes.Contains(c.held, []byte(marker)) {
				p.caught = true
				return
			}
		}
		p.changed.Wait()
	}
}

// land passes on what is held, waits until the server has answered, and breaks the connection.
func (p *proxy) land(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	for c := range p.pipes {
		if len(c.held) == 0 {
			continue
		}
		before := c.answers.count
		if _, err := c.server.Write(c.held); err != nil {
			t.Errorf("land a request: %v", err)
		}
		for c.answers.count == before && p.pipes[c] {
			p.changed.Wait()
		}
		if c.answers.count == before {
			t.Error("land a request: the server did not answer")
		}
	}
	p.mu.Unlock()
	p.reset()
}
