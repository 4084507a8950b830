// Runs a program through libsovia: its sockets are SOCK_VIA sockets, and its calls are those of
// libsovia. The compiler includes this file before the program (-include).
#ifndef SOVIA_TESTS_NATIVE_H
#define SOVIA_TESTS_NATIVE_H

#include "common.h"
#include <sovia.h>
#include <sys/sendfile.h>

// Makes a SOCK_VIA socket if the program asks for SOCK_STREAM; the socket looks like a SOCK_STREAM
// socket.
static inline int native_socket(int domain, int type, int protocol) {
    int via = (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM;
    return sov_socket(domain, via ? (type & ~0xf) | SOCK_VIA : type, protocol);
}

static inline int native_getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
    int result = sov_getsockopt(fd, level, name, value, length);
    if (result == 0 && level == SOL_SOCKET && name == SO_TYPE && *(int *)value == SOCK_VIA)
        *(int *)value = SOCK_STREAM;
    return result;
}

static inline int native_epoll_create(int size) {
    (void)size;
    return sov_epoll_create1(0);
}

#define socket native_socket
#define bind sov_bind
#define listen sov_listen
#define accept sov_accept
#define accept4 sov_accept4
#define connect sov_connect
#define shutdown sov_shutdown
#define getsockname sov_getsockname
#define getpeername sov_getpeername
#define getsockopt native_getsockopt
#define setsockopt sov_setsockopt
#define read sov_read
#define readv sov_readv
#define recv sov_recv
#define recvfrom sov_recvfrom
#define recvmsg sov_recvmsg
#define recvmmsg sov_recvmmsg
#define write sov_write
#define writev sov_writev
#define send sov_send
#define sendto sov_sendto
#define sendmsg sov_sendmsg
#define sendmmsg sov_sendmmsg
#define sendfile sov_sendfile
#define splice sov_splice
#define close sov_close
#define dup sov_dup
#define dup2 sov_dup2
#define dup3 sov_dup3
#define fcntl sov_fcntl
#define ioctl sov_ioctl
#define poll(list, count, timeout) sov_poll(list, count, timeout)
#define ppoll sov_ppoll
#define select sov_select
#define pselect sov_pselect
#define epoll_create native_epoll_create
#define epoll_create1 sov_epoll_create1
#define epoll_ctl sov_epoll_ctl
#define epoll_wait sov_epoll_wait
#define epoll_pwait sov_epoll_pwait
#define epoll_pwait2 sov_epoll_pwait2
#define fdopen sov_fdopen

#endif
