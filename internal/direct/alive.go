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
	err = raw.Control(func(fd uintptr) { well = silent(fd) }) // whatever deadline is set
	return err == nil && well
}
