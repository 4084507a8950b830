/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SOVIA's sockets: stream sockets that run over Virtual Interfaces in shared memory where both ends
 * speak Sovia and are on one host, and over TCP where not. C99, C++. Link with -lsovia.
 *
 *     int s = sov_socket(AF_INET, SOCK_VIA, 0);
 *     sov_connect(s, address, length);
 *     sov_send(s, "hello", 5, 0);
 *     sov_close(s);
 *
 * Each sov_ function takes the arguments of the function of libc whose name it has, does what that
 * does, and leaves the same in errno. It takes descriptors of every kind: what is no SOCK_VIA socket
 * goes to libc. The other way round it does not work: a SOCK_VIA socket is used, and closed, by sov_
 * functions only. The bytes on its VI are out of the kernel's sight.
 *
 * All functions may be called by any thread; those that POSIX lets a signal handler call may be
 * called there. A forked child shares its parent's sockets, as ever. Before exec, take sockets that
 * the new program is to inherit to TCP: SOV_ACCELERATE.
 *
 * docs/develop/sockets.md is the guide. */
#ifndef SOVIA_H
#define SOVIA_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A socket type beside SOCK_STREAM, which it is like in everything else; for AF_INET and AF_INET6,
 * with SOCK_NONBLOCK and SOCK_CLOEXEC if wanted. What a SOCK_VIA listener accepts is SOCK_VIA too.
 * The other end may be SOCK_VIA's, a program under `sovia run`, or an ordinary TCP socket. */
#define SOCK_VIA 12

int sov_socket(int domain, int type, int protocol);
int sov_bind(int fd, const struct sockaddr *address, socklen_t length);
int sov_listen(int fd, int backlog);
int sov_accept(int fd, struct sockaddr *address, socklen_t *length);
int sov_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int sov_connect(int fd, const struct sockaddr *address, socklen_t length);
int sov_shutdown(int fd, int how);
int sov_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int sov_getpeername(int fd, struct sockaddr *address, socklen_t *length);

/* --- options
 *
 * SO_TYPE of a SOCK_VIA socket is SOCK_VIA. Beside the levels of libc there is one more: */
#define SOL_SOVIA 0x534f56

/* int, to read: 1 if the stream has a VI, 0 if it is on TCP now. Both ends look for each other after
 * some transfers (three), so a new stream begins on TCP. */
#define SOV_ON_VIA 1
/* int, to read: why the stream is on TCP for good, for sov_strreason; 0 if it is not. */
#define SOV_REASON 2
/* struct sov_info, to read. */
#define SOV_INFO 3
/* int: 1 for SOCK_VIA sockets (which it makes of a SOCK_STREAM socket that is not connected). Set to
 * 0, it takes the stream to TCP for good, with every byte in its place: from then on the descriptor is
 * an ordinary one, fit for libc's calls, for exec, and for other processes. That may take as long as
 * the other end needs for its part; at most two seconds if it is stopped. */
#define SOV_ACCELERATE 4
/* Text, to set on a connected stream before it has its VI (that is, before it has moved bytes three
 * times): what it does of the papers' protocol, as in `sovia run --protocol`, such as "w=8,t=4",
 * "SOVIA_COMBINE" or "handler,copy". Then TCP_NODELAY and TCP_CORK switch combining. EINVAL for anything else, EISCONN
 * when it is too late, ENOTCONN for a socket that has no stream, or one on TCP for good. */
#define SOV_PROTOCOL 5

/* Values of sov_info.state. */
#define SOV_KERNEL 0  /* an ordinary socket, which is not SOCK_VIA's or not connected yet */
#define SOV_MEETING 1 /* on TCP; whether it gets a VI is not decided */
#define SOV_VIA 2     /* has a VI */
#define SOV_TCP 3     /* on TCP for good: see reason */

struct sov_info {
    uint32_t state;
    uint32_t reason;         /* as SOV_REASON */
    uint32_t sends;          /* 1 if what is sent now goes over the VI */
    uint32_t receives;       /* 1 if what is received now comes from the VI */
    uint64_t bytes_sent;     /* over the VI, like the following; what went over TCP before is not counted */
    uint64_t messages_sent;  /* packets, and pieces gathered while the window was used up */
    uint64_t bytes_received;
};

int sov_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int sov_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

/* A sentence without a full stop for a value of SOV_REASON; NULL for any other number. */
const char *sov_strreason(int reason);

/* --- bytes
 *
 * Flags that are carried on a VI: MSG_PEEK, MSG_WAITALL, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE. A call
 * with any other, ancillary data, or sov_splice, takes the stream to TCP first. sov_mmsg functions need
 * _GNU_SOURCE. */
ssize_t sov_read(int fd, void *buffer, size_t length);
ssize_t sov_readv(int fd, const struct iovec *parts, int count);
ssize_t sov_recv(int fd, void *buffer, size_t length, int flags);
ssize_t sov_recvfrom(int fd, void *buffer, size_t length, int flags, struct sockaddr *from,
                     socklen_t *from_length);
