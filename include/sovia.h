/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SOVIA's sockets: stream sockets that run over Virtual Interfaces in shared memory if both ends use Sovia on
 * one host, and over TCP otherwise. C99, C++. Link with -lsovia.
 *
 *     int s = sov_socket(AF_INET, SOCK_VIA, 0);
 *     sov_connect(s, address, length);
 *     sov_send(s, "hello", 5, 0);
 *     sov_close(s);
 *
 * Each sov_ function takes the arguments of the libc function with the rest of its name, and does the same. It
 * sets errno as that function does. It takes descriptors of every kind, and calls libc for those that are no
 * SOCK_VIA sockets. The functions of libc do not work on a SOCK_VIA socket, because the kernel does not see the
 * bytes on its VI. So use and close a SOCK_VIA socket only by sov_ functions.
 *
 * Any thread may call any function. A signal handler may call those that POSIX lets it call. A forked child
 * shares its parent's sockets, as usual. Before exec, use SOV_ACCELERATE to move sockets that the new program
 * will use to TCP.
 *
 * docs/develop/c.md is the guide. */
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

/* Socket type that behaves like SOCK_STREAM; for AF_INET and AF_INET6, with SOCK_NONBLOCK and
 * SOCK_CLOEXEC if wanted. A SOCK_VIA listener accepts SOCK_VIA sockets. The other end may be a
 * SOCK_VIA socket, a program under `sovia run`, or an ordinary TCP socket. */
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

/* int, read: 1 if the stream has a VI, 0 if it is on TCP now. A new stream begins on TCP: the two ends
 * look for each other after three transfers. */
#define SOV_ON_VIA 1
/* int, read: why the stream is on TCP for good, for sov_strreason; 0 if it is not. */
#define SOV_REASON 2
/* struct sov_info, read. */
#define SOV_INFO 3
/* int: 1 for SOCK_VIA sockets. Setting 1 makes an unconnected SOCK_STREAM socket a SOCK_VIA socket.
 * Setting 0 moves the stream to TCP for good, with every byte in its place. Then the descriptor is an
 * ordinary one, for libc's calls, for exec, and for other processes. The call waits for the other end
 * to do its part, for at most two seconds if the other end is stopped. */
#define SOV_ACCELERATE 4
/* Text, set: the variant of the papers' protocol, as in `sovia run --protocol`, such as "w=8,t=4", "SOVIA_COMBINE" or
 * "handler,copy". Set this option on a connected stream before it has its VI, that is, before its third transfer.
 * After that, only TCP_NODELAY and TCP_CORK have an effect: they switch combining. EINVAL: invalid text. EISCONN: too
 * late. ENOTCONN: the socket has no stream, or is on TCP for good. */
#define SOV_PROTOCOL 5

/* Values of sov_info.state. */
#define SOV_KERNEL 0  /* an ordinary socket: not SOCK_VIA, or not connected yet */
#define SOV_MEETING 1 /* on TCP; the two ends may still agree on a VI */
#define SOV_VIA 2     /* has a VI */
#define SOV_TCP 3     /* on TCP for good: see reason */

struct sov_info {
    uint32_t state;
    uint32_t reason;         /* like SOV_REASON */
    uint32_t sends;          /* 1 if sends go over the VI now */
    uint32_t receives;       /* 1 if receives come from the VI now */
    uint64_t bytes_sent;     /* over the VI, like the next two fields; bytes sent over TCP are not counted */
    uint64_t messages_sent;  /* packets, and parts coalesced while the window was used up */
    uint64_t bytes_received;
};

int sov_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int sov_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

/* A sentence without a full stop for a value of SOV_REASON; NULL for any other number. */
const char *sov_strreason(int reason);

/* --- bytes
 *
 * The VI carries these flags: MSG_PEEK, MSG_WAITALL, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE. A call with
 * any other flag or with ancillary data, and sov_splice, moves the stream to TCP first. The sov_mmsg
 * functions need _GNU_SOURCE. */
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
 * To send, ask for a buffer, write the message into it, and commit it. To receive, borrow the bytes
 * that have arrived, and return the buffer. On a VI, both buffers are in memory that the two ends
 * share. On TCP, or while the other end is far behind, the same calls use ordinary memory, and copy
 * the bytes. Meanwhile, other calls on the stream work in their turn: commits send the bytes of lent
 * buffers, and borrowed bytes count as received. Return buffers soon, because each stream has one
 * buffer of each kind in shared memory at a time.
 *
 * Return or commit every buffer, even after its stream has been closed. A forked child does not: it
 * has none of its parent's buffers. Passing any other pointer (already returned, or never lent) fails
 * with EINVAL. */

/* Length of the largest buffer in bytes. */
#define SOV_LEND_MAX 65536

/* Returns a buffer for `length` (1 to SOV_LEND_MAX) bytes to send. On failure, returns NULL with
 * EINVAL, EMSGSIZE, or ENOBUFS if the program has thousands of buffers. */
void *sov_lend(int fd, size_t length);
/* Sends the first `length` bytes of a lent buffer, takes the buffer back, and returns `length`.
 * Flags: MSG_DONTWAIT, MSG_NOSIGNAL. If a non-blocking stream has no room for all bytes, the call
 * fails with EAGAIN and the buffer stays lent: repeat the call. EINTR does the same. Any other error
 * of send takes the buffer back. EBADF: another stream lent the buffer. EINVAL: not a lent buffer, or
 * shorter than `length`. */
ssize_t sov_commit(int fd, void *buffer, size_t length, int flags);
/* Waits for bytes as sov_recv does, points `buffer` to them, and returns their number, at most
 * SOV_LEND_MAX. At the end of the stream it returns 0, and there is no buffer to return. Flags:
 * MSG_DONTWAIT. */
ssize_t sov_borrow(int fd, const void **buffer, int flags);
/* Returns a borrowed or lent buffer. Bytes that were not committed are not sent. */
int sov_return(const void *buffer);
/* Returns 1 if a buffer is in shared memory, 0 if its bytes are copied. */
int sov_in_place(const void *buffer);

/* --- descriptors */
int sov_close(int fd);
int sov_dup(int fd);
/* Moves the stream to TCP first if `to` is 0, 1 or 2, because libc uses those by itself. */
int sov_dup2(int fd, int to);
int sov_dup3(int fd, int to, int flags);
int sov_fcntl(int fd, int command, ...);
int sov_ioctl(int fd, unsigned long request, ...);
/* Returns a stdio stream. Functions for wide characters and freopen do not work on it, as with glibc's
 * fopencookie. There is no sov_dprintf, and dprintf of libc does not work on a SOCK_VIA socket. */
FILE *sov_fdopen(int fd, const char *mode);

/* --- waiting, for descriptors of every kind at once */
int sov_poll(struct pollfd *list, nfds_t count, int milliseconds);
int sov_ppoll(struct pollfd *list, nfds_t count, const struct timespec *timeout,
              const sigset_t *mask);
int sov_select(int count, fd_set *reading, fd_set *writing, fd_set *excepting,
               struct timeval *timeout);
int sov_pselect(int count, fd_set *reading, fd_set *writing, fd_set *excepting,
                const struct timespec *timeout, const sigset_t *mask);
/* Makes an epoll instance for SOCK_VIA sockets. sov_epoll_ctl moves SOCK_VIA sockets to TCP when it adds
 * them to any other instance. Sockets in an instance that poll, select or another instance waits for go
 * to TCP too. */
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
