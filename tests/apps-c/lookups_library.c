// A library that `lookups` opens. It binds libc's functions by their names, and one by an address in
// its data.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t library_send(int fd, const void *bytes, size_t count) {
    return send(fd, bytes, count, MSG_NOSIGNAL);
}

ssize_t library_recv(int fd, void *bytes, size_t count) { return recv(fd, bytes, count, 0); }

int library_close(int fd) { return close(fd); }

int (*const library_poll)(struct pollfd *, nfds_t, int) = poll;
