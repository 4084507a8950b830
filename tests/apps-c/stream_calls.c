// Calls that move bytes, and their results. The server sends as requested, and the client makes the
// calls.
#include "common.h"

static char buffer[70000];
static volatile int minus_one = -1; // hidden from the compiler's own checks

// Serves the client: sends as many bytes of the pattern as the client requests; 0 ends.
static void feed(struct peer *p) {
    uint64_t offset = 0, count;
    while ((count = hear(p)) != 0) {
        send_pattern(p->fd, offset, count, 65536);
        offset += count;
        tell(p, 0);
    }
    meet(p);
}

static uint64_t asked;

// Makes the server send `count` bytes, and waits until they have arrived.
static void ask(struct peer *p, int count, int unread) {
    tell(p, count);
    hear(p);
    await_bytes(p->fd, count + unread);
    asked += count;
}

static void done(struct peer *p) {
    tell(p, 0);
    meet(p);
}

static uint64_t taken;

// Peeks at `count` bytes, and prints them.
static void peek(struct peer *p, int count, int flags) {
    long got = recv(p->fd, buffer, count, MSG_PEEK | flags);
    say("peeked %ld, %s", got, got >= 0 && matches(buffer, got, taken) ? "right" : "WRONG");
}

// Compares the bytes that were just read with the pattern.
static void take(const void *bytes, long count) {
    say("  %s", count >= 0 && matches(bytes, count, taken) ? "right" : "WRONG");
    if (count > 0)
        taken += count;
}

static void partial_reads(struct peer *p) {
    ask(p, 100, 0);
    take(buffer, CALL(read(p->fd, buffer, 10)));
    take(buffer, CALL(recv(p->fd, buffer, 50, 0)));
    ask(p, 7, 40);
    take(buffer, CALL(read(p->fd, buffer, 1)));
    take(buffer, CALL(recvfrom(p->fd, buffer, 1000, 0, NULL, NULL)));
    ask(p, 50000, 0);
    while (taken < asked) {
        long got = read(p->fd, buffer, 5000);
        say("read %ld, %s", got, matches(buffer, got, taken) ? "right" : "WRONG");
        taken += got;
    }
    ask(p, 3, 0);
    ask(p, 4, 3);
    ask(p, 5, 7);
    take(buffer, CALL(read(p->fd, buffer, sizeof buffer)));
    done(p);
}

static void zero_length(struct peer *p) {
    CALL(write(p->fd, "", 0));
    CALL(send(p->fd, "", 0, 0));
    CALL(sendto(p->fd, NULL, 0, 0, NULL, 0));
    struct msghdr none = {0};
    CALL(sendmsg(p->fd, &none, 0));
    CALL(read(p->fd, buffer, 0));
    CALL(recv(p->fd, buffer, 0, MSG_DONTWAIT));
    ask(p, 10, 0);
    CALL(read(p->fd, buffer, 0));
    CALL(recv(p->fd, buffer, 0, 0));
    CALL(recv(p->fd, NULL, 0, 0));
    CALL(recvmsg(p->fd, &none, 0));
    CALL(recv(p->fd, buffer, 0, MSG_PEEK));
    CALL(recv(p->fd, buffer, 0, MSG_PEEK | MSG_DONTWAIT));
    CALL(recv(p->fd, NULL, 0, MSG_PEEK | MSG_WAITALL));
    CALL(recvmsg(p->fd, &none, MSG_PEEK | MSG_DONTWAIT));
    take(buffer, CALL(read(p->fd, buffer, 100)));
    CALL(recv(p->fd, buffer, 0, MSG_PEEK | MSG_DONTWAIT));
    CALL(recvmsg(p->fd, &none, MSG_PEEK | MSG_DONTWAIT));
    done(p);
}

// A receive of zero bytes waits once, for bytes or for its timeout.
static void empty_waits(struct peer *p) {
    struct timeval limit = {.tv_usec = 50000};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    struct msghdr none = {0};
    int64_t start = now_ms();
    CALL(recv(p->fd, buffer, 0, 0));
    CALL(recv(p->fd, buffer, 0, MSG_PEEK));
    CALL(recv(p->fd, buffer, 0, MSG_WAITALL));
    CALL(recvmsg(p->fd, &none, 0));
    CALL(recvfrom(p->fd, buffer, 0, 0, NULL, NULL));
    say("%s", now_ms() - start >= 5 * 50 ? "waited for each" : "DID NOT WAIT");
    CALL(recv(p->fd, buffer, 0, MSG_DONTWAIT));
    CALL(recv(p->fd, buffer, 0, MSG_DONTWAIT | MSG_WAITALL));
    CALL(read(p->fd, buffer, 0));
    ask(p, 10, 0);
    take(buffer, CALL(read(p->fd, buffer, 100)));
    done(p);
}

