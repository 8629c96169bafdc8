package executor

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// spoolBytes bounds the file of a spool.
const spoolBytes = 64 << 20

// ErrSpoolFull: the spool holds as much as it may.
var ErrSpoolFull = errors.New("spool full")

// SpoolEntry is one thing kept in a spool.
type SpoolEntry struct {
	ID   string
	Data []byte
}

// Spool keeps results that could not be written to etcd, through restarts of the node and the machine.
// It is one append-only file of checksummed records; a removal is a record too, and the file is
// rewritten when most of it is removed. Safe for concurrent use; one process may have it open.
type Spool struct {
	path     string
	maxBytes int64

	mu   sync.Mutex
	file *os.File
	size int64
	live int64            // bytes of the records that still count
	at   map[string]place // the newest record of each id
	next int64            // order of the next record

	dropped int64 // bytes behind the last whole record when it was opened
}

type place struct {
	order  int64
	offset int64 // of the record
	length int64
}

// A record is: checksum of all that follows, kind, length of id, length of data, id, data.
const spoolHeader = 4 + 1 + 2 + 4

const (
	spoolPut    = 'P'
	spoolDelete = 'D'
)

// OpenSpool opens the spool of a data folder, and creates it if there is none. A record that a crash
// left half written is dropped: its Put had not returned.
func OpenSpool(dataDir string) (*Spool, error) {
	dir := filepath.Join(dataDir, "spool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	s := &Spool{path: filepath.Join(dir, "results"), maxBytes: spoolBytes, at: map[string]place{}}
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	s.file = file
	if err := s.load(); err != nil {
		file.Close()
		return nil, fmt.Errorf("open spool %s: %w", s.path, err)
	}
	return s, nil
}

func (s *Spool) load() error {
	r := bufio.NewReader(s.file)
	for {
		kind, id, data, err := readRecord(r)
		if err != nil {
			break // The end, or what a crash left of a last record.
		}
		s.note(kind, id, int64(spoolHeader+len(id)+len(data)))
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.dropped = info.Size() - s.size
	// What is cut off must not come back to life behind a later record.
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

// note puts a record of that length, which stands at the end of the file, on the map.
func (s *Spool) note(kind byte, id string, length int64) {
	if old, ok := s.at[id]; ok {
		s.live -= old.length
		delete(s.at, id)
	}
	if kind == spoolPut {
		s.at[id] = place{s.next, s.size, length}
		s.live += length
		s.next++
	}
	s.size += length
}

// Put keeps data under the id, in the place of what was kept under it before. It is on disk when Put
// returns nil.
func (s *Spool) Put(id string, data []byte) error {
	record, err := encodeRecord(spoolPut, id, data)
	if err != nil {
		return fmt.Errorf("spool %s: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return fmt.Errorf("spool %s: %w", id, os.ErrClosed)
	}
	if s.size+int64(len(record)) > s.maxBytes && s.size > s.live {
		if err := s.rewrite(); err != nil {
			return fmt.Errorf("spool %s: %w", id, err)
		}
	}
	if s.size+int64(len(record)) > s.maxBytes {
		return fmt.Errorf("spool %s: %w: it holds %d entries of %d bytes", id, ErrSpoolFull, len(s.at), s.live)
	}
	if err := s.append(record, true); err != nil {
		return fmt.Errorf("spool %s: %w", id, err)
	}
	s.note(spoolPut, id, int64(len(record)))
	return nil
}

// Delete forgets what is kept under the id; to forget what is not there is no error. It may come back
// after a crash of the machine: writing a result twice is harmless, a removal is not worth a wait for
// the disk.
func (s *Spool) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return fmt.Errorf("spool %s: %w", id, os.ErrClosed)
	}
	if _, ok := s.at[id]; !ok {
		return nil
	}
	record, err := encodeRecord(spoolDelete, id, nil)
	if err == nil {
		err = s.append(record, false)
	}
	if err != nil {
		return fmt.Errorf("spool %s: %w", id, err)
	}
	s.note(spoolDelete, id, int64(len(record)))
	if s.live == 0 {
		if err := s.file.Truncate(0); err != nil {
			return fmt.Errorf("spool %s: %w", id, err)
		}
		s.size = 0
	}
	if s.size > 1<<20 && s.live < s.size/2 {
		if err := s.rewrite(); err != nil {
			return fmt.Errorf("spool %s: %w", id, err)
		}
	}
	return nil
}

// append writes a record at the end. After an error nothing of it counts: the next one overwrites it.
func (s *Spool) append(record []byte, sync bool) error {
	if _, err := s.file.WriteAt(record, s.size); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	if !sync {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	return nil
}

// All returns what is kept, in the order in which it was put.
func (s *Spool) All() ([]SpoolEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil, fmt.Errorf("read spool: %w", os.ErrClosed)
	}
	entries := make([]SpoolEntry, 0, len(s.at))
	for _, id := range s.inOrder() {
		data, err := s.read(id)
		if err != nil {
			return nil, fmt.Errorf("read spool: %s: %w", id, err)
		}
		entries = append(entries, SpoolEntry{id, data})
	}
	return entries, nil
}

// Len is how many entries are kept.
func (s *Spool) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// Dropped is how many bytes were found at the end of the file that are no whole record: more than one
// half-written record is damage.
func (s *Spool) Dropped() int64 { return s.dropped }

// Close closes the file; the entries stay.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

func (s *Spool) inOrder() []string {
	ids := slices.Collect(maps.Keys(s.at))
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(s.at[a].order, s.at[b].order) })
	return ids
}

