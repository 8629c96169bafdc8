package election_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumcron/quorumcron/election"
	"github.com/quorumcron/quorumcron/internal/memetcd"
)

func openFolder(t *testing.T, path string) *election.Folder {
	t.Helper()
	folder, err := election.OpenFolder(path)
	if err != nil {
		t.Fatalf("open folder: %v", err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	return folder
}

func within(folder *election.Folder) func(*election.Config) {
	return func(c *election.Config) { c.Folder = folder }
}

func TestFolderInUseIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "data")
	first := openFolder(t, path)
	_, err := election.OpenFolder(path)
	if !errors.Is(err, election.ErrFolderInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second open: %v, want ErrFolderInUse with the process id", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openFolder(t, path)
}

// The supervisor of the commands inherits the lock: while it lives the folder is not free.
func TestChildThatInheritsTheLockKeepsTheFolder(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	folder := openFolder(t, path)
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{folder.File()}
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := election.OpenFolder(path); !errors.Is(err, election.ErrFolderInUse) {
		t.Errorf("open while the child lives: %v, want ErrFolderInUse", err)
	}
	_ = stdin.Close()
	_ = child.Wait()
	openFolder(t, path)
}

func TestRestartRevokesThePredecessorsLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		path := t.TempDir()
		folder := openFolder(t, path)
		killed := start(t, etcd, "a", within(folder))
		first, _ := await[election.Joined](t, killed, time.Second)
		await[election.LockLeaseOpened](t, killed, time.Second)
		killed.link.Refuse() // it dies: nothing of it reaches etcd any more
		_ = folder.Close()

		begun := time.Now()
		p := start(t, etcd, "a", within(openFolder(t, path)))
		again, at := await[election.Joined](t, p, time.Second)
		if at.Sub(begun) > time.Second {
			t.Errorf("joined after %s, want at once: the lock proves the death", at.Sub(begun))
		}
		if again.Member.Incarnation <= first.Member.Incarnation {
			t.Errorf("incarnation %d after %d, want a higher one", again.Member.Incarnation, first.Member.Incarnation)
		}
		await[election.LockLeaseOpened](t, p, time.Second)
		if leases := etcd.Leases(); len(leases) != 2 {
			t.Errorf("%d leases, want two: those of the process before are revoked", len(leases))
		}
		p.halt(time.Second)
		raw, err := os.ReadFile(filepath.Join(path, "sessions.json"))
		if err != nil || strings.Count(string(raw), `"`) != 4 {
			t.Errorf("record after a clean stop: %s, %v; want no lease", raw, err)
		}
	})
}

func TestPredecessorsLeasesAreRevokedWhenEtcdComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		path := t.TempDir()
		folder := openFolder(t, path)
		killed := start(t, etcd, "a", within(folder))
		await[election.LockLeaseOpened](t, killed, time.Second)
		killed.link.Refuse()
		_ = folder.Close()
		etcd.LoseQuorum()
		p := start(t, etcd, "a", within(openFolder(t, path)))
		time.Sleep(time.Minute)
		if reasons := strings.Join(p.Status().Reasons, "; "); !strings.Contains(reasons, "of the process before") {
			t.Errorf("reasons %q: want to read what it waits for", reasons)
		}
		etcd.RegainQuorum()
		await[election.Joined](t, p, 2*time.Second)
		if len(etcd.Leases()) > 2 {
			t.Errorf("%d leases, want at most two", len(etcd.Leases()))
		}
	})
}

func TestUnreadableRecordIsPutAside(t *testing.T) {
	for _, content := range []string{"", "{", `{"incarnation":"x"}`, `{"incarnation":3,"leases":["not hex"]}`} {
		inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
			path := t.TempDir()
			record := filepath.Join(path, "sessions.json")
			if err := os.WriteFile(record, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, etcd, "a", within(openFolder(t, path)))
			await[election.Joined](t, p, time.Second)
			await[election.LockLeaseOpened](t, p, time.Second)
			if aside, err := os.ReadFile(record + ".unreadable"); err != nil || string(aside) != content {
				t.Errorf("put aside: %q, %v; want %q", aside, err, content)
			}
		})
	}
}

func TestFolderThatCannotBeWrittenCostsNoAvailability(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		path := t.TempDir()
		folder := openFolder(t, path)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		p := start(t, etcd, "a", within(folder))
		await[election.Joined](t, p, time.Second)
		await[election.LockLeaseOpened](t, p, time.Second)
		p.lock()
	})
}

func TestIncarnationsRiseWithAndWithoutAFolder(t *testing.T) {
	inBubble(t, func(t *testing.T, etcd *memetcd.Store) {
		path := t.TempDir()
		last := int64(0)
		for turn := range 6 {
			var edit []func(*election.Config)
			if turn%2 == 0 {
				edit = append(edit, within(openFolder(t, path)))
			}
			if turn == 4 { // the folder is lost, as in a container
				edit = []func(*election.Config){within(openFolder(t, t.TempDir()))}
			}
			p := start(t, etcd, "a", edit...)
			joined, _ := await[election.Joined](t, p, time.Second)
			if joined.Member.Incarnation <= last {
				t.Errorf("turn %d: incarnation %d after %d, want a higher one", turn, joined.Member.Incarnation, last)
			}
			last = joined.Member.Incarnation
			p.halt(time.Second)
			if turn%2 == 0 && turn != 4 {
				_ = closeFolderOf(edit)
			}
		}
	})
}

func closeFolderOf(edit []func(*election.Config)) error {
	var c election.Config
	for _, e := range edit {
		e(&c)
	}
	return c.Folder.Close()
}
