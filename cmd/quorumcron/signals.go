package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onSignals returns a context that ends with the first signal that asks for an end, and calls atOnce at the
// second: SIGTERM, SIGINT, and SIGHUP, which a terminal sends when it is closed (nohup has it ignored). say is told
// what happens. stop ends the listening and waits for its goroutine.
//
// That nobody reads the output any more would kill the process by SIGPIPE. It is a reason to drain if shown, for a
// program whose output is what it is run for; a node goes on without a reader of its logs.
func onSignals(ctx context.Context, shown bool, say func(string), atOnce func()) (draining context.Context, stop func()) {
	draining, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2) // the runtime drops what finds no room; two are all that matter
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	broken := make(chan os.Signal, 1) // not ignored: commands would inherit that
	signal.Notify(broken, syscall.SIGPIPE)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pipe := broken
		if !shown {
			pipe = nil
		}
		asked := false
		ask := func(why string) {
			if asked {
				say("ending at once")
				atOnce()
				return
			}
			asked = true
			say("draining after " + why + "; a second signal ends at once")
			cancel()
		}
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				ask(signalName(s))
			case <-pipe:
				pipe = nil // each further line is another one
				ask("the end of who read the output")
			}
		}
	}()
	return draining, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}

// signalName is what people call it.
func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return "SIGINT"
}