ssize_t sov_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t sov_write(int fd, const void *buffer, size_t length);
ssize_t sov_writev(int fd, const struct iovec *parts, int count);
ssize_t sov_send(int fd, const void *buffer, size_t length, int flags);
ssize_t sov_sendto(int fd, const void *buffer, size_t length, int flags, const struct sockaddr *to,
                   socklen_t to_length);
ssize_t sov_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t sov_sendfile(int to, int from, off_t *offset, size_t count);
#ifdef _GNU_SOURCE
int sov_recvmmsg(int fd, struct mmsghdr *list, unsigned count, int flags, struct timespec *timeout);
int sov_sendmmsg(int fd, struct mmsghdr *list, unsigned count, int flags);
ssize_t sov_splice(int from, int64_t *from_offset, int to, int64_t *to_offset, size_t length,
                   unsigned flags);
#endif

/* --- without copying
 *
 * To send, ask for a buffer, write the message into it, and commit it. To receive, borrow what has
 * arrived where it lies, and return it. On a VI both are places in memory that the two ends share; on
 * TCP, or while the other end is far behind, they are ordinary memory, and the bytes are copied: the
 * same calls do the same. Other calls on the stream go on meanwhile, each in its turn: a lent buffer's
 * bytes are sent when it is committed, borrowed ones have been received. Prompt returns keep places
 * in good supply: one place of each kind for each stream is in shared memory at a time.
 *
 * Every buffer is to be returned, or committed to its end, even after its stream has been closed. Not
 * to a forked child's account: there, the parent's buffers are no buffers. A pointer that is not out
 * (returned already, never lent) is refused with EINVAL. */

/* Bytes that a buffer may have. */
#define SOV_LEND_MAX 65536

/* A buffer to write `length` (1 to SOV_LEND_MAX) bytes into; NULL and EINVAL, EMSGSIZE, or ENOBUFS if
 * thousands are out. */
void *sov_lend(int fd, size_t length);
/* Sends the first `length` bytes of a lent buffer and takes it back; `length` is returned. Flags:
 * MSG_DONTWAIT, MSG_NOSIGNAL. If a non-blocking stream has no room for all, the answer is EAGAIN, and
 * the buffer stays lent: make the same call again. EINTR likewise. After any other error of send
 * the buffer has been taken back. EBADF: the buffer was lent by another stream. EINVAL: not a buffer
 * that is out, or not so long. */
ssize_t sov_commit(int fd, void *buffer, size_t length, int flags);
/* Waits for bytes as sov_recv does and points `buffer` to them; how many, at most SOV_LEND_MAX. At
 * the end of the stream 0, and nothing to be returned. Flags: MSG_DONTWAIT. */
ssize_t sov_borrow(int fd, const void **buffer, int flags);
/* Gives a buffer back, borrowed or lent; what was not committed is not sent. */
int sov_return(const void *buffer);
/* 1 if a buffer lies in shared memory, 0 if its bytes are copied. */
int sov_in_place(const void *buffer);

/* --- descriptors */
int sov_close(int fd);
int sov_dup(int fd);
/* Onto 0, 1 or 2 the stream goes to TCP first: libc uses those by itself. */
int sov_dup2(int fd, int to);
int sov_dup3(int fd, int to, int flags);
int sov_fcntl(int fd, int command, ...);
int sov_ioctl(int fd, unsigned long request, ...);
/* A stream for stdio's functions. As of every stream of fopencookie's, glibc asks that it be given to no
 * function of wide characters, and not to freopen. dprintf is libc's, and takes no SOCK_VIA socket. */
FILE *sov_fdopen(int fd, const char *mode);

/* --- waiting, for descriptors of every kind at once */
int sov_poll(struct pollfd *list, nfds_t count, int milliseconds);
int sov_ppoll(struct pollfd *list, nfds_t count, const struct timespec *timeout,
              const sigset_t *mask);
int sov_select(int count, fd_set *reading, fd_set *writing, fd_set *excepting,
               struct timeval *timeout);
int sov_pselect(int count, fd_set *reading, fd_set *writing, fd_set *excepting,
                const struct timespec *timeout, const sigset_t *mask);
/* An instance that sov_epoll_create1 made. SOCK_VIA sockets that join another's (by sov_epoll_ctl) go to
 * TCP, and so do those of an instance that is itself waited for, by poll, select or another instance. */
int sov_epoll_create1(int flags);
int sov_epoll_ctl(int epfd, int operation, int fd, struct epoll_event *event);
int sov_epoll_wait(int epfd, struct epoll_event *events, int count, int milliseconds);
int sov_epoll_pwait(int epfd, struct epoll_event *events, int count, int milliseconds,
                    const sigset_t *mask);
int sov_epoll_pwait2(int epfd, struct epoll_event *events, int count,
                     const struct timespec *timeout, const sigset_t *mask);

#ifdef __cplusplus
}
#endif

#endif
