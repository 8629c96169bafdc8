package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onSignals returns a context that ends with the first SIGTERM or SIGINT, and calls atOnce at the
// second. say is told what happens. stop ends the listening and waits for its goroutine.
func onSignals(ctx context.Context, say func(string), atOnce func()) (draining context.Context, stop func()) {
	draining, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2) // the runtime drops what finds no room; two are all that matter
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for seen := 0; ; seen++ {
			select {
			case <-done:
				return
			case s := <-signals:
				if seen == 0 {
					say("draining after " + signalName(s) + "; a second one ends at once")
					cancel()
					continue
				}
				say("ending at once")
				atOnce()
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
	if s == syscall.SIGTERM {
		return "SIGTERM"
	}
	return "SIGINT"
}
