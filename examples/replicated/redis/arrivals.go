// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"io"
	"net"
	"os"
	"syscall"
)

// arrivals is a connection that can be read without waiting. TLS over it can be read so
// too: a record that has not come as a whole is continued by a later read.
type arrivals struct {
	net.Conn
	raw syscall.RawConn // nil: nothing is read without waiting.
	now bool            // Whether Read returns errNothing in place of waiting.
}

// errNothing is what TLS takes for an error that passes.
var errNothing net.Error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "nothing has come" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }

func newArrivals(conn net.Conn) *arrivals {
	a := &arrivals{Conn: conn}
	if has, ok := conn.(syscall.Conn); ok {
		a.raw, _ = has.SyscallConn()
	}
	return a
}

func (a *arrivals) Read(space []byte) (count int, err error) {
	if !a.now {
		return a.Conn.Read(space)
	}
	if a.raw == nil || len(space) == 0 {
		return 0, errNothing
	}
	failed := a.raw.Read(func(descriptor uintptr) bool {
		for {
			if count, err = syscall.Read(int(descriptor), space); err != syscall.EINTR {
				return true // Whatever it is, it does not wait.
			}
		}
	})
	switch {
	case failed != nil: // The deadline is over, or the connection is closed.
		return 0, failed
	case err == syscall.EAGAIN:
		return 0, errNothing
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case count == 0:
		return 0, io.EOF
	}
	return count, nil
}
