package chaos

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownsSocket says whether a process of this machine holds the far end of a connection.
func ownsSocket(pid int, near net.Conn) bool {
	inode := socketInode(near.RemoteAddr().(*net.TCPAddr), near.LocalAddr().(*net.TCPAddr))
	if inode == "" {
		return false
	}
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range descriptors {
		if target, err := os.Readlink(path); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// socketInode finds the socket between two addresses in the kernel's table; "" if it is gone.
func socketInode(local, remote *net.TCPAddr) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	want := []string{inTable(local), inTable(remote)}
	for row := range strings.Lines(string(table)) {
		if f := strings.Fields(row); len(f) > 9 && f[1] == want[0] && f[2] == want[1] {
			return f[9]
		}
	}
	return ""
}

// inTable is an address as the table has it: bytes of IPv4 in the other order, and a port.
func inTable(a *net.TCPAddr) string {
	ip := slices.Clone(a.IP.To4())
	slices.Reverse(ip)
	return strings.ToUpper(hex.EncodeToString(ip)) + fmt.Sprintf(":%04X", a.Port)
}
