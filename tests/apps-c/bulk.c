// Much data: one process at both ends, both directions at once, every size.
#include "common.h"

static char buffer[1 << 20];

// --- one process holds both ends (`both`): `fd` was accepted, `other` connected

// A megabyte in single bytes before the first read
static void writes_before_reading(struct peer *p) {
    int on = 1;
    MUST(setsockopt(p->other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    for (int i = 0; i < 1000000; i++) {
        char byte;
        fill(&byte, 1, i);
        if (send(p->other, &byte, 1, 0) != 1)
            die("byte %d: %s", i, strerrorname_np(errno));
    }
    say("written");
    recv_pattern(p->fd, 0, 1000000, 4096);
    close(p->other);
    CALL(recv(p->fd, buffer, 1, 0));
}

static void both_before_reading(struct peer *p) {
    for (int i = 0; i < 20000; i++) {
        char piece[100];
        fill(piece, sizeof piece, (uint64_t)i * sizeof piece);
        send_all(p->other, piece, sizeof piece);
        send_all(p->fd, piece, sizeof piece);
    }
    say("written");
    recv_pattern(p->fd, 0, 2000000, 1000);
    recv_pattern(p->other, 0, 2000000, 7777);
    warm_both(p->other, p->fd);
    say("still in order");
}

static void alone_ping_pong(struct peer *p) {
    uint64_t total = 0;
    for (int i = 0; i < 2000; i++) {
        size_t size = 1 + (i * 7919) % 60000;
        fill(buffer, size, total);
        send_all(p->other, buffer, size);
        recv_pattern(p->fd, total, size, 9999);
        send_all(p->fd, buffer, size);
        recv_pattern(p->other, total, size, 65536);
        total += size;
    }
    say("%llu bytes there and back", (unsigned long long)total);
}

static void alone_with_poll(struct peer *p) {
    struct pollfd both[2] = {{p->fd, POLLIN, 0}, {p->other, POLLIN, 0}};
    for (int i = 0; i < 500; i++) {
        send_all(both[i % 2].fd, "x", 1);
        if (poll(both, 2, 5000) != 1 || !both[(i + 1) % 2].revents)
            die("poll %d shows %d %d", i, both[0].revents, both[1].revents);
        recv_all(both[(i + 1) % 2].fd, buffer, 1);
    }
    say("500 events");
    close(p->other);
    CALL(poll(both, 1, 5000));
    CALL(recv(p->fd, buffer, 1, 0));
}

// --- two processes

static uint32_t random_state = 12345;
static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

// Both ends generate the same sizes.
static void ping_pong(struct peer *p) {
    uint32_t sum = CHECKSUM_START;
    uint64_t total = 0;
    for (int i = 0; i < 400; i++) {
        size_t size = 1 + random_below(200000);
        if (!p->server) {
            fill(buffer, size, total);
            send_all(p->fd, buffer, size);
            memset(buffer, 0, size);
        }
        recv_all(p->fd, buffer, size);
        sum = checksum(sum, buffer, size);
        if (p->server)
            send_all(p->fd, buffer, size);
        else if (!matches(buffer, size, total))
            die("message %d of %zu came back changed", i, size);
        total += size;
    }
    say("%llu bytes, checksum %08x", (unsigned long long)total, sum);
}

static void small_ping_pong(struct peer *p) {
    uint64_t total = 0;
    for (int i = 0; i < 30000; i++) {
        size_t size = 1 + random_below(300);
        fill(buffer, size, total);
        if (!p->server)
            send_all(p->fd, buffer, size);
        recv_pattern(p->fd, total, size, size);
        if (p->server)
            send_all(p->fd, buffer, size);
        total += size;
    }
    say("%llu bytes", (unsigned long long)total);
}

// Sizes around every limit that a protocol may have
static void borders(struct peer *p) {
    static const size_t around[] = {1, 2, 4, 8, 16, 32, 40, 48, 56, 64, 128, 256, 512, 1024, 1448, 2048, 4096,
                                    8192, 16384, 32768, 65483, 65536, 131072, 262144, 524288};
    uint64_t total = 0;
    for (size_t a = 0; a < sizeof around / sizeof around[0]; a++) {
        for (size_t size = around[a] > 2 ? around[a] - 2 : 1; size <= around[a] + 2; size++) {
            fill(buffer, size, total);
            if (!p->server)
                send_all(p->fd, buffer, size);
            recv_pattern(p->fd, total, size, sizeof buffer);
            if (p->server)
                send_all(p->fd, buffer, size);
            total += size;
        }
    }
    say("%llu bytes", (unsigned long long)total);
}

// Each end sends 64 MB and reads as much, in one thread, by poll.
static void floods(struct peer *p) {
    const uint64_t all = 64 << 20;
    uint64_t sent = 0, got = 0;
    set_nonblocking(p->fd, true);
    while (sent < all || got < all) {
        struct pollfd one = {.fd = p->fd, .events = (sent < all ? POLLOUT : 0) | (got < all ? POLLIN : 0)};
        MUST(poll(&one, 1, -1));
        if (one.revents & POLLIN) {
            ssize_t count = recv(p->fd, buffer, 50000, 0);
            if (count <= 0 || !matches(buffer, count, got))
                die("wrong bytes at %llu: %zd", (unsigned long long)got, count);
            got += count;
        }
        if (one.revents & POLLOUT) {
            size_t step = all - sent < 50000 ? all - sent : 50000;
            fill(buffer, step, sent);
            ssize_t count = send(p->fd, buffer, step, 0);
            if (count < 0 && errno != EAGAIN)
                die("send at %llu: %s", (unsigned long long)sent, strerrorname_np(errno));
            sent += count > 0 ? count : 0;
        }
    }
    say("%llu sent, %llu received", (unsigned long long)sent, (unsigned long long)got);
    meet(p);
}

// Like `floods`, with edge-triggered epoll, as in event loops
static void floods_by_edges(struct peer *p) {
    const uint64_t all = 64 << 20;
    uint64_t sent = 0, got = 0;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    int set = MUST(epoll_create1(0));
    set_nonblocking(p->fd, true);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    while (sent < all || got < all) {
        if (MUST(epoll_wait(set, &event, 1, 20000)) == 0)
            die("nothing comes after %llu and %llu", (unsigned long long)sent, (unsigned long long)got);
        ssize_t count;
        while (got < all && (count = recv(p->fd, buffer, 100000, 0)) > 0) {
            if (!matches(buffer, count, got))
                die("wrong bytes at %llu", (unsigned long long)got);
            got += count;
        }
        do {
            size_t step = all - sent < 100000 ? all - sent : 100000;
            fill(buffer, step, sent);
            count = step ? send(p->fd, buffer, step, 0) : -1;
            sent += count > 0 ? count : 0;
        } while (count > 0);
    }
    say("%llu sent, %llu received", (unsigned long long)sent, (unsigned long long)got);
    meet(p);
}

// A stream of pieces of every size, read in other sizes
static void streams(struct peer *p) {
    uint64_t offset = 0;
    for (int i = 0; i < 3000; i++) {
        size_t size = 1 + random_below(i % 10 ? 3000 : 100000);
        fill(buffer, size, offset);
        send_all(p->fd, buffer, size);
        offset += size;
    }
    say("%llu bytes", (unsigned long long)offset);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void reads_streams(struct peer *p) {
    uint64_t offset = 0;
    random_state = 999;
    ssize_t got;
    while ((got = recv(p->fd, buffer, 1 + random_below(20000), 0)) > 0) {
        if (!matches(buffer, got, offset))
            die("wrong bytes at %llu", (unsigned long long)offset);
        offset += got;
    }
    say("%llu bytes, then %zd", (unsigned long long)offset, got);
}

static const struct scenario scenarios[] = {
    {"a_megabyte_of_single_bytes_before_the_first_read", writes_before_reading, NULL},
    {"both_directions_before_the_first_read", both_before_reading, NULL},
    {"ping_pong_with_oneself", alone_ping_pong, NULL},
    {"polling_both_ends", alone_with_poll, NULL},
    {"ping_pong_of_random_sizes", ping_pong, ping_pong},
    {"ping_pong_of_small_sizes", small_ping_pong, small_ping_pong},
    {"sizes_around_every_border", borders, borders},
    {"sixty_four_megabytes_each_way_at_once", floods, floods},
    {"sixty_four_megabytes_each_way_by_edges", floods_by_edges, floods_by_edges},
    {"a_stream_of_pieces_of_every_size", reads_streams, streams},
};
SCENARIO_MAIN(scenarios)
