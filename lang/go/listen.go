package sovia

// #define _GNU_SOURCE
// #include <netinet/in.h>
// #include <sovia.h>
import "C"

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// Length of the queue of connections to accept; the system may allow fewer.
const backlog = 4096

// Listener is a net.Listener that accepts connections of this package.
type Listener struct {
	socket    *socket
	at        net.Addr
	keepAlive KeepAliveConfig
}

var _ net.Listener = (*Listener)(nil)

// ListenConfig contains options for listening. Its fields have the meaning of those of net.ListenConfig.
type ListenConfig struct {
	// KeepAlive is the time without data from the peer after which the kernel sends a probe. Zero means 15 seconds, and
	// a negative value disables probes. KeepAliveConfig.Enable overrides this field.
	KeepAlive       time.Duration
	KeepAliveConfig KeepAliveConfig
}

// Listen listens on an address of network "tcp", "tcp4" or "tcp6", like net.Listen.
func Listen(network, address string) (net.Listener, error) {
	return (&ListenConfig{}).Listen(context.Background(), network, address)
}

// Listen listens on an address of network "tcp", "tcp4" or "tcp6". The context limits the lookup of the address.
func (c *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	targets, err := resolve(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	l, err := c.listen(targets[0])
	if err == nil {
		return l, nil
	}
	// All addresses of the host: those of IPv4 if there is no IPv6.
	if network == "tcp" && targets[0].IP.Equal(net.IPv6zero) && errors.Is(err, syscall.EAFNOSUPPORT) {
		if l, err := c.listen(&net.TCPAddr{IP: net.IPv4zero, Port: targets[0].Port}); err == nil {
			return l, nil
		}
	}
	return nil, &net.OpError{Op: "listen", Net: network, Addr: targets[0], Err: err}
}

func (c *ListenConfig) listen(at *net.TCPAddr) (*Listener, error) {
	s, err := openSocket(at.IP)
	if err != nil {
		return nil, err
	}
	if err = s.option(C.SOL_SOCKET, C.SO_REUSEADDR, 1); err == nil {
		if err = s.bind(at); err == nil {
			err = s.listen(backlog)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	keepAlive := keepAliveOf(c.KeepAlive, c.KeepAliveConfig)
	return &Listener{socket: s, at: s.localAddr(), keepAlive: keepAlive}, nil
}

// Accept waits for and returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	s := l.socket
	for {
		fd, err := s.until("sov_accept4", s.canRead, &s.readBy, s.accepted)
		if errors.Is(err, syscall.ECONNABORTED) {
			continue
		}
		if err != nil {
			return nil, l.failed("accept", err)
		}
		// More connections may be waiting, and another goroutine may wait for them.
		signal(s.canRead)
		taken, err := newSocket(C.int(fd))
		if err != nil {
			return nil, l.failed("accept", err)
		}
		conn, err := newConn(taken, l.keepAlive)
		if err != nil {
			// The connection has ended already.
			continue
		}
		return conn, nil
	}
}

// Close stops listening. Blocked Accept calls return net.ErrClosed. Accepted connections stay open.
func (l *Listener) Close() error { return l.failed("close", l.socket.close()) }

// Addr returns the listener's address, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.at }

// SetDeadline sets the deadline of Accept. A zero value means no deadline.
func (l *Listener) SetDeadline(t time.Time) error {
	select {
	case <-l.socket.closed:
		return l.failed("set", net.ErrClosed)
	default:
		l.socket.readBy.set(t)
		return nil
	}
}

func (l *Listener) failed(operation string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: operation, Net: "tcp", Addr: l.at, Err: err}
}
