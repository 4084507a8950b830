// Fifty streams between two processes. One is not read, and the others continue. All bytes sent on
// the stalled one arrive later.
#include "common.h"

enum { STREAMS = 50, ROUNDS = 300, ENOUGH = 3800000 };
static char buffer[70000];
static int fds[STREAMS];

static void open_all(struct peer *p) {
    int listener = p->server ? listen_on(p, AF_INET, "fifty") : -1;
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = p->server ? accept_one(listener) : connect_to(p, AF_INET, "fifty");
        warm(fds[i], p->server);
    }
}

// Writes until there is no room. The kernel may refuse bytes while earlier ones are under way, which
// takes time on a busy machine. So the kernel has some seconds to take as many bytes as it can.
static uint64_t fill_stalled(void) {
    uint64_t count = 0;
    int64_t start = now_ms();
    for (;;) {
        fill(buffer, 1000, count);
        ssize_t sent = send(fds[0], buffer, 1000, MSG_DONTWAIT);
        if (sent < 0 && (count > ENOUGH || now_ms() - start > LATE))
            return count;
        if (sent < 0) {
            nap(10);
            continue;
        }
        start = now_ms();
        count += sent;
    }
}

static void busy(bool server) {
    uint64_t total = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 1 + (round * 7919) % 20000;
        fill(buffer, size, total);
        for (int i = 1; i < STREAMS; i++) {
            if (!server)
                send_all(fds[i], buffer, size);
            else
                recv_pattern(fds[i], total, size, sizeof buffer);
        }
        for (int i = 1; i < STREAMS; i++) {
            if (server)
                send_all(fds[i], buffer, size);
            else
                recv_pattern(fds[i], total, size, sizeof buffer);
        }
        total += size;
    }
    say("%d streams went on: %llu bytes each", STREAMS - 1, (unsigned long long)total);
}

static void sends(struct peer *p) {
    open_all(p);
    uint64_t count = fill_stalled();
    say(count > ENOUGH ? "stalled" : "stalled after only %llu", (unsigned long long)count);
    tell(p, count);
    busy(false);
    hear(p);
    send_pattern(fds[0], count, 100000, 1000);
    close(fds[0]);
    meet(p);
}

static void reads_late(struct peer *p) {
    open_all(p);
    uint64_t count = hear(p);
    busy(true);
    recv_pattern(fds[0], 0, count, 3000);
    say("the stalled stream's bytes are all there");
    tell(p, 0);
    drain_to_eof(fds[0], count);
    meet(p);
}

// A blocked writer delays no other thread of its process.
static void *blocks(void *argument) {
    send_pattern(fds[0], 0, 30000000, 50000);
    return argument;
}

static void sends_blocked(struct peer *p) {
    pthread_t thread;
    open_all(p);
    pthread_create(&thread, NULL, blocks, NULL);
    nap(100);
    busy(false);
    meet(p);
    pthread_join(thread, NULL);
    close(fds[0]);
}

static void reads_blocked_late(struct peer *p) {
    open_all(p);
    busy(true);
    meet(p);
    drain_to_eof(fds[0], 0);
}

static const struct scenario scenarios[] = {
    {"a_stalled_stream_beside_busy_ones", reads_late, sends, RAW},
    {"a_blocked_writer_beside_busy_streams", reads_blocked_late, sends_blocked, RAW},
};
SCENARIO_MAIN(scenarios)
