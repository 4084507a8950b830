// Random sizes and random pauses at both ends for a long time. A watchdog checks for progress.
#include "common.h"

static char buffer[1 << 16];
static volatile uint64_t progress;

static uint32_t draw(uint32_t *state, uint32_t bound) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % bound;
}

static uint32_t state, size_state;
static uint32_t random_below(uint32_t bound) { return draw(&state, bound); }
// A separate random sequence, so that the amounts do not depend on earlier events.
static uint32_t random_size(void) { return 1 + draw(&size_state, 3000); }

// Pauses now and then: not at all, for a few instructions, a yield, or some microseconds.
static void pause_sometimes(void) {
    uint32_t kind = random_below(1000);
    if (kind < 3)
        usleep(random_below(300));
    else if (kind < 20)
        sched_yield();
    else if (kind < 100)
        for (volatile uint32_t i = random_below(2000); i; i--)
            ;
}

static void *watches(void *argument) {
    uint64_t last = 0;
    for (;;) {
        nap(30000);
        if (progress == last)
            die("no progress for 30 s after %llu", (unsigned long long)last);
        last = progress;
    }
    return argument;
}

static uint64_t messages(void) {
    const char *text = getenv("SOVIA_STRESS_MESSAGES");
    return text ? strtoull(text, NULL, 10) : 200000;
}

static void begin(uint32_t seed) {
    pthread_t watcher;
    const char *text = getenv("SOVIA_STRESS_SEED");
    state = seed + (text ? (uint32_t)atoi(text) : 0);
    size_state = state * 7919;
    pthread_create(&watcher, NULL, watches, NULL);
}

// --- one way: a sender, a receiver

static void sends(struct peer *p) {
    uint64_t offset = 0;
    begin(1);
    for (uint64_t i = 0; i < messages(); i++) {
        size_t size = random_size();
        fill(buffer, size, offset);
        send_all(p->fd, buffer, size);
        offset += size;
        progress++;
        pause_sometimes();
    }
    say("%llu bytes", (unsigned long long)offset);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void receives(struct peer *p) {
    uint64_t offset = 0;
    ssize_t got;
    begin(2);
    while ((got = recv(p->fd, buffer, 1 + random_below(5000), 0)) > 0) {
        if (!matches(buffer, got, offset))
            die("wrong bytes at %llu", (unsigned long long)offset);
        offset += got;
        progress++;
        pause_sometimes();
    }
    say("%llu bytes, then %zd", (unsigned long long)offset, got);
}

// --- both directions: each end sends whenever there is room and reads whenever there are bytes. It
// waits by poll, epoll or a blocking call

static void both_ways(struct peer *p) {
    uint64_t sent = 0, got = 0, out = 0, in = 0, all = messages() / 2, size = 0;
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    bool over = false;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    begin(p->server ? 3 : 4);
    while (out < all || !over) {
        if (out < all) {
            if (!size)
                size = random_size();
            fill(buffer, size, sent);
            ssize_t count = send(p->fd, buffer, size, MSG_DONTWAIT);
            if (count < 0 && errno != EAGAIN)
                die("send at %llu: %s", (unsigned long long)sent, strerrorname_np(errno));
            sent += count > 0 ? count : 0;
            size -= count > 0 ? count : 0;
            if (!size && ++out == all)
                MUST(shutdown(p->fd, SHUT_WR));
        }
        uint32_t way = random_below(4);
        bool may_wait = out == all;
        struct pollfd one = {.fd = p->fd, .events = POLLIN};
        if (way == 0)
            MUST(epoll_wait(set, &event, 1, may_wait ? -1 : 0));
        else if (way == 1)
            MUST(poll(&one, 1, may_wait ? -1 : 0));
        ssize_t count = recv(p->fd, buffer, 1 + random_below(5000), may_wait ? 0 : MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN)
            die("recv at %llu: %s", (unsigned long long)got, strerrorname_np(errno));
        if (count > 0 && !matches(buffer, count, got))
            die("wrong bytes at %llu", (unsigned long long)got);
        over = count == 0;
        got += count > 0 ? count : 0;
        in += count > 0;
        progress = in + out;
        pause_sometimes();
    }
    say("%llu sent, %llu received", (unsigned long long)sent, (unsigned long long)got);
}

// --- requests and answers with long and short pauses: each may find the other end awake, asleep,
// or about to sleep

static void asks(struct peer *p) {
    begin(5);
    for (uint64_t i = 0; i < messages() / 4; i++) {
        size_t size = 1 + random_below(300);
        memcpy(buffer, &i, sizeof i);
        memcpy(buffer + 8, &size, sizeof size);
        send_all(p->fd, buffer, 16 + size);
        uint64_t back;
        recv_all(p->fd, &back, sizeof back);
        if (back != i)
            die("answer %llu to %llu", (unsigned long long)back, (unsigned long long)i);
        progress++;
        pause_sometimes();
    }
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void answers(struct peer *p) {
    uint64_t head[2], count = 0;
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    begin(6);
    for (;;) {
        if (random_below(2))
            MUST(epoll_wait(set, &event, 1, -1));
        ssize_t got = recv(p->fd, head, sizeof head, MSG_WAITALL);
        if (got <= 0)
            break;
        recv_all(p->fd, buffer, head[1]);
        pause_sometimes();
        send_all(p->fd, head, 8);
        count++;
        progress++;
    }
    say("%llu answers", (unsigned long long)count);
}

static const struct scenario scenarios[] = {
    {"random_sizes_and_pauses_one_way", receives, sends},
    {"random_sizes_and_pauses_both_ways", both_ways, both_ways},
    {"requests_that_come_at_any_moment", answers, asks},
};
SCENARIO_MAIN(scenarios)
