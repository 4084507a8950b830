package sovia

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Dialer contains options for connecting. Its fields have the meaning of those of net.Dialer.
type Dialer struct {
	// Timeout is the maximum time that a dial takes. Deadline is the latest time at which a dial
	// fails. Zero means no limit.
	Timeout  time.Duration
	Deadline time.Time
	// LocalAddr is the local address, a *net.TCPAddr. If it is nil, the kernel chooses an address.
	LocalAddr net.Addr
	// KeepAlive is the time without data from the peer after which the kernel sends a probe. Zero means 15 seconds, and
	// a negative value disables probes. KeepAliveConfig.Enable overrides this field.
	KeepAlive       time.Duration
	KeepAliveConfig KeepAliveConfig
}

// Dial connects to an address of network "tcp", "tcp4" or "tcp6", like net.Dial.
func Dial(network, address string) (net.Conn, error) {
	return (&Dialer{}).Dial(network, address)
}

// DialTimeout acts like Dial but takes a timeout.
func DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	return (&Dialer{Timeout: timeout}).Dial(network, address)
}

// DialContext connects unless the context ends first. Assign it to http.Transport.DialContext.
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

// bindAny binds to the local address. With a nil *net.TCPAddr, the kernel chooses an address.
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

// over returns the error of package net for a context that has ended.
func over(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}

// connected waits until the connection is established or has failed.
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
		// The wake-up may be older than the call.
		if s.remoteAddr() != nil {
			return nil
		}
	}
}

// resolve returns at least one address.
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
