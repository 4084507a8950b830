package sovia

// #define _GNU_SOURCE
// #include <errno.h>
// #include <netinet/in.h>
// #include <netinet/tcp.h>
// #include <sovia.h>
import "C"

import (
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// socket is a non-blocking socket of libsovia. Goroutines wait for it through the poller.
type socket struct {
	fd    C.int
	token uint64
	// Read-locked around each call, so that a close cannot give the descriptor's number to another file during the call.
	open     sync.RWMutex
	isClosed bool
	closed   chan struct{}
	// Directions in which there may be events.
	canRead, canWrite chan struct{}
	readBy, writeBy   deadline
}

// newSocket takes ownership of the descriptor, and closes it on failure.
func newSocket(fd C.int) (*socket, error) {
	s := &socket{
		fd:       fd,
		closed:   make(chan struct{}),
		canRead:  make(chan struct{}, 1),
		canWrite: make(chan struct{}, 1),
		readBy:   deadline{over: make(chan struct{})},
		writeBy:  deadline{over: make(chan struct{})},
	}
	p, err := poll()
	if err == nil {
		err = p.add(s)
	}
	if err != nil {
		C.sov_close(fd)
		return nil, err
	}
	return s, nil
}

// openSocket makes a SOCK_VIA socket of the address family of ip.
func openSocket(ip net.IP) (*socket, error) {
	domain := C.int(C.AF_INET6)
	if ip.To4() != nil {
		domain = C.AF_INET
	}
	fd, err := C.sov_socket(domain, C.SOCK_VIA|C.SOCK_NONBLOCK|C.SOCK_CLOEXEC, 0)
	if fd < 0 {
		return nil, os.NewSyscallError("sov_socket", err)
	}
	return newSocket(fd)
}

func (s *socket) wake(events uint32) {
	if events&readable != 0 {
		signal(s.canRead)
	}
	if events&writable != 0 {
		signal(s.canWrite)
	}
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// call makes a non-blocking call while the descriptor is kept open.
func (s *socket) call(what func() (C.ssize_t, error)) (int, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.isClosed {
		return 0, net.ErrClosed
	}
	count, err := what()
	if count < 0 {
		return 0, err
	}
	return int(count), nil
}

// until repeats a call until it does not return EAGAIN, the deadline has passed, or the socket is
// closed.
func (s *socket) until(name string, news chan struct{}, by *deadline, what func() (C.ssize_t, error)) (int, error) {
	for {
		over := by.wait()
		select {
		case <-over:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		count, err := s.call(what)
		switch err {
		case nil, net.ErrClosed:
			return count, err
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			return 0, os.NewSyscallError(name, err)
		}
		select {
		case <-news:
			// One token wakes one waiting goroutine, so the call is repeated at once.
		case <-over:
			return 0, os.ErrDeadlineExceeded
		case <-s.closed:
			return 0, net.ErrClosed
		}
	}
}

func (s *socket) close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.isClosed {
		return net.ErrClosed
	}
	s.isClosed = true
	close(s.closed)
	if p, err := poll(); err == nil {
		p.remove(s)
	}
	if done, err := C.sov_close(s.fd); done < 0 {
		return os.NewSyscallError("sov_close", err)
	}
	return nil
}

func (s *socket) option(level, name C.int, value C.int) error {
	_, err := s.call(func() (C.ssize_t, error) {
		done, err := C.sov_setsockopt(s.fd, level, name, unsafe.Pointer(&value), C.sizeof_int)
		return C.ssize_t(done), err
	})
	return named("sov_setsockopt", err)
}

func (s *socket) number(level, name C.int) (int, error) {
	var value C.int
	length := C.socklen_t(C.sizeof_int)
	_, err := s.call(func() (C.ssize_t, error) {
		done, err := C.sov_getsockopt(s.fd, level, name, unsafe.Pointer(&value), &length)
		return C.ssize_t(done), err
	})
	return int(value), named("sov_getsockopt", err)
}

// named adds the name of the failed call to err.
func named(call string, err error) error {
	if err == nil || err == net.ErrClosed {
		return err
	}
	return os.NewSyscallError(call, err)
}
