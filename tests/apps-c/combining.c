// Small messages that may be combined. However they are combined, a sleeping reader must get them
// soon: before the check once a second, which would hide a missing timer.
#include "common.h"
#include <netinet/tcp.h>
#include <sys/epoll.h>

enum { WAYS = 7, SMALL = 10, LARGE = 9000 };

static void set(int fd, int option, int value) {
    MUST(setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value));
}

// Returns the number of bytes that a way to send sends.
static size_t bytes_of(int way) { return way == 3 ? SMALL + LARGE : way == 6 ? SMALL * 100 : SMALL; }

static void reads(struct peer *p) {
    uint64_t offset = 0;
    for (int way = 0; way < WAYS; way++) {
        do {
            recv_pattern(p->fd, offset, bytes_of(way), LARGE);
            tell(p, now_ms());
            offset += bytes_of(way);
        } while (hear(p));
        meet(p);
    }
    drain_to_eof(p->fd, offset);
}

static void send_by(struct peer *p, int way, uint64_t offset) {
    if (way == 6)
        send_pattern(p->fd, offset, SMALL * 100, SMALL);
    else
        send_pattern(p->fd, offset, SMALL, SMALL);
    if (way == 2)
        set(p->fd, TCP_CORK, 0);
    if (way == 3)
        send_pattern(p->fd, offset + SMALL, LARGE, LARGE);
    struct pollfd nothing = {.fd = p->fd, .events = POLLIN};
    if (way == 4)
        MUST(poll(&nothing, 1, 100));
    if (way == 5) {
        int set = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
        MUST(epoll_wait(set, &event, 1, 100));
        close(set);
    }
    nap(200); // sends no more, and makes no call that waits
}

static void sends(struct peer *p) {
    static const char *const names[WAYS] = {
        "left to itself", "without delay", "uncorked", "before a large one", "before a poll",
        "before an epoll_wait", "a hundred",
    };
    uint64_t offset = 0;
    for (int way = 0; way < WAYS; way++) {
        set(p->fd, TCP_NODELAY, way == 1);
        int64_t took;
        bool again;
        int tries = 0;
        // Repeat a message that came late, because a busy machine delays messages.
        do {
            if (way == 2)
                set(p->fd, TCP_CORK, 1);
            nap(50); // the reader sleeps
            int64_t sent = now_ms();
            send_by(p, way, offset);
            took = (int64_t)hear(p) - sent;
            offset += bytes_of(way);
            again = took >= 800 && ++tries < 5;
            tell(p, again);
        } while (again);
        say(took < 800 ? "%s: soon" : "%s: after %lld ms", names[way], (long long)took);
        meet(p);
    }
    MUST(shutdown(p->fd, SHUT_WR));
}

static const struct scenario scenarios[] = {
    {"small_messages_come_soon", reads, sends},
    {"small_messages_of_the_server_come_soon", sends, reads},
};
SCENARIO_MAIN(scenarios)
