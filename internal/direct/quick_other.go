//go:build !linux || !(amd64 || arm64) || race

package direct

import (
	"net"
	"time"
)

// There is no quick here.
type quick struct{ net.Conn }

// quicken returns conn: nothing is quicker here, or the race detector is to see it.
func quicken(conn net.Conn) net.Conn { return conn }

// offer writes nothing.
func offer(net.Conn, []byte) int { return 0 }

// poll reads nothing.
func (*quick) poll([]byte, time.Time) (int, error) { return 0, errNothing }
