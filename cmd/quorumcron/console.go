package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// console is the world as a command sees it; tests give it another one.
type console struct {
	in       io.Reader
	out, err io.Writer
	// lookup and environ read environment variables.
	lookup  func(name string) (string, bool)
	environ func() []string
	now     func() time.Time
	// newID makes the id of a request, which no other has.
	newID func() string
	// outTerminal and errTerminal say that a person reads along.
	outTerminal, errTerminal bool
}

// terminalConsole is the process's own.
func terminalConsole() *console {
	return &console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, lookup: os.LookupEnv, environ: os.Environ, now: time.Now,
		newID:       func() string { return strings.ToLower(rand.Text()) },
		outTerminal: isTerminal(os.Stdout), errTerminal: isTerminal(os.Stderr),
	}
}

// isTerminal says whether a file is a character device, which is near enough for choosing colours and
// the form of logs; /dev/null is one too, and does not mind.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// say writes a line for the person to stderr; results go to out.
func (c *console) say(format string, args ...any) {
	fmt.Fprintf(c.err, format+"\n", args...)
}

// colour says whether stdout may be coloured: a terminal that nobody has asked to stay plain.
func (c *console) colour() bool {
	if no, _ := c.lookup("NO_COLOR"); no != "" {
		return false
	}
	term, _ := c.lookup("TERM")
	return c.outTerminal && term != "dumb"
}
