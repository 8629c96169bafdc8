// Command witness is what the scheduled jobs of chaos-tests run: it writes down that it started, that
// it lives, and that it ended, so that nobody has to believe the scheduler. It gives an account and
// judges nothing; package history does. Each line is one write to a file opened for appending, so that
// lines of many processes never mix.
//
// Where it writes and on which node it runs is told by the node process's own environment
// (WITNESS_LOG, WITNESS_NODE), which the scheduler hands on and has no part in, and so is where it sends
// its effects (WITNESS_RECEIVER, host:port; without it it has none): one at its start, with each beat and
// before its end. It writes down what each was answered. What to do is told by the job's: WITNESS_SLEEP
// (a duration), WITNESS_EXIT (a code), WITNESS_STUBBORN (it goes on when told to stop), WITNESS_CHILD (a
// child in a session of its own outlives it), WITNESS_VERSION (a number that tells the definitions of a
// job apart).
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const beatEvery = 100 * time.Millisecond

// childVariable holds the nonce of the command that started this process as its child.
const childVariable = "WITNESS_PARENT"

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		code = 99
	}
	os.Exit(code)
}

func run() (int, error) {
	log, err := os.OpenFile(os.Getenv("WITNESS_LOG"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	w := &witness{log: log, nonce: os.Getenv(childVariable), child: os.Getenv(childVariable) != ""}
	if !w.child {
		w.nonce = draw()
	}
	if w.version, err = number(os.Getenv("WITNESS_VERSION")); err != nil {
		return 0, err
	}
	if !w.child {
		w.receiver = os.Getenv("WITNESS_RECEIVER")
	}
	if err := w.write("start", 0); err != nil {
		return 0, err
	}
	if err := w.effect(); err != nil {
		return 0, err
	}
	code, err := number(os.Getenv("WITNESS_EXIT"))
	if err != nil {
		return 0, err
	}
	life, err := duration(os.Getenv("WITNESS_SLEEP"))
	if err != nil {
		return 0, err
	}
	if os.Getenv("WITNESS_CHILD") != "" && !w.child {
		if err := w.bear(); err != nil {
			return 0, err
		}
	}
	if told, err := w.live(life); err != nil || told {
		return 143, err
	}
	if err := w.effect(); err != nil {
		return 0, err
	}
	return code, w.write("end", code)
}

// bear starts a child that nothing ties to its parent: a session of its own, and no open pipe.
func (w *witness) bear() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childVariable+"="+w.nonce, "WITNESS_SLEEP=1h")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return child.Start()
}

type witness struct {
	log      *os.File
	nonce    string
	child    bool
	receiver string   // where effects go; "" for nowhere
	line     net.Conn // to there, once there is one
	version  int
}

// live beats for so long, and says whether it was told to stop before.
func (w *witness) live(life time.Duration) (told bool, err error) {
	if life == 0 {
		return false, nil
	}
	stop := make(chan os.Signal, 1) // one is enough: the first is obeyed or noted
	signal.Notify(stop, syscall.SIGTERM)
	end, beat := time.After(life), time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-end:
			return false, nil
		case <-beat.C:
			if err = w.write("beat", 0); err == nil {
				err = w.effect()
			}
		case <-stop:
			if err = w.write("term", 0); os.Getenv("WITNESS_STUBBORN") == "" {
				return true, err
			}
		}
		if err != nil {
			return false, err
		}
	}
}

// write puts down one line. It is made by hand: a command starts sixty times a second on a small
// machine, and encoders cost a millisecond each time.
func (w *witness) write(event string, exit int) error {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return err
	}
	b := make([]byte, 0, 1024)
	b = append(b, `{"ev":"`+event+`"`...)
	b = append(b, `,"boot":`...)
	b = strconv.AppendInt(b, boot.Nano(), 10)
	b = append(b, `,"wall":`...)
	b = strconv.AppendInt(b, time.Now().UnixNano(), 10)
	for _, f := range [][2]string{
		{"node", "WITNESS_NODE"}, {"namespace", "QUORUMCRON_NAMESPACE"}, {"job", "QUORUMCRON_JOB"},
		{"firing", "QUORUMCRON_FIRING"}, {"instant", "QUORUMCRON_INSTANT"}, {"attempt", "QUORUMCRON_ATTEMPT"},
		{"token", "QUORUMCRON_TOKEN"}, {"member", "QUORUMCRON_MEMBER"},
	} {
		b = append(b, `,"`+f[0]+`":`...)
		b = strconv.AppendQuote(b, os.Getenv(f[1]))
	}
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, int64(os.Getpid()), 10)
	b = append(b, `,"nonce":"`+w.nonce+`","child":`...)
	b = strconv.AppendBool(b, w.child)
	b = append(b, `,"exit":`...)
	b = strconv.AppendInt(b, int64(exit), 10)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, int64(w.version), 10)
	b = append(b, "}\n"...)
	_, err := w.log.Write(b)
	return err
}

// draw makes a nonce, so that two starts are never taken for one.
func draw() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func number(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	return strconv.Atoi(s)
}

func duration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	return time.ParseDuration(s)
}
