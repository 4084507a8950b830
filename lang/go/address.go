package sovia

// #define _GNU_SOURCE
// #include <arpa/inet.h>
// #include <netinet/in.h>
// #include <string.h>
// #include <sovia.h>
//
// union sovia_address {
//     struct sockaddr any;
//     struct sockaddr_in v4;
//     struct sockaddr_in6 v6;
// };
//
// static socklen_t sovia_v4(union sovia_address *to, const void *ip, uint16_t port) {
//     memset(to, 0, sizeof *to);
//     to->v4.sin_family = AF_INET;
//     to->v4.sin_port = htons(port);
//     memcpy(&to->v4.sin_addr, ip, 4);
//     return sizeof to->v4;
// }
//
// static socklen_t sovia_v6(union sovia_address *to, const void *ip, uint16_t port, uint32_t scope) {
//     memset(to, 0, sizeof *to);
//     to->v6.sin6_family = AF_INET6;
//     to->v6.sin6_port = htons(port);
//     to->v6.sin6_scope_id = scope;
//     memcpy(&to->v6.sin6_addr, ip, 16);
//     return sizeof to->v6;
// }
//
// /* Returns the number of bytes of the address, 0 if it is not an IP address. */
// static int sovia_ip(const union sovia_address *from, void *ip, uint16_t *port, uint32_t *scope) {
//     *scope = 0;
//     if (from->any.sa_family == AF_INET) {
//         memcpy(ip, &from->v4.sin_addr, 4);
//         *port = ntohs(from->v4.sin_port);
//         return 4;
//     }
//     if (from->any.sa_family == AF_INET6) {
//         memcpy(ip, &from->v6.sin6_addr, 16);
//         *port = ntohs(from->v6.sin6_port);
//         *scope = from->v6.sin6_scope_id;
//         return 16;
//     }
//     return 0;
// }
import "C"

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// encoded returns the address as the calls of libsovia take it.
func encoded(a *net.TCPAddr) (*C.union_sovia_address, C.socklen_t) {
	to := new(C.union_sovia_address)
	ip := a.IP
	if v4 := ip.To4(); v4 != nil {
		return to, C.sovia_v4(to, unsafe.Pointer(&v4[0]), C.uint16_t(a.Port))
	}
	v6 := ip.To16()
	return to, C.sovia_v6(to, unsafe.Pointer(&v6[0]), C.uint16_t(a.Port), C.uint32_t(scope(a.Zone)))
}

// decoded returns the address that a call has filled in, or nil if there is none.
func decoded(from *C.union_sovia_address) *net.TCPAddr {
	ip := make(net.IP, 16)
	var port C.uint16_t
	var zone C.uint32_t
	length := C.sovia_ip(from, unsafe.Pointer(&ip[0]), &port, &zone)
	if length == 0 {
		return nil
	}
	a := &net.TCPAddr{IP: ip[:length], Port: int(port)}
	if zone != 0 {
		a.Zone = strconv.Itoa(int(zone))
	}
	return a
}

func scope(zone string) int {
	if zone == "" {
		return 0
	}
	if device, err := net.InterfaceByName(zone); err == nil {
		return device.Index
	}
	number, err := strconv.Atoi(zone)
	if err != nil {
		return 0
	}
	return number
}

// connect begins to connect. It returns EINPROGRESS if the result is not known yet.
func (s *socket) connect(to *net.TCPAddr) error {
	address, length := encoded(to)
	_, err := s.call(func() (C.ssize_t, error) {
		done, err := C.sov_connect(s.fd, (*C.struct_sockaddr)(unsafe.Pointer(address)), length)
		return C.ssize_t(done), err
	})
	// The attempt continues in spite of the signal.
	if err == syscall.EINTR {
		return syscall.EINPROGRESS
	}
	return err
}

func (s *socket) bind(to *net.TCPAddr) error {
	address, length := encoded(to)
	_, err := s.call(func() (C.ssize_t, error) {
		done, err := C.sov_bind(s.fd, (*C.struct_sockaddr)(unsafe.Pointer(address)), length)
		return C.ssize_t(done), err
	})
	return named("sov_bind", err)
}

func (s *socket) listen(backlog int) error {
	_, err := s.call(func() (C.ssize_t, error) {
		done, err := C.sov_listen(s.fd, C.int(backlog))
		return C.ssize_t(done), err
	})
	return named("sov_listen", err)
}

func (s *socket) localAddr() net.Addr {
	return s.address(func(address *C.struct_sockaddr, length *C.socklen_t) (C.int, error) {
		done, err := C.sov_getsockname(s.fd, address, length)
		return done, err
	})
}

func (s *socket) remoteAddr() net.Addr {
	return s.address(func(address *C.struct_sockaddr, length *C.socklen_t) (C.int, error) {
		done, err := C.sov_getpeername(s.fd, address, length)
		return done, err
	})
}

func (s *socket) address(ask func(*C.struct_sockaddr, *C.socklen_t) (C.int, error)) net.Addr {
	address, length := new(C.union_sovia_address), C.socklen_t(C.sizeof_union_sovia_address)
	_, err := s.call(func() (C.ssize_t, error) {
		done, err := ask((*C.struct_sockaddr)(unsafe.Pointer(address)), &length)
		return C.ssize_t(done), err
	})
	if a := decoded(address); err == nil && a != nil {
		return a
	}
	return nil
}

// accepted accepts a connection, or returns EAGAIN.
func (s *socket) accepted() (C.ssize_t, error) {
	fd, err := C.sov_accept4(s.fd, nil, nil, C.SOCK_NONBLOCK|C.SOCK_CLOEXEC)
	return C.ssize_t(fd), err
}

// failure returns the error of a socket that was connecting.
func (s *socket) failure() error {
	code, err := s.number(C.SOL_SOCKET, C.SO_ERROR)
	if err != nil || code == 0 {
		return err
	}
	return os.NewSyscallError("sov_connect", syscall.Errno(code))
}
