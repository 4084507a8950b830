// Wrong pointers and wrong descriptors: the same errno, and nothing lost.
#include "common.h"
#include <sys/mman.h>

static char buffer[70000];
static void *volatile bad = (void *)8; // hidden from the compiler's own checks

static void send_and_wait(struct peer *p) {
    send_pattern(p->fd, 0, 100, 100);
    meet(p);
    meet(p);
}

static void arrived(struct peer *p) {
    meet(p);
    await_bytes(p->fd, 100);
}

static void still_there(struct peer *p) {
    long got = CALL(recv(p->fd, buffer, 200, MSG_DONTWAIT));
    say("%s", got == 100 && matches(buffer, 100, 0) ? "right" : "WRONG");
    meet(p);
}

static void bad_read(struct peer *p) {
    arrived(p);
    CALL(read(p->fd, bad, 10));
    CALL(recv(p->fd, bad, 10, 0));
    CALL(recv(p->fd, bad, 10, MSG_PEEK));
    CALL(recvfrom(p->fd, bad, 10, 0, NULL, NULL));
    CALL(read(p->fd, bad, 0));
    CALL(recvfrom(p->fd, buffer, 10, MSG_PEEK, (struct sockaddr *)buffer, bad));
    still_there(p);
}

static void bad_readv(struct peer *p) {
    arrived(p);
    CALL(readv(p->fd, bad, 2));
    struct iovec second_bad[2] = {{buffer, 10}, {bad, 10}};
    struct iovec first_bad[2] = {{bad, 10}, {buffer, 10}};
    CALL(readv(p->fd, first_bad, 2));
    struct msghdr message = {.msg_iov = first_bad, .msg_iovlen = 2};
    CALL(recvmsg(p->fd, &message, 0));
    message.msg_iov = bad;
    CALL(recvmsg(p->fd, &message, 0));
    CALL(recvmsg(p->fd, bad, 0));
    CALL(recvmmsg(p->fd, bad, 2, 0, NULL));
    CALL(readv(p->fd, second_bad, 2));
    still_there(p);
}

// A buffer whose second page cannot be written.
static void bad_second_page(struct peer *p) {
    arrived(p);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    CALL(recv(p->fd, pages + 4090, 50, 0));
    CALL(recv(p->fd, pages + 4096 - 40, 50, MSG_PEEK));
    // The buffer is long enough, but not all of it is mapped. No call touches it.
    CALL(recv(p->fd, pages + 3900, 4096, MSG_PEEK));
    // Read-only memory
    mprotect(pages, 4096, PROT_READ);
    CALL(recv(p->fd, pages, 50, 0));
    still_there(p);
}

static void bad_write_server(struct peer *p) {
    meet(p);
    char text[100];
    await_bytes(p->fd, 6);
    say_text("received", text, recv(p->fd, text, sizeof text, 0));
    meet(p);
}

static void bad_write(struct peer *p) {
    CALL(write(p->fd, bad, 10));
    CALL(send(p->fd, bad, 10, 0));
    CALL(send(p->fd, bad, 100000, 0));
    CALL(sendto(p->fd, bad, 10, 0, NULL, 0));
    CALL(write(p->fd, bad, 0));
    CALL(writev(p->fd, bad, 2));
    struct iovec out[1] = {{bad, 10}};
    CALL(writev(p->fd, out, 1));
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 1};
    CALL(sendmsg(p->fd, &message, 0));
    CALL(sendmsg(p->fd, bad, 0));
    message.msg_iov = bad;
    CALL(sendmsg(p->fd, &message, 0));
    CALL(sendmmsg(p->fd, bad, 2, 0));
    // Addresses and names, which have no meaning here, and which the kernel reads nevertheless.
    static char name[4096];
    CALL(sendto(p->fd, buffer, 10, 0, bad, 16));
    CALL(sendto(p->fd, buffer, 10, 0, (struct sockaddr *)name, 1000));
    CALL(sendto(p->fd, buffer, 10, 0, (struct sockaddr *)name, (socklen_t)-1));
    struct iovec good[1] = {{buffer, 10}};
    struct mmsghdr named = {.msg_hdr = {.msg_iov = good, .msg_iovlen = 1, .msg_name = bad, .msg_namelen = 16}};
    CALL(sendmsg(p->fd, &named.msg_hdr, 0));
    CALL(sendmmsg(p->fd, &named, 1, 0));
    named.msg_hdr.msg_name = name;
    named.msg_hdr.msg_namelen = (socklen_t)-1;
    CALL(sendmsg(p->fd, &named.msg_hdr, 0));
    // Too many buffers, and a buffer with a negative length.
    struct msghdr many = {.msg_iov = good, .msg_iovlen = 1025};
    CALL(sendmsg(p->fd, &many, 0));
    CALL(recvmsg(p->fd, &many, MSG_DONTWAIT));
    many.msg_iovlen = 1;
    good[0].iov_len = (size_t)-1;
    CALL(sendmsg(p->fd, &many, 0));
    CALL(recvmsg(p->fd, &many, MSG_DONTWAIT));
    // An address without bytes, a null address with a length, and a name that is too long. All count
    // as none.
    CALL(sendto(p->fd, "int", 3, 0, bad, 0));
    CALL(sendto(p->fd, "a", 1, 0, NULL, 77));
    good[0] = (struct iovec){"ct", 2};
    named.msg_hdr.msg_namelen = sizeof name;
    CALL(sendmsg(p->fd, &named.msg_hdr, 0));
    meet(p);
    meet(p);
}

