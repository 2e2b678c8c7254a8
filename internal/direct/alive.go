package direct

import "syscall"

// alive reports whether the other side has not closed conn yet, and has not said
// anything that nobody asked for.
func alive(conn syscall.Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	well := false
	err = raw.Read(func(fd uintptr) bool {
		well = silent(fd)
		return true
	})
	return err == nil && well
}
