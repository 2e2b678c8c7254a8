//go:build unix && (!linux || !(amd64 || arm64) || race)

package direct

import "syscall"

// silent reports whether there is nothing to read, not even the end.
func silent(fd uintptr) bool {
	var b [1]byte
	n, err := syscall.Read(int(fd), b[:])
	return n <= 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
}
