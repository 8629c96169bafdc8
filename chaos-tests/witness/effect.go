package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"time"
)

// patience bounds how long an effect waits for its answer.
const patience = 2 * time.Second

// effect sends one effect to the receiver, and writes down what became of it. It speaks HTTP by hand: the
// library's client takes a program that lives for milliseconds longer to load than to run.
func (w *witness) effect() error {
	if w.receiver == "" {
		return nil
	}
	switch code, err := w.post(); {
	case err != nil:
		if w.line != nil {
			_ = w.line.Close()
			w.line = nil
		}
		return w.write("effect_unsent", 0)
	case code == "200":
		return w.write("effect", 0)
	default:
		return w.write("effect_refused", 0)
	}
}

// post returns the status code that the receiver answered: 200 or 409, or an error for anything else.
func (w *witness) post() (code string, err error) {
	if w.line == nil {
		if w.line, err = net.DialTimeout("tcp", w.receiver, patience); err != nil {
			return "", err
		}
	}
	if err := w.line.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	body := fmt.Appendf(nil, `{"job":%q,"firing":%q,"attempt":%q,"token":%s,"nonce":%q}`,
		os.Getenv("QUORUMCRON_JOB"), os.Getenv("QUORUMCRON_FIRING"), os.Getenv("QUORUMCRON_ATTEMPT"), os.Getenv("QUORUMCRON_TOKEN"), w.nonce)
	request := fmt.Appendf(nil, "POST /effect HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", w.receiver, len(body), body)
	if _, err := w.line.Write(request); err != nil {
		return "", err
	}
	answer, n := make([]byte, 4096), 0
	for !bytes.Contains(answer[:n], []byte("\r\n\r\n")) {
		more, err := w.line.Read(answer[n:])
		if n += more; err != nil || n == len(answer) {
			return "", fmt.Errorf("answer %q: %w", answer[:n], err)
		}
	}
	if status := bytes.SplitN(answer[:n], []byte(" "), 3); len(status) == 3 && bytes.HasPrefix(status[0], []byte("HTTP/1.")) {
		if code := string(status[1]); code == "200" || code == "409" {
			return code, nil
		}
	}
	return "", fmt.Errorf("answered %q", answer[:n])
}
