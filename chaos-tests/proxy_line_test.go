package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The lines of proxies, each by itself: a fault that does not do what its name says proves nothing.

// echo answers each line that it gets, and keeps what it got.
type echo struct {
	address string
	got     chan string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e := &echo{address: l.Addr().String(), got: make(chan string, 100)} // more than any test sends
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					text, err := in.ReadString('\n')
					if err != nil {
						return
					}
					e.got <- strings.TrimSpace(text)
					if _, err := io.WriteString(conn, "re: "+text); err != nil {
						return
					}
				}
			}()
		}
	}()
	return e
}

// caller is a client of an echo, through a proxy.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func call(t *testing.T, address string) *caller {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (c *caller) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text+"\n"); err != nil {
		c.t.Fatalf("say %s: %v", text, err)
	}
}

// hear waits for an answer; "" when none comes.
func (c *caller) hear(within time.Duration) (string, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	text, err := c.in.ReadString('\n')
	return strings.TrimSpace(text), err
}

func (c *caller) hears(want string) {
	c.t.Helper()
	if got, err := c.hear(patience); got != want {
		c.t.Errorf("heard %q (%v), want %q", got, err, want)
	}
}

const moment = 150 * time.Millisecond

func (c *caller) hearsNothing() {
	c.t.Helper()
	if got, err := c.hear(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("heard %q (%v), want silence", got, err)
	}
}

func (c *caller) isReset() {
	c.t.Helper()
	if got, err := c.hear(patience); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("heard %q (%v), want a reset", got, err)
	}
}

func (e *echo) gets(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-e.got:
		if got != want {
			t.Errorf("the server got %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Errorf("the server did not get %q", want)
	}
}

func (e *echo) getsNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-e.got:
		t.Errorf("the server got %q, want nothing", got)
	case <-time.After(moment):
	}
}

// connected is a caller whose line works, the echo behind it, and the proxy between them.
func connected(t *testing.T) (*proxy, *echo, *caller) {
	t.Helper()
	realProcesses(t)
	e := newEcho(t)
	p := newProxy(t, e.address)
	c := call(t, p.address)
	c.say("hello")
	e.gets(t, "hello")
	c.hears("re: hello")
	return p, e, c
}

// counted waits until a proxy has seen what goes through it: it may be slower than the caller is patient.
func counted(t *testing.T, p *proxy, what string, saw func(counts) bool) {
	t.Helper()
	eventually(t, patience, what, func() error {
		if now := p.sum(); !saw(now) {
			return fmt.Errorf("counted %s", now)
		}
		return nil
	})
}

func TestLineHoldsBothWays(t *testing.T) {
	p, e, c := connected(t)
	before := p.sum()
	p.set(blackHole)
	c.say("one")
	e.getsNothing(t)
	c.hearsNothing()
	late := call(t, p.address) // a handshake succeeds, and nothing else
	late.say("two")
	late.hearsNothing()
	counted(t, p, "requests are held", func(c counts) bool { return c.requests.held > before.requests.held })
	if got := p.sum().minus(before); got.requests.held == 0 || got.requests.passed+got.replies.passed+got.requests.dropped > 0 {
		t.Errorf("counted %s", got)
	}
	p.set(pass)
	c.hears("re: one")
	late.hears("re: two")
}

func TestLineHoldsRequests(t *testing.T) {
	p, e, c := connected(t)
	p.set(holdRequests)
	c.say("one")
	e.getsNothing(t)
	p.set(pass)
	e.gets(t, "one")
	c.hears("re: one")
}

func TestLineHoldsReplies(t *testing.T) {
	p, e, c := connected(t)
	p.set(holdReplies)
	c.say("one")
	e.gets(t, "one")
	c.hearsNothing()
	p.set(pass)
	c.hears("re: one")
}