static void vectors(struct peer *p) {
    struct iovec in[4] = {{buffer, 3}, {buffer + 3, 0}, {buffer + 3, 60}, {buffer + 63, 500}};
    ask(p, 100, 0);
    take(buffer, CALL(readv(p->fd, in, 4)));
    ask(p, 10, 0);
    CALL(readv(p->fd, in, 0));
    take(buffer, CALL(readv(p->fd, in, 1)));
    take(buffer, CALL(readv(p->fd, in, 3)));
    CALL(readv(p->fd, in, minus_one));
    CALL(writev(p->fd, in, minus_one));
    static struct iovec many[1025];
    CALL(readv(p->fd, many, 1025));
    CALL(writev(p->fd, many, 1025));
    CALL(writev(p->fd, many, 1024));
    struct iovec negative[2] = {{buffer, 1}, {buffer, (size_t)-1}};
    CALL(readv(p->fd, negative, 2));
    CALL(writev(p->fd, negative, 2));
    // 1000 vectors of one to three bytes
    ask(p, 1998, 0);
    size_t length = 0;
    for (int i = 0; i < 999; i++) {
        many[i].iov_base = buffer + length;
        length += many[i].iov_len = 1 + i % 3;
    }
    take(buffer, CALL(readv(p->fd, many, 999)));
    done(p);
}

static void gather(struct peer *p) {
    fill(buffer, sizeof buffer, 0);
    struct iovec out[5] = {{buffer, 1}, {NULL, 0}, {buffer + 1, 4095}, {buffer + 4096, 2}, {buffer + 4098, 60000}};
    CALL(writev(p->fd, out, 5));
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 5};
    CALL(sendmsg(p->fd, &message, 0));
    message.msg_iovlen = 3;
    CALL(sendmsg(p->fd, &message, MSG_MORE));
    CALL(send(p->fd, buffer + 4096, 10, 0));
    meet(p);
}

static void gather_server(struct peer *p) {
    recv_pattern(p->fd, 0, 64098, 8192);
    recv_pattern(p->fd, 0, 64098, 1000);
    recv_pattern(p->fd, 0, 4106, 1);
    meet(p);
}

static void addresses(struct peer *p) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t length = sizeof address;
    ask(p, 100, 0);
    take(buffer, CALL(recvfrom(p->fd, buffer, 10, 0, (struct sockaddr *)&address, &length)));
    say("address length %u", length);
    struct iovec in = {buffer, 20};
    struct msghdr message = {
        .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &in, .msg_iovlen = 1,
        .msg_control = buffer + 100, .msg_controllen = 100, .msg_flags = -1};
    take(buffer, CALL(recvmsg(p->fd, &message, 0)));
    say("name %u, control %zu, flags %#x", message.msg_namelen, message.msg_controllen, message.msg_flags);
    message.msg_flags = -1;
    message.msg_namelen = 0;
    take(buffer, CALL(recvmsg(p->fd, &message, MSG_DONTWAIT)));
    say("name %u, control %zu, flags %#x", message.msg_namelen, message.msg_controllen, message.msg_flags);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(9);
    CALL(sendto(p->fd, "x", 1, 0, (struct sockaddr *)&address, sizeof address));
    done(p);
}

static void many_messages(struct peer *p) {
    struct mmsghdr in[4];
    struct iovec vectors[4];
    for (int i = 0; i < 4; i++) {
        vectors[i] = (struct iovec){buffer + 10 * i, 10};
        in[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}};
    }
    ask(p, 35, 0);
    long got = CALL(recvmmsg(p->fd, in, 4, MSG_DONTWAIT, NULL));
    for (int i = 0; i < got; i++)
        say("  %u, flags %#x", in[i].msg_len, in[i].msg_hdr.msg_flags);
    take(buffer, 35);
    CALL(recvmmsg(p->fd, in, 4, MSG_DONTWAIT, NULL));
    ask(p, 15, 0);
    got = CALL(recvmmsg(p->fd, in, 4, MSG_WAITFORONE, NULL));
    for (int i = 0; i < got; i++)
        say("  %u, flags %#x", in[i].msg_len, in[i].msg_hdr.msg_flags);
    take(buffer, 15);
    ask(p, 40, 0);
    struct timespec soon = {0, 50000000};
    CALL(recvmmsg(p->fd, in, 4, 0, &soon));
    take(buffer, 40);
    CALL(recvmmsg(p->fd, in, 0, 0, NULL));
    done(p);
}

static void send_many_messages(struct peer *p) {
    fill(buffer, 3000, 0);
    struct mmsghdr out[3];
    struct iovec vectors[3] = {{buffer, 1000}, {buffer + 1000, 1}, {buffer + 1001, 1999}};
    for (int i = 0; i < 3; i++)
        out[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}};
    CALL(sendmmsg(p->fd, out, 3, 0));
    say("%u %u %u", out[0].msg_len, out[1].msg_len, out[2].msg_len);
    CALL(sendmmsg(p->fd, out, 0, 0));
    meet(p);
}

