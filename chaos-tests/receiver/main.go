// Command receiver is where the commands of chaos-tests send their effects: the outside world that a
// token is for. It keeps two ledgers of the same effects. The fenced one remembers the highest token of
// each job and refuses lower ones, as docs/guarantees.md tells users to do; the plain one takes all, and
// shows what users would see who do not. It writes down every answer, and judges nothing.
//
// POST /effect has the effect as JSON in its body, and is answered 200 or 409 by the fenced ledger.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "where it listens")
	path := flag.String("log", "", "the file that it appends its answers to")
	flag.Parse()
	log, err := os.OpenFile(*path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("-log %q: %w", *path, err)
	}
	defer log.Close()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: newReceiver(log), ReadHeaderTimeout: time.Second}
	go func() { // ends with the process that started this one
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// receiver is both ledgers. It is safe for concurrent use.
type receiver struct {
	mu      sync.Mutex // guards what follows: effects are answered one after the other
	log     io.Writer
	seq     int64
	ledgers []*ledger
}

// ledger has the highest token that it accepted of each job.
type ledger struct {
	name    string
	fences  bool
	highest map[string]int64
}

func newReceiver(log io.Writer) *receiver {
	return &receiver{log: log, ledgers: []*ledger{
		{history.Fenced, true, map[string]int64{}}, {history.Plain, false, map[string]int64{}},
	}}
}

// mostBody bounds one effect.
const mostBody = 4 << 10

// ServeHTTP answers one effect, after it has been written down by both ledgers.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var e history.Effect
	if err := json.NewDecoder(http.MaxBytesReader(w, q.Body, mostBody)).Decode(&e); err != nil || e.Job == "" || e.Token <= 0 {
		http.Error(w, fmt.Sprintf("want an effect with job and token as JSON: %v", err), http.StatusBadRequest)
		return
	}
	accepted, err := r.take(e)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case accepted:
		w.WriteHeader(http.StatusOK)
	default:
		w.WriteHeader(http.StatusConflict)
	}
}

// take has both ledgers decide and write, and returns what the fenced one said.
func (r *receiver) take(e history.Effect) (accepted bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return false, err
	}
	r.seq++
	e.Seq, e.BootNS = r.seq, boot.Nano()
	for _, l := range r.ledgers {
		e.Ledger, e.Highest = l.name, l.highest[e.Job]
		e.Accepted = !l.fences || e.Token >= e.Highest
		if e.Accepted {
			l.highest[e.Job] = max(e.Highest, e.Token)
		}
		line, err := json.Marshal(e)
		if err != nil {
			return false, err
		}
		if _, err := r.log.Write(append(line, '\n')); err != nil {
			return false, err
		}
		if l.fences {
			accepted = e.Accepted
		}
	}
	return accepted, nil
}
