package executor

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// What is kept of the outputs of ended attempts, per node; the oldest go first. What attempts in
// flight are writing comes on top of it.
const (
	keptOutputBytes = 1 << 30
	keptOutputFiles = 10_000
)

// Output opens the output file of an attempt that ran, or is running, on this member. The error is a
// scheduler.ErrNotFound when there is none: the attempt ran elsewhere, wrote nothing, or its file was
// the oldest when space was needed.
func (e *Executor) Output(f scheduler.Firing, attempt int) (io.ReadCloser, error) {
	if e.files == nil {
		return nil, fmt.Errorf("output of attempt %d of %s: %w: this member has no data folder", attempt, f, scheduler.ErrNotFound)
	}
	file, err := os.Open(e.files.path(f, attempt))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("output of attempt %d of %s: %w: this member holds none; it may have run on another, written nothing, or made room for newer ones", attempt, f, scheduler.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("output of attempt %d of %s: %w", attempt, f, err)
	}
	return file, nil
}

// outputFiles keeps the output files of a node within their bounds. A nil one files nothing. Safe for
// concurrent use.
type outputFiles struct {
	root     string
	log      *slog.Logger
	maxBytes int64
	maxFiles int

	mu    sync.Mutex
	ended []string         // paths, oldest first
	sizes map[string]int64 // by path
	bytes int64            // sum of sizes
}

func newOutputFiles(dataDir string, log *slog.Logger) *outputFiles {
	return &outputFiles{
		root: filepath.Join(dataDir, "output"), log: log,
		maxBytes: keptOutputBytes, maxFiles: keptOutputFiles,
		sizes: map[string]int64{},
	}
}

// path is <root>/<uid>/<firing key>/<attempt>.log, with whatever a file name cannot hold escaped.
func (o *outputFiles) path(f scheduler.Firing, attempt int) string {
	return filepath.Join(o.root, fileName(f.UID), fileName(f.Key()), strconv.Itoa(attempt)+".log")
}

// fileName makes a file name of any text, two names of two texts: escaping never writes "%~".
func fileName(s string) string {
	name := url.PathEscape(s)
	switch {
	case len(name) > 200:
		sum := sha256.Sum256([]byte(s))
		return fmt.Sprintf("%s%%~%x", name[:120], sum[:16])
	case name == "", name == ".", name == "..":
		return "%~" + name
	}
	return name
}

// opener creates the file of an attempt when it is called.
func (o *outputFiles) opener(f scheduler.Firing, attempt int) func() (*os.File, error) {
	if o == nil {
		return nil
	}
	path := o.path(f, attempt)
	return func() (*os.File, error) { return createOutput(path) }
}

// createOutput makes the file and its folders, for nobody but the node's user: outputs may hold secrets
// of the jobs.
func createOutput(path string) (file *os.File, err error) {
	for range 3 { // An empty folder may be removed just now, with an older file that was in it.
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, err
}

// load finds the files of earlier processes of the node.
func (o *outputFiles) load() {
	type found struct {
		path    string
		bytes   int64
		changed time.Time
	}
	var files []found
	err := filepath.WalkDir(o.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // What cannot be read cannot be kept within bounds either; go on with the rest.
		}
		if info, err := entry.Info(); err == nil {
			files = append(files, found{path, info.Size(), info.ModTime()})
		}
		return nil
	})
	if err != nil {
		o.log.Warn("output folder not read", "err", err)
	}
	slices.SortFunc(files, func(a, b found) int {
		return cmp.Or(a.changed.Compare(b.changed), cmp.Compare(a.path, b.path))
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	newer := o.ended // What ended while the walk went on is newer than all that it was to find.
	o.ended = nil
	for _, f := range files {
		if _, known := o.sizes[f.path]; !known {
			o.note(f.path, f.bytes)
		}
	}
	o.ended = append(o.ended, newer...)
	o.trim()
}

// add counts the file of an attempt that has ended.
func (o *outputFiles) add(f scheduler.Firing, attempt int, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(o.path(f, attempt), bytes)
	o.trim()
}

// salvage is what the file of an attempt shows, when nobody is left who could tell more.
func (o *outputFiles) salvage(f scheduler.Firing, attempt int) captured {
	file, err := os.Open(o.path(f, attempt))
	if err != nil {
		return captured{} // It wrote nothing.
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return captured{}
	}
	tail, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil {
		tail = nil
	}
	return captured{Tail: []byte(lastText(string(tail), tailBytes)), Total: info.Size(), Filed: info.Size()}
}

// note counts a file; one that load has found while it was being written is counted anew.
func (o *outputFiles) note(path string, bytes int64) {
	if _, known := o.sizes[path]; !known {
		o.ended = append(o.ended, path)
	}
	o.bytes += bytes - o.sizes[path]
	o.sizes[path] = bytes
}

// trim removes the oldest files until the rest is within the bounds.
func (o *outputFiles) trim() {
	for len(o.ended) > 0 && (o.bytes > o.maxBytes || len(o.ended) > o.maxFiles) {
		path := o.ended[0]
		o.ended = o.ended[1:]
		o.bytes -= o.sizes[path]
		delete(o.sizes, path)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.log.Warn("old output not removed", "path", path, "err", err)
			continue
		}
		// The folders of the firing and of the job go with their last file; others stay.
		firing := filepath.Dir(path)
		if os.Remove(firing) == nil {
			os.Remove(filepath.Dir(firing))
		}
	}
}