static void send_many_server(struct peer *p) {
    recv_pattern(p->fd, 0, 3000, 3000);
    meet(p);
}

static void peeking(struct peer *p) {
    CALL(recv(p->fd, buffer, 10, MSG_PEEK | MSG_DONTWAIT));
    ask(p, 100, 0);
    peek(p, 10, 0);
    peek(p, 200, 0);
    struct iovec in[2] = {{buffer, 7}, {buffer + 7, 13}};
    struct msghdr message = {.msg_iov = in, .msg_iovlen = 2};
    CALL(recvmsg(p->fd, &message, MSG_PEEK));
    say("  %s", matches(buffer, 20, taken) ? "right" : "WRONG");
    int there = 0;
    CALL(ioctl(p->fd, FIONREAD, &there));
    say("%d there", there);
    take(buffer, CALL(recv(p->fd, buffer, 60, 0)));
    peek(p, 50, MSG_WAITALL | MSG_DONTWAIT);
    ask(p, 100, 40);
    peek(p, 200, 0);
    take(buffer, CALL(recv(p->fd, buffer, 1000, 0)));
    // A peek over more than one buffer's worth
    ask(p, 60000, 0);
    peek(p, 60000, MSG_WAITALL);
    take(buffer, CALL(recv(p->fd, buffer, 60000, MSG_WAITALL)));
    done(p);
}

static void waitall_server(struct peer *p) {
    send_pattern(p->fd, 0, 10, 10);
    meet(p);
    meet(p);
    nap(50);
    send_pattern(p->fd, 10, 60000, 7000);
    meet(p);
    send_pattern(p->fd, 60010, 25, 25);
    close(p->fd);
    meet(p);
}

static void waitall(struct peer *p) {
    meet(p);
    await_bytes(p->fd, 10);
    CALL(recv(p->fd, buffer, 20, MSG_WAITALL | MSG_DONTWAIT | MSG_PEEK));
    meet(p);
    take(buffer, CALL(recv(p->fd, buffer, 4, MSG_WAITALL)));
    take(buffer, CALL(recv(p->fd, buffer, 20006, MSG_WAITALL)));
    struct iovec in[2] = {{buffer, 15000}, {buffer + 15000, 25000}};
    struct msghdr message = {.msg_iov = in, .msg_iovlen = 2};
    take(buffer, CALL(recvmsg(p->fd, &message, MSG_WAITALL)));
    meet(p);
    take(buffer, CALL(recv(p->fd, buffer, 100, MSG_WAITALL)));
    CALL(recv(p->fd, buffer, 100, MSG_WAITALL));
    meet(p);
}

static void dontwait(struct peer *p) {
    CALL(recv(p->fd, buffer, 10, MSG_DONTWAIT));
    CALL(recvfrom(p->fd, buffer, 10, MSG_DONTWAIT, NULL, NULL));
    struct iovec in = {buffer, 10};
    struct msghdr message = {.msg_iov = &in, .msg_iovlen = 1};
    CALL(recvmsg(p->fd, &message, MSG_DONTWAIT));
    ask(p, 5, 0);
    take(buffer, CALL(recv(p->fd, buffer, 10, MSG_DONTWAIT | MSG_NOSIGNAL)));
    CALL(recv(p->fd, buffer, 10, MSG_DONTWAIT));
    say("blocking still: %s", MUST(fcntl(p->fd, F_GETFL)) & O_NONBLOCK ? "no" : "yes");
    CALL(send(p->fd, "abc", 3, MSG_DONTWAIT | MSG_NOSIGNAL));
    done(p);
}

static void truncation(struct peer *p) {
    ask(p, 100, 0);
    CALL(recv(p->fd, NULL, 30, MSG_TRUNC));
    taken += 30;
    memset(buffer, 'u', 100);
    CALL(recv(p->fd, buffer, 30, MSG_TRUNC));
    taken += 30;
    say_text("untouched", buffer, 5);
    take(buffer, CALL(recv(p->fd, buffer, 100, 0)));
    done(p);
}

static const struct scenario scenarios[] = {
    {"partial_reads_leave_the_rest", feed, partial_reads},
    {"partial_reads_over_ipv6", feed, partial_reads, V6},
    {"zero_length_calls", feed, zero_length},
    {"a_receive_of_nothing_waits", feed, empty_waits},
    {"readv_scatters", feed, vectors},
    {"writev_and_sendmsg_gather", gather_server, gather},
    {"addresses_of_a_connected_stream", feed, addresses},
    {"recvmmsg_takes_several", feed, many_messages},
    {"sendmmsg_sends_several", send_many_server, send_many_messages},
    {"peek_leaves_the_bytes", feed, peeking},
    {"waitall_waits_for_all", waitall_server, waitall},
    {"dontwait_does_not_wait", feed, dontwait},
    {"trunc_discards", feed, truncation},
};
SCENARIO_MAIN(scenarios)