// The kernel decides how much arrives of a buffer that ends in unmapped memory. The bytes must be a
// prefix of the buffer, and their number must match the returned count.
static void half_bad_write_server(struct peer *p) {
    for (int i = 0; i < 4; i++) {
        long count = hear(p);
        if (count > 0)
            recv_pattern(p->fd, 0, count, 100000);
        say("the count was true");
        tell(p, 0);
    }
}

static void half_bad_write(struct peer *p) {
    static const int sizes[] = {50, 4000, 40000, 150000};
    for (int i = 0; i < 4; i++) {
        size_t good = (sizes[i] + 4095) & ~4095;
        char *pages = mmap(NULL, good + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(pages + good, 4096, PROT_NONE);
        fill(pages + good - sizes[i], sizes[i], 0);
        long sent = send(p->fd, pages + good - sizes[i], sizes[i] + 100, 0);
        bool fine = sent < 0 ? errno == EFAULT : sent > 0 && sent <= sizes[i];
        say("%d good bytes of %d: %s", sizes[i], sizes[i] + 100, fine ? "fault or part" : "WRONG");
        tell(p, sent > 0 ? sent : 0);
        hear(p);
    }
}

static void idle(struct peer *p) { meet(p); }

static void bad_descriptors(struct peer *p) {
    int closed = dup(p->fd);
    close(closed);
    CALL(read(closed, buffer, 1));
    CALL(write(closed, buffer, 1));
    CALL(send(closed, buffer, 1, 0));
    CALL(recv(-1, buffer, 1, 0));
    CALL(recv(100000, buffer, 1, 0));
    CALL(shutdown(closed, SHUT_RDWR));
    CALL(close(closed));
    CALL(dup(closed));
    CALL(fcntl(closed, F_GETFL));
    int there;
    CALL(ioctl(closed, FIONREAD, &there));
    socklen_t length = sizeof there;
    CALL(getsockopt(closed, SOL_SOCKET, SO_ERROR, &there, &length));
    int pipes[2];
    MUST(pipe(pipes));
    CALL(recv(pipes[0], buffer, 1, 0));
    CALL(send(pipes[1], buffer, 1, 0));
    CALL(shutdown(pipes[0], SHUT_RD));
    CALL(recv(p->listener, buffer, 1, 0));
    CALL(read(p->listener, buffer, 1));
    CALL(send(p->listener, buffer, 1, MSG_NOSIGNAL));
    CALL(accept(p->fd, NULL, NULL));
    CALL(listen(p->fd, 1));
    meet(p);
}

static void unconnected(struct peer *p) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    CALL(recv(fd, buffer, 1, 0));
    CALL(read(fd, buffer, 1));
    CALL(send(fd, buffer, 1, MSG_NOSIGNAL));
    CALL(shutdown(fd, SHUT_WR));
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    CALL(getpeername(fd, (struct sockaddr *)&address, &length));
    meet(p);
}

static void seeking(struct peer *p) {
    CALL(lseek(p->fd, 0, SEEK_SET));
    CALL(pread(p->fd, buffer, 1, 0));
    CALL(pwrite(p->fd, buffer, 1, 0));
    struct iovec one = {buffer, 1};
    CALL(preadv(p->fd, &one, 1, 0));
    struct stat status;
    CALL(fstat(p->fd, &status));
    say("socket: %d", S_ISSOCK(status.st_mode));
    CALL(ftruncate(p->fd, 0));
    CALL(fsync(p->fd));
    CALL(isatty(p->fd));
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", p->fd);
    MUST(readlink(path, target, sizeof target - 1));
    say("%.7s", target);
    meet(p);
}

static void unknown_flags(struct peer *p) {
    CALL(recv(p->fd, buffer, 10, MSG_ERRQUEUE));
    CALL(recv(p->fd, buffer, 10, MSG_OOB));
    CALL(recv(p->fd, buffer, 10, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
    CALL(send(p->fd, "a", 1, MSG_DONTROUTE));
    CALL(send(p->fd, "b", 1, MSG_CONFIRM));
    CALL(send(p->fd, "c", 1, MSG_EOR));
    meet(p);
    meet(p);
}

static void unknown_flags_server(struct peer *p) {
    meet(p);
    say_text("received", buffer, recv(p->fd, buffer, 3, MSG_WAITALL));
    meet(p);
}

/* The connection's error comes before that of the argument. */
static void bad_part_after_the_end(struct peer *p) {
    MUST(shutdown(p->fd, SHUT_WR));
    struct iovec parts[2] = {{bad, 10}, {buffer, 10}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    CALL(sendmsg(p->fd, &message, MSG_NOSIGNAL));
    meet(p);
}

static const struct scenario scenarios[] = {
    {"reading_into_a_bad_pointer", send_and_wait, bad_read},
    {"scattering_into_bad_pointers", send_and_wait, bad_readv},
    {"a_buffer_half_of_which_is_missing", send_and_wait, bad_second_page},
    {"writing_from_a_bad_pointer", bad_write_server, bad_write},
    {"a_bad_part_after_the_end", idle, bad_part_after_the_end},
    {"writing_from_half_a_buffer", half_bad_write_server, half_bad_write},
    {"descriptors_that_are_closed_or_no_stream", bad_descriptors, idle},
    {"a_socket_that_is_not_connected", unconnected, idle, RAW},
    {"calls_that_are_not_for_sockets", seeking, idle},
    {"flags_of_every_kind", unknown_flags_server, unknown_flags},
};
SCENARIO_MAIN(scenarios)