func TestLineDropsReplies(t *testing.T) {
	p, e, c := connected(t)
	p.set(dropReplies)
	c.say("one")
	e.gets(t, "one")
	c.hearsNothing()
	counted(t, p, "a reply has fallen", func(c counts) bool { return c.replies.dropped > 0 })
	p.set(pass)
	c.isReset() // a stream with a hole
	again := call(t, p.address)
	again.say("two")
	again.hears("re: two")
}

func TestLineDropsRequests(t *testing.T) {
	p, e, c := connected(t)
	p.set(dropRequests)
	c.say("one")
	e.getsNothing(t)
	c.hearsNothing()
	counted(t, p, "a request has fallen", func(c counts) bool { return c.requests.dropped > 0 })
	p.set(pass)
	c.isReset()
	e.getsNothing(t)
}

// TestLineThatLostNothingIsKept: a drop during which nothing came leaves connections whole.
func TestLineThatLostNothingIsKept(t *testing.T) {
	p, _, c := connected(t)
	p.set(dropReplies)
	p.set(pass)
	c.say("one")
	c.hears("re: one")
}

func TestLineRefuses(t *testing.T) {
	p, _, c := connected(t)
	p.set(refuse)
	c.isReset()
	if conn, err := net.DialTimeout("tcp", p.address, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialled %v: %v, want a refusal", conn, err)
	}
	p.set(pass)
	again := call(t, p.address)
	again.say("two")
	again.hears("re: two")
}

func TestLineIsReset(t *testing.T) {
	p, _, c := connected(t)
	p.reset()
	c.isReset()
	if p.sum().resets != 1 {
		t.Errorf("counted %s", p.sum())
	}
	again := call(t, p.address)
	again.say("two")
	again.hears("re: two")
}

func TestLineIsSlow(t *testing.T) {
	p, _, c := connected(t)
	p.set(slow(100*time.Millisecond, 50*time.Millisecond))
	from := time.Now()
	for _, text := range []string{"one", "two", "three"} { // they travel together, and in order
		c.say(text)
		time.Sleep(5 * time.Millisecond)
	}
	for _, text := range []string{"one", "two", "three"} {
		c.hears("re: " + text)
	}
	if took := time.Since(from); took < 100*time.Millisecond || took > 2*time.Second {
		t.Errorf("two ways of 50 to 150 ms each took %s", took)
	}
}

// TestHeldRequestOfACallerThatIsGoneArrivesLate is what makes an unknown outcome dangerous.
func TestHeldRequestOfACallerThatIsGoneArrivesLate(t *testing.T) {
	p, e, c := connected(t)
	p.set(blackHole)
	c.say("one")
	e.getsNothing(t)
	c.conn.Close()
	p.set(pass)
	e.gets(t, "one")
}

func TestLineOfOneProcess(t *testing.T) {
	realProcesses(t)
	e := newEcho(t)
	p := newProxy(t, e.address)
	addresses := map[string]string{"a": freeAddress(t), "b": freeAddress(t)}
	p.whose = func(c net.Conn) string {
		for name, address := range addresses {
			if c.RemoteAddr().String() == address {
				return name
			}
		}
		return ""
	}
	dial := func(name string) *caller {
		from, _ := net.ResolveTCPAddr("tcp", addresses[name])
		conn, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return &caller{t, conn, bufio.NewReader(conn)}
	}
	p.setFor("a", blackHole)
	a, b := dial("a"), dial("b")
	a.say("one")
	b.say("two")
	b.hears("re: two")
	a.hearsNothing()
	p.setFor("a", pass)
	a.hears("re: one")
}

func TestProcessBehindAConnection(t *testing.T) {
	realProcesses(t)
	e := newEcho(t)
	l, err := net.Listen("tcp", freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := call(t, l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call(t, e.address)
	if !ownsSocket(os.Getpid(), conn) {
		t.Errorf("%s is not found to be ours", c.conn.LocalAddr())
	}
	if ownsSocket(os.Getppid(), conn) {
		t.Errorf("%s is found to be our parent's", c.conn.LocalAddr())
	}
}