func (s *Spool) read(id string) ([]byte, error) {
	p := s.at[id]
	_, _, data, err := readRecord(io.NewSectionReader(s.file, p.offset, p.length))
	return data, err
}

// rewrite puts what counts into a new file in the place of the old one.
func (s *Spool) rewrite() error {
	temporary := s.path + ".new"
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	fresh := &Spool{path: s.path, file: file, at: map[string]place{}}
	err = s.copyTo(fresh)
	if err == nil {
		err = os.Rename(temporary, s.path)
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(temporary))
	}
	s.file.Close()
	s.file, s.size, s.live, s.at, s.next = fresh.file, fresh.size, fresh.live, fresh.at, fresh.next
	return syncDir(filepath.Dir(s.path))
}

func (s *Spool) copyTo(fresh *Spool) error {
	for _, id := range s.inOrder() {
		data, err := s.read(id)
		if err != nil {
			return err
		}
		record, err := encodeRecord(spoolPut, id, data)
		if err != nil {
			return err
		}
		if err := fresh.append(record, false); err != nil {
			return err
		}
		fresh.note(spoolPut, id, int64(len(record)))
	}
	return fresh.file.Sync()
}

func encodeRecord(kind byte, id string, data []byte) ([]byte, error) {
	if id == "" || len(id) > math.MaxUint16 || len(data) > spoolBytes {
		return nil, fmt.Errorf("an id of %d bytes with %d bytes of data cannot be kept", len(id), len(data))
	}
	b := make([]byte, spoolHeader, spoolHeader+len(id)+len(data))
	b[4] = kind
	binary.BigEndian.PutUint16(b[5:], uint16(len(id)))
	binary.BigEndian.PutUint32(b[7:], uint32(len(data)))
	b = append(append(b, id...), data...)
	binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b, nil
}

func readRecord(r io.Reader) (kind byte, id string, data []byte, err error) {
	var header [spoolHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, "", nil, err
	}
	idBytes, dataBytes := int(binary.BigEndian.Uint16(header[5:])), binary.BigEndian.Uint32(header[7:])
	if dataBytes > spoolBytes {
		return 0, "", nil, errBadRecord // before so much memory is asked for
	}
	body := make([]byte, idBytes+int(dataBytes))
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, "", nil, err
	}
	sum := crc32.Update(crc32.ChecksumIEEE(header[4:]), crc32.IEEETable, body)
	kind = header[4]
	if sum != binary.BigEndian.Uint32(header[:]) || kind != spoolPut && kind != spoolDelete {
		return 0, "", nil, errBadRecord
	}
	return kind, string(body[:idBytes]), body[idBytes:], nil
}

var errBadRecord = errors.New("bad record")

// syncDir makes the names in a folder last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
