package sovia

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Dial connects to an address of network "tcp", "tcp4" or "tcp6", as net.Dial does.
func Dial(network, address string) (net.Conn, error) {
	return DialContext(context.Background(), network, address)
}

// DialTimeout connects within a time.
func DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return DialContext(bounded, network, address)
}

// DialContext connects unless the context ends first. It is what http.Transport.DialContext takes.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	targets, err := resolve(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var first error
	for _, target := range targets {
		conn, err := dial(ctx, target)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = &net.OpError{Op: "dial", Net: network, Addr: target, Err: err}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func dial(ctx context.Context, target *net.TCPAddr) (*Conn, error) {
	s, err := openSocket(target.IP)
	if err != nil {
		return nil, err
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
	return newConn(s)
}

// connected waits until it is clear whether the peer has accepted.
func (s *socket) connected(ctx context.Context) error {
	for {
		select {
		case <-s.canWrite:
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return os.ErrDeadlineExceeded
			}
			return ctx.Err()
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
