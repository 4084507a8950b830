package sovia

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Dialer connects; its fields mean what those of net.Dialer do.
type Dialer struct {
	// Timeout is the longest time that it takes, and Deadline the latest point in time; zero is none.
	Timeout  time.Duration
	Deadline time.Time
	// LocalAddr is this end's address, a *net.TCPAddr; nil lets the kernel choose.
	LocalAddr net.Addr
	// KeepAlive is how long the peer is silent before the kernel asks whether it is there; zero is 15 s, negative switches it off. With
	// KeepAliveConfig.Enable that counts instead.
	KeepAlive       time.Duration
	KeepAliveConfig KeepAliveConfig
}

// Dial connects to an address of network "tcp", "tcp4" or "tcp6", as net.Dial does.
func Dial(network, address string) (net.Conn, error) {
	return (&Dialer{}).Dial(network, address)
}

// DialTimeout connects within a time.
func DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	return (&Dialer{Timeout: timeout}).Dial(network, address)
}

// DialContext connects unless the context ends first. It is what http.Transport.DialContext takes.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return (&Dialer{}).DialContext(ctx, network, address)
}

// Dial connects to an address of network "tcp", "tcp4" or "tcp6".
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects unless the context ends first.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Timeout != 0 {
		bounded, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		ctx = bounded
	}
	if !d.Deadline.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, d.Deadline)
		defer cancel()
		ctx = bounded
	}
	targets, err := resolve(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var first error
	for _, target := range targets {
		conn, err := d.dial(ctx, target)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = &net.OpError{Op: "dial", Net: network, Source: d.LocalAddr, Addr: target, Err: err}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (d *Dialer) dial(ctx context.Context, target *net.TCPAddr) (*Conn, error) {
	if ctx.Err() != nil {
		return nil, over(ctx)
	}
	s, err := openSocket(target.IP)
	if err != nil {
		return nil, err
	}
	if d.LocalAddr != nil {
		if err = s.bindAny(d.LocalAddr); err != nil {
			s.close()
			return nil, err
		}
	}
	if err = s.connect(target); err == syscall.EINPROGRESS {
		err = s.connected(ctx)
	} else if err != nil {
		err = os.NewSyscallError("sov_connect", err)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return newConn(s, keepAliveOf(d.KeepAlive, d.KeepAliveConfig))
}

// bindAny binds to this end's address, if it is one of TCP's; none is left to the kernel.
func (s *socket) bindAny(local net.Addr) error {
	at, ok := local.(*net.TCPAddr)
	if !ok {
		return &net.AddrError{Err: "mismatched local address type", Addr: local.String()}
	}
	if at == nil {
		return nil
	}
	return s.bind(at)
}

// over says that a context has ended, as package net does.
func over(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}

// connected waits until it is clear whether the peer has accepted.
func (s *socket) connected(ctx context.Context) error {
	for {
		select {
		case <-s.canWrite:
		case <-ctx.Done():
			return over(ctx)
		}
		if err := s.failure(); err != nil {
			return err
		}
		// An edge may be of the time before the call.
		if s.remoteAddr() != nil {
			return nil
		}
	}
}

// resolve returns what an address means, at least one.
func resolve(ctx context.Context, network, address string) ([]*net.TCPAddr, error) {
	family := "ip"
	switch network {
	case "tcp":
	case "tcp4":
		family = "ip4"
	case "tcp6":
		family = "ip6"
	default:
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		ip := net.IPv6zero
		if family == "ip4" {
			ip = net.IPv4zero
		}
		return []*net.TCPAddr{{IP: ip, Port: port}}, nil
	}
	ips, err := net.DefaultResolver.LookupIP(ctx, family, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, &net.AddrError{Err: "no suitable address", Addr: net.JoinHostPort(host, strconv.Itoa(port))}
	}
	targets := make([]*net.TCPAddr, len(ips))
	for i, ip := range ips {
		targets[i] = &net.TCPAddr{IP: ip, Port: port}
	}
	return targets, nil
}
