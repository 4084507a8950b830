package sovia

// #define _GNU_SOURCE
// #include <netinet/in.h>
// #include <netinet/tcp.h>
// #include <sovia.h>
// #include <stdlib.h>
//
// static int sovia_get_info(int fd, struct sov_info *info) {
//     socklen_t length = sizeof *info;
//     return sov_getsockopt(fd, SOL_SOVIA, SOV_INFO, info, &length);
// }
//
// static int sovia_set_linger(int fd, int seconds) {
//     struct linger linger = { .l_onoff = seconds >= 0, .l_linger = seconds >= 0 ? seconds : 0 };
//     return sov_setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
// }
import "C"

import (
	"io"
	"net"
	"sync"
	"time"
	"unsafe"
)

// Conn is a TCP connection. It implements net.Conn and has most of the further methods of
// net.TCPConn.
type Conn struct {
	socket        *socket
	local, remote net.Addr
	// Held by a call, so that the bytes of one Read or Write stay together.
	reading, writing sync.Mutex
}

var _ net.Conn = (*Conn)(nil)

// newConn returns a Conn for a connected socket, and sets TCP_NODELAY and keep-alive as package net does.
func newConn(s *socket, keepAlive KeepAliveConfig) (*Conn, error) {
	if err := s.option(C.IPPROTO_TCP, C.TCP_NODELAY, 1); err != nil {
		s.close()
		return nil, err
	}
	if keepAlive.Enable {
		// Package net ignores this error too.
		s.keepAlive(keepAlive)
	}
	return &Conn{socket: s, local: s.localAddr(), remote: s.remoteAddr()}, nil
}

// Read waits for at least one byte and reads the bytes that have arrived. At the end of the stream
// it returns io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	s := c.socket
	count, err := s.until("sov_recv", s.canRead, &s.readBy, func() (C.ssize_t, error) {
		if len(b) == 0 {
			return 0, nil
		}
		done, err := C.sov_recv(s.fd, unsafe.Pointer(&b[0]), C.size_t(len(b)), C.MSG_DONTWAIT)
		return done, err
	})
	if err != nil {
		return 0, c.failed("read", err)
	}
	if count == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return count, nil
}

// Write writes all of b. It waits while the peer is behind.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	s := c.socket
	for done := 0; ; {
		rest := b[done:]
		count, err := s.until("sov_send", s.canWrite, &s.writeBy, func() (C.ssize_t, error) {
			if len(rest) == 0 {
				return 0, nil
			}
			done, err := C.sov_send(s.fd, unsafe.Pointer(&rest[0]), C.size_t(len(rest)), C.MSG_DONTWAIT|C.MSG_NOSIGNAL)
			return done, err
		})
		if err != nil {
			return done, c.failed("write", err)
		}
		if done += count; done == len(b) {
			return done, nil
		}
	}
}

// Close closes the connection. Blocked calls return net.ErrClosed. The peer still receives all
// written bytes.
func (c *Conn) Close() error {
	return c.failed("close", c.socket.close())
}

// CloseRead shuts down the reading side of the connection.
func (c *Conn) CloseRead() error { return c.shutdown(C.SHUT_RD) }

// CloseWrite shuts down the writing side. The peer reads all written bytes, then io.EOF.
func (c *Conn) CloseWrite() error { return c.shutdown(C.SHUT_WR) }

func (c *Conn) shutdown(how C.int) error {
	_, err := c.socket.call(func() (C.ssize_t, error) {
		done, err := C.sov_shutdown(c.socket.fd, how)
		return C.ssize_t(done), err
	})
	return c.failed("close", named("sov_shutdown", err))
}

// LocalAddr returns the local address, a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the remote address, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the read and write deadlines. A zero value means no deadline.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline for future Read calls and any currently blocked Read call.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.socket.readBy, t) }

// SetWriteDeadline sets the deadline for future Write calls and any currently blocked Write call.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.socket.writeBy, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	select {
	case <-c.socket.closed:
		return c.failed("set", net.ErrClosed)
	default:
		d.set(t)
		return nil
	}
}

// SetNoDelay sets TCP_NODELAY, which is on by default. If it is off, small writes are combined.
func (c *Conn) SetNoDelay(noDelay bool) error {
	return c.failed("set", c.socket.option(C.IPPROTO_TCP, C.TCP_NODELAY, truth(noDelay)))
}

// SetLinger sets what Close does with bytes that the peer has not acknowledged. If seconds is negative (the default),
// they are sent in the background. If it is zero, they are discarded and the connection is reset. If it is positive,
// Close waits at most that long.
func (c *Conn) SetLinger(seconds int) error {
	_, err := c.socket.call(func() (C.ssize_t, error) {
		done, err := C.sovia_set_linger(c.socket.fd, C.int(seconds))
		return C.ssize_t(done), err
	})
	return c.failed("set", named("sov_setsockopt", err))
}

// SetReadBuffer sets the size of the kernel's receive buffer.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.failed("set", c.socket.option(C.SOL_SOCKET, C.SO_RCVBUF, C.int(bytes)))
}

// SetWriteBuffer sets the size of the kernel's send buffer.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.failed("set", c.socket.option(C.SOL_SOCKET, C.SO_SNDBUF, C.int(bytes)))
}

// Stats describes the transport of a connection.
type Stats struct {
	// OnVI reports whether the bytes move over shared memory. They do so after a few transfers if both ends are
	// on one host.
	OnVI bool
	// Reason says why the connection is on TCP for good. It is empty if the connection is not.
	Reason string
	// Counts of bytes and messages over shared memory.
	BytesSent, MessagesSent, BytesReceived uint64
}

// Stats returns the state of the connection's transport.
func (c *Conn) Stats() (Stats, error) {
	var info C.struct_sov_info
	_, err := c.socket.call(func() (C.ssize_t, error) {
		done, err := C.sovia_get_info(c.socket.fd, &info)
		return C.ssize_t(done), err
	})
	if err != nil {
		return Stats{}, c.failed("get", named("sov_getsockopt", err))
	}
	stats := Stats{
		OnVI:          info.state == C.SOV_VIA,
		BytesSent:     uint64(info.bytes_sent),
		MessagesSent:  uint64(info.messages_sent),
		BytesReceived: uint64(info.bytes_received),
	}
	if text := C.sov_strreason(C.int(info.reason)); info.state == C.SOV_TCP && text != nil {
		stats.Reason = C.GoString(text)
	}
	return stats, nil
}

// failed wraps err in a *net.OpError, as package net does.
func (c *Conn) failed(operation string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: operation, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
