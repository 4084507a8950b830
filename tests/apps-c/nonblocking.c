// Non-blocking sockets: nothing to read, no room to write, and room again.
#include "common.h"

static char buffer[70000];
// Returns the least number of unread bytes that the kernel's socket takes before EAGAIN. That is
// 3.9 to 4.0 MB, and with pieces of 64 KB always 3866624.
static long unread_least(size_t piece) { return piece < 65536 ? 3900000 : 3866624; }

static void empty(struct peer *p) {
    set_nonblocking(p->fd, true);
    struct iovec one = {buffer, 10};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    CALL(read(p->fd, buffer, 10));
    CALL(readv(p->fd, &one, 1));
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 10, MSG_PEEK));
    CALL(recvmsg(p->fd, &message, 0));
    meet(p);
    await_bytes(p->fd, 6);
    CALL(recv(p->fd, buffer, 10, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 10, MSG_WAITALL));
    set_nonblocking(p->fd, false);
    meet(p);
    CALL(recv(p->fd, buffer, 6, 0));
    set_nonblocking(p->fd, true);
    meet(p);
    await_events(p->fd, POLLIN | POLLRDHUP, POLLRDHUP);
    CALL(read(p->fd, buffer, 10));
}

static void feeds_empty(struct peer *p) {
    meet(p);
    CALL(send(p->fd, "six by", 6, 0));
    meet(p);
    nap(50);
    CALL(send(p->fd, "6 more", 6, 0));
    meet(p);
    CALL(close(p->fd));
}

static uint64_t filled;

// Writes pieces of one size until there is no room, and room does not come back. Bytes that the
// kernel has under way free a little room when they arrive. On a busy machine that takes time. So
// with fewer than `least` bytes sent, the loop goes on for some seconds.
static long fill_up(int fd, size_t piece, int flags, long least) {
    long count = 0;
    int64_t start = now_ms();
    for (int refused = 0; refused < 3 || (count < least && now_ms() - start < LATE);) {
        fill(buffer, piece, filled);
        ssize_t sent = send(fd, buffer, piece, flags);
        if (sent < 0) {
            if (errno != EAGAIN)
                die("send after %ld: %s", count, strerrorname_np(errno));
            refused++;
            nap(10);
            continue;
        }
        refused = 0;
        start = now_ms();
        count += sent;
        filled += sent;
    }
    return count;
}

static void say_writable(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLOUT | POLLIN};
    MUST(poll(&one, 1, 0));
    say("events %s", poll_names(one.revents));
}

static void fills(struct peer *p, size_t piece) {
    set_nonblocking(p->fd, true);
    say_writable(p->fd);
    long count = fill_up(p->fd, piece, 0, unread_least(piece));
    say(count >= unread_least(piece) ? "enough" : "only %ld bytes unread", count);
    say_writable(p->fd);
    // Refused again, except for a little room that the kernel finds when it probes its peer.
    count += fill_up(p->fd, piece, 0, 0);
    tell(p, count);
    // The reader takes all bytes. The writer is notified that there is room again.
    await_events(p->fd, POLLOUT, POLLOUT);
    hear(p);
    say_writable(p->fd);
    // Single bytes take the kernel seconds, so refill with larger pieces.
    count = fill_up(p->fd, piece == 1 ? 4096 : piece, 0, 1000001);
    say(count > 1000000 ? "refilled" : "refilled with only %ld bytes", count);
    tell(p, count);
    hear(p);
    set_nonblocking(p->fd, false);
    send_pattern(p->fd, filled, 100000, 10000);
    CALL(close(p->fd));
}

static void takes(struct peer *p) {
    uint64_t count = hear(p);
    recv_pattern(p->fd, 0, count, 65536);
    tell(p, 0);
    uint64_t more = hear(p);
    recv_pattern(p->fd, count, more, 5000);
    CALL(recv(p->fd, buffer, 1, MSG_DONTWAIT));
    tell(p, 0);
    drain_to_eof(p->fd, count + more);
}

