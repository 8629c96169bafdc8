package election

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrFolderInUse says that another process holds the data folder: a node that runs, or the
// supervisor of one that has just ended and still has children to kill.
var ErrFolderInUse = errors.New("data folder is in use")

// ErrFolderLingers is the ErrFolderInUse of a node that is dead: its supervisor still kills what it
// ran, which takes moments. Trying again is right.
var ErrFolderLingers = fmt.Errorf("%w: its node is dead, and the node's commands are being killed", ErrFolderInUse)

// Folder is an open data folder. Its lock file is held with flock for as long as any process has the
// file open, and the supervisor of the commands has it open too: whoever gets the lock knows that
// the process before it and every command of that process are dead. That is the proof of death by
// which a restarted node revokes its predecessor's leases without waiting for them to expire.
//
// Beside the lock it keeps one small record: the ids of the leases in use and the last incarnation.
// A lost or unreadable record costs a wait of at most two TTLs and nothing else.
//
// Folder is safe for concurrent use. The folder must be on a local disk: flock means nothing on some
// network file systems.
type Folder struct {
	path string
	lock *os.File
	note string // what OpenFolder had to put right, for the log; "" when all was well

	mu     sync.Mutex // guards record and predecessors
	record folderRecord
	// predecessors are the leases that the process before left behind.
	predecessors []int64
}

// folderRecord is what the folder remembers, as JSON that a person can read.
type folderRecord struct {
	Incarnation int64    `json:"incarnation"`
	Leases      []string `json:"leases"` // hexadecimal, as etcdctl shows them
}

const (
	lockFile   = "lock"
	recordFile = "sessions.json"
)

// OpenFolder makes the folder if it is not there and takes its lock, at once or not at all.
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	name := filepath.Join(path, lockFile)
	// The file is never removed: a lock on a file without a name would be held by nobody else's rule.
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(lock, 64))
		lock.Close()
		who := strings.TrimSpace(string(holder))
		switch {
		case !errors.Is(err, unix.EWOULDBLOCK):
		case dead(who):
			return nil, fmt.Errorf("%w: %s, process %s", ErrFolderLingers, path, who)
		default:
			return nil, fmt.Errorf("%w: %s is held by process %s; stop it, or give this node a folder of its own",
				ErrFolderInUse, path, orUnknown(who))
		}
		return nil, fmt.Errorf("lock data folder %s: %w", path, err)
	}
	f := &Folder{path: path, lock: lock}
	if err := f.takeOver(); err != nil {
		lock.Close()
		return nil, err
	}
	return f, nil
}

// dead says whether the process that wrote its id into the lock file is surely gone.
func dead(id string) bool {
	pid, err := strconv.Atoi(id)
	return err == nil && pid > 1 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// takeOver writes who holds the lock and reads what the process before left.
func (f *Folder) takeOver() error {
	if err := f.lock.Truncate(0); err != nil {
		return fmt.Errorf("write data folder's lock: %w", err)
	}
	if _, err := f.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write data folder's lock: %w", err)
	}
	name := filepath.Join(f.path, recordFile)
	raw, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read data folder: %w", err)
	}
	if err := json.Unmarshal(raw, &f.record); err == nil {
		f.predecessors, err = parseLeases(f.record.Leases)
		if err == nil {
			return nil
		}
	}
	// Nothing in it is needed for safety, so that a node never stays down because of it.
	aside := name + ".unreadable"
	f.note = fmt.Sprintf("%s could not be read and was moved to %s", name, aside)
	f.record, f.predecessors = folderRecord{}, nil
	if err := os.Rename(name, aside); err != nil {
		return fmt.Errorf("put unreadable record aside: %w", err)
	}
	return nil
}

// Path is the folder's path.
func (f *Folder) Path() string { return f.path }

// File is the locked file. A child that inherits it holds the lock together with this process, and
// must close it only when all that it started is dead.
func (f *Folder) File() *os.File { return f.lock }

// Close gives up this process's hold on the lock. The leases stay on record until they are revoked.
func (f *Folder) Close() error { return f.lock.Close() }

// takePredecessors returns the leases that the process before left behind.
func (f *Folder) takePredecessors() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.predecessors)
}

// addLease records a lease before it is used.
func (f *Folder) addLease(id int64) error {
	return f.change(func(r *folderRecord) {
		if text := leaseText(id); !slices.Contains(r.Leases, text) {
			r.Leases = append(r.Leases, text)
		}
	})
}

// dropLease forgets a lease that etcd no longer has.
func (f *Folder) dropLease(id int64) error {
	return f.change(func(r *folderRecord) {
		r.Leases = slices.DeleteFunc(r.Leases, func(text string) bool { return text == leaseText(id) })
		f.predecessors = slices.DeleteFunc(f.predecessors, func(other int64) bool { return other == id })
	})
}

// joined records an incarnation and returns the one before it.
func (f *Folder) joined(incarnation int64) (before int64, err error) {
	err = f.change(func(r *folderRecord) {
		before = r.Incarnation
		r.Incarnation = incarnation
	})
	return before, err
}

// change writes the record as a whole: a reader finds the old or the new one, also after a crash.
func (f *Folder) change(edit func(*folderRecord)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := folderRecord{Incarnation: f.record.Incarnation, Leases: slices.Clone(f.record.Leases)}
	edit(&next)
	f.record = next // Also if the disk is full: the next write that succeeds tells all.
	raw, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("encode data folder's record: %w", err)
	}
	if err := replaceFile(filepath.Join(f.path, recordFile), append(raw, '\n')); err != nil {
		return fmt.Errorf("write data folder's record: %w", err)
	}
	return nil
}

// replaceFile puts content under a name in one step that survives a crash of the machine.
func replaceFile(name string, content []byte) error {
	temporary, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name)) // The rename is durable when the folder is.
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func leaseText(id int64) string { return strconv.FormatInt(id, 16) }

func parseLeases(texts []string) ([]int64, error) {
	ids := make([]int64, 0, len(texts))
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 16, 64)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}