static void fill_1(struct peer *p) {
    int on = 1;
    MUST(setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    fills(p, 1);
}
static void fill_64(struct peer *p) { fills(p, 64); }
static void fill_4096(struct peer *p) { fills(p, 4096); }
static void fill_65536(struct peer *p) { fills(p, 65536); }

// Both ends fill their direction before either reads.
static void fills_both_ways(struct peer *p) {
    long count = fill_up(p->fd, 3000, MSG_DONTWAIT, 3800000);
    say(count >= 3800000 ? "enough" : "only %ld bytes unread", count);
    tell(p, count);
    uint64_t theirs = hear(p);
    recv_pattern(p->fd, 0, theirs, 4096);
    meet(p);
    say_writable(p->fd);
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
    meet(p);
}

// A writer polls for room, in pieces like those of iperf3. It is as far ahead of its reader as TCP allows, or it
// would wait for ever.
static void polled_writer(struct peer *p) {
    const size_t piece = 65536, all = 2 << 20;
    set_nonblocking(p->fd, true);
    for (size_t sent = 0; sent < all;) {
        struct pollfd one = {.fd = p->fd, .events = POLLOUT};
        MUST(poll(&one, 1, -1));
        size_t step = all - sent < piece ? all - sent : piece;
        fill(buffer, step, sent);
        ssize_t count = send(p->fd, buffer, step, 0);
        if (count < 0 && errno != EAGAIN)
            die("send at %zu: %s", sent, strerrorname_np(errno));
        sent += count > 0 ? count : 0;
    }
    tell(p, all);
    hear(p);
}

static void late_reader(struct peer *p) {
    uint64_t count = hear(p);
    recv_pattern(p->fd, 0, count, 65536);
    tell(p, 0);
}

// A blocked writer continues when the reader does.
static void blocked_writer(struct peer *p) {
    size_t size = 16 << 20;
    char *much = malloc(size);
    fill(much, size, 0);
    CALL(write(p->fd, much, size));
    struct iovec halves[2] = {{much, size / 2}, {much + size / 2, size / 2}};
    CALL(writev(p->fd, halves, 2));
    CALL(close(p->fd));
}

static void slow_reader(struct peer *p) {
    nap(200);
    recv_pattern(p->fd, 0, 5 << 20, 4096);
    nap(100);
    recv_pattern(p->fd, 5 << 20, 11 << 20, 65536);
    nap(50);
    drain_to_eof(p->fd, 0);
}

// A non-blocking write that is larger than the room sends a part.
static void large_writes(struct peer *p) {
    size_t size = 32 << 20;
    char *much = malloc(size);
    fill(much, size, 0);
    set_nonblocking(p->fd, true);
    ssize_t sent = write(p->fd, much, size);
    say(sent >= 1000000 && sent < (ssize_t)size ? "a part" : "%zd taken", sent);
    tell(p, 0);
    while (sent < (ssize_t)size) {
        await_events(p->fd, POLLOUT, POLLOUT);
        ssize_t more = write(p->fd, much + sent, size - sent);
        if (more < 0 && errno != EAGAIN)
            die("write: %s", strerrorname_np(errno));
        sent += more > 0 ? more : 0;
    }
    say("all written");
    CALL(close(p->fd));
}

static void reads_after_word(struct peer *p) {
    hear(p);
    drain_to_eof(p->fd, 0);
}

static const struct scenario scenarios[] = {
    {"nothing_to_read_is_eagain", feeds_empty, empty},
    {"single_bytes_fill_no_earlier_than_tcp", takes, fill_1},
    {"pieces_of_64_fill_no_earlier_than_tcp", takes, fill_64},
    {"pieces_of_4096_fill_no_earlier_than_tcp", takes, fill_4096},
    {"pieces_of_65536_fill_no_earlier_than_tcp", takes, fill_65536},
    {"the_server_fills_too", fill_64, takes},
    {"both_directions_fill_at_once", fills_both_ways, fills_both_ways},
    {"a_blocked_writer_goes_on_with_the_reader", slow_reader, blocked_writer},
    {"a_large_nonblocking_write_is_taken_in_part", reads_after_word, large_writes},
    {"a_polled_writer_is_far_ahead", late_reader, polled_writer},
};
SCENARIO_MAIN(scenarios)
