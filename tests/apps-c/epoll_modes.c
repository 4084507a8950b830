// epoll on one stream: level-triggered, edge-triggered and one-shot entries that change, leave and
// come back; and the events of each state of the stream.
#include "common.h"

static char buffer[70000];

enum { QUIET = 60 }; // milliseconds in which no event may come

// The server causes the client's events on request.
static void changes(struct peer *p) {
    for (;;) {
        switch (hear(p)) {
        case 's': send_all(p->fd, "some", 4); break;
        case 'h': MUST(shutdown(p->fd, SHUT_WR)); break;
        case 'l': nap(120); send_all(p->fd, "late", 4); break;
        case 'd': {
            long count = hear(p);
            recv_pattern(p->fd, 0, count, 65536);
            break;
        }
        case 'r': {
            struct linger none = {.l_onoff = 1};
            MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
            close(p->fd);
            break;
        }
        case 'q': return;
        }
        tell(p, 0);
    }
}

static void have(struct peer *p, int what, int unread) {
    tell(p, what);
    hear(p);
    if (unread >= 0)
        await_bytes(p->fd, unread);
    else
        await_events(p->fd, POLLRDHUP, POLLRDHUP);
    // The library's thread also gets the end from the kernel, and reports it once more if it comes
    // late.
    await_rest();
}

static int set;

static int control(int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u64 = 0x1234567890abcdef};
    return epoll_ctl(set, operation, fd, &event);
}

static void say_wait(int timeout) {
    struct epoll_event events[4];
    int count = epoll_wait(set, events, 4, timeout);
    if (count < 0)
        say("epoll_wait = -1 %s", strerrorname_np(errno));
    else if (count == 0)
        say("epoll_wait = 0");
    for (int i = 0; i < count; i++)
        say("epoll_wait = %d, %s%s", count, epoll_names(events[i].events),
            events[i].data.u64 == 0x1234567890abcdef ? "" : ", WRONG data");
}

static void begin(struct peer *p, uint32_t events) {
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(control(EPOLL_CTL_ADD, p->fd, events));
}

static void level(struct peer *p) {
    begin(p, EPOLLIN);
    say_wait(0);
    have(p, 's', 4);
    say_wait(-1);
    say_wait(0);
    recv_all(p->fd, buffer, 2);
    say_wait(0);
    recv_all(p->fd, buffer, 2);
    say_wait(0);
    say_wait(QUIET);
    tell(p, 'l');
    say_wait(-1);
    hear(p);
    tell(p, 'q');
}

static void level_out(struct peer *p) {
    begin(p, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
    say_wait(0);
    say_wait(-1);
    have(p, 's', 4);
    say_wait(0);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLOUT));
    say_wait(0);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLRDNORM | EPOLLWRNORM));
    say_wait(0);
    MUST(control(EPOLL_CTL_MOD, p->fd, 0));
    say_wait(QUIET);
    tell(p, 'q');
}

static void edge(struct peer *p) {
    begin(p, EPOLLIN | EPOLLET);
    say_wait(QUIET);
    have(p, 's', 4);
    say_wait(-1);
    say_wait(QUIET);
    recv_all(p->fd, buffer, 1);
    say_wait(QUIET);
    // New bytes are a new edge, even if earlier ones are unread.
    have(p, 's', 7);
    say_wait(-1);
    say_wait(QUIET);
    recv_all(p->fd, buffer, 7);
    CALL(recv(p->fd, buffer, 1, MSG_DONTWAIT));
    say_wait(QUIET);
    tell(p, 'l');
    say_wait(-1);
    hear(p);
    say_wait(QUIET);
    // Changing or adding the entry again reports its present events.
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLET));
    say_wait(-1);
    say_wait(QUIET);
    MUST(control(EPOLL_CTL_DEL, p->fd, 0));
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLET));
    say_wait(-1);
    say_wait(QUIET);
    have(p, 'h', -1);
    say_wait(-1);
    say_wait(QUIET);
    tell(p, 'q');
}

static void ends_once(struct peer *p) {
    tell(p, 'h');
    hear(p);
    say_wait(-1);
    say_wait(QUIET);
    say_wait(QUIET);
    tell(p, 'q');
}

// An end is one edge, whether bytes are unread or not.
static void edge_of_an_end(struct peer *p) {
    begin(p, EPOLLIN | EPOLLRDHUP | EPOLLET);
    ends_once(p);
}

static void edge_of_an_end_behind_bytes(struct peer *p) {
    begin(p, EPOLLIN | EPOLLRDHUP | EPOLLET);
    have(p, 's', 4);
    say_wait(-1);
    ends_once(p);
}

static void edge_both(struct peer *p) {
    begin(p, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    say_wait(-1);
    say_wait(QUIET);
    have(p, 's', 4);
    say_wait(-1);
    say_wait(QUIET);
    recv_all(p->fd, buffer, 4);
    say_wait(QUIET);
    have(p, 'h', -1);
    say_wait(-1);
    say_wait(QUIET);
    MUST(shutdown(p->fd, SHUT_WR));
    await_events(p->fd, 0, POLLHUP);
    say_wait(-1);
    tell(p, 'q');
}

// Room to write is an edge after it had run out.
static void edge_room(struct peer *p) {
    begin(p, EPOLLOUT | EPOLLET);
    say_wait(-1);
    say_wait(QUIET);
    set_nonblocking(p->fd, true);
    long count = 0, sent;
    do {
        fill(buffer, 50000, count);
        sent = send(p->fd, buffer, 50000, 0);
        count += sent > 0 ? sent : 0;
    } while (sent > 0);
    say("full: %s", strerrorname_np(errno));
    say_wait(QUIET);
    tell(p, 'd');
    tell(p, count);
    say_wait(-1);
    hear(p);
    CALL(send(p->fd, "x", 1, 0));
    tell(p, 'q');
}

static void level_room(struct peer *p) {
    begin(p, EPOLLOUT);
    set_nonblocking(p->fd, true);
    long count = 0, sent;
    do {
        fill(buffer, 50000, count);
        sent = send(p->fd, buffer, 50000, 0);
        count += sent > 0 ? sent : 0;
    } while (sent > 0);
    say_wait(0);
    say_wait(QUIET);
    tell(p, 'd');
    tell(p, count);
    say_wait(-1);
    hear(p);
    say_wait(0);
    tell(p, 'q');
}

static void one_shot(struct peer *p) {
    begin(p, EPOLLIN | EPOLLONESHOT);
    have(p, 's', 4);
    say_wait(-1);
    say_wait(QUIET);
    have(p, 's', 8);
    say_wait(QUIET);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLONESHOT));
    say_wait(-1);
    say_wait(QUIET);
    recv_all(p->fd, buffer, 8);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLOUT | EPOLLONESHOT | EPOLLET));
    say_wait(-1);
    say_wait(QUIET);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLONESHOT | EPOLLET));
    say_wait(QUIET);
    tell(p, 'l');
    say_wait(-1);
    hear(p);
    have(p, 'h', -1);
    say_wait(QUIET);
    tell(p, 'q');
}

// A disabled entry reports no end either, also after the stream has moved to TCP. A wait that reports nothing leaves
// the program's event unchanged.
static void one_shot_and_back(struct peer *p) {
    begin(p, EPOLLIN | EPOLLONESHOT);
    have(p, 's', 4);
    say_wait(-1);
    // These operations move the stream to TCP.
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &(int){2}, sizeof(int)));
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &(int){1}, sizeof(int)));
    say_wait(QUIET);
    have(p, 'r', -1);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 0x1234567890abcdef};
    CALL(epoll_wait(set, &event, 1, QUIET));
    say("its event is %s", event.data.u64 == 0x1234567890abcdef ? "as it was" : "another");
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, p->fd, &event));
    say_wait(-1);
    say_wait(QUIET);
    tell(p, 'q');
}

static void leaving(struct peer *p) {
    begin(p, EPOLLIN);
    have(p, 's', 4);
    MUST(control(EPOLL_CTL_DEL, p->fd, 0));
    say_wait(QUIET);
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    say_wait(-1);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLRDHUP));
    say_wait(QUIET);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN));
    say_wait(-1);
    recv_all(p->fd, buffer, 4);
    // A closed descriptor leaves the instance by itself.
    int other = MUST(dup(p->fd));
    MUST(control(EPOLL_CTL_DEL, p->fd, 0));
    close(p->fd);
    p->fd = other;
    have(p, 's', 4);
    say_wait(QUIET);
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    say_wait(-1);
    close(p->fd);
    say_wait(QUIET);
    tell(p, 'q');
}

static void hang_up(struct peer *p) {
    begin(p, EPOLLIN | EPOLLRDHUP);
    have(p, 's', 4);
    have(p, 'h', -1);
    say_wait(-1);
    recv_all(p->fd, buffer, 4);
    say_wait(-1);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN));
    say_wait(-1);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLRDHUP));
    say_wait(-1);
    MUST(control(EPOLL_CTL_MOD, p->fd, 0));
    say_wait(QUIET);
    MUST(shutdown(p->fd, SHUT_WR));
    await_events(p->fd, 0, POLLHUP);
    say_wait(-1);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP));
    say_wait(-1);
    tell(p, 'q');
}

static void reset(struct peer *p) {
    begin(p, 0);
    tell(p, 'r');
    say_wait(-1);
    hear(p);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP));
    say_wait(-1);
    CALL(recv(p->fd, buffer, 1, 0));
    say_wait(-1);
    tell(p, 'q');
}

static void reset_edge(struct peer *p) {
    begin(p, EPOLLIN | EPOLLET);
    have(p, 'r', -1); // a reset causes two wake-ups; wait for both
    say_wait(-1);
    CALL(recv(p->fd, buffer, 1, 0));
    say_wait(QUIET);
    tell(p, 'q');
}

static void arguments(struct peer *p) {
    begin(p, EPOLLIN);
    struct epoll_event event = {.events = EPOLLIN}, *volatile bad = (void *)8;
    CALL(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    CALL(control(99, p->fd, EPOLLIN));
    CALL(control(EPOLL_CTL_MOD, 150, EPOLLIN));
    CALL(control(EPOLL_CTL_ADD, set, EPOLLIN));
    CALL(epoll_ctl(p->fd, EPOLL_CTL_ADD, set, &event));
    CALL(epoll_ctl(150, EPOLL_CTL_ADD, p->fd, &event));
    CALL(epoll_ctl(set, EPOLL_CTL_MOD, p->fd, bad));
    CALL(epoll_ctl(set, EPOLL_CTL_DEL, p->fd, bad));
    CALL(control(EPOLL_CTL_DEL, p->fd, 0));
    CALL(control(EPOLL_CTL_MOD, p->fd, EPOLLIN));
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, bad));
    int file = MUST(open("/dev/null", O_RDONLY)), plain = MUST(open(p->self, O_RDONLY));
    (void)file;
    CALL(control(EPOLL_CTL_ADD, plain, EPOLLIN));
    CALL(epoll_wait(set, &event, 0, 0));
    static volatile int minus_one = -1;
    CALL(epoll_wait(set, &event, minus_one, 0));
    CALL(epoll_wait(p->fd, &event, 1, 0));
    CALL(epoll_wait(150, &event, 1, 0));
    CALL(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLOUT));
    CALL(epoll_wait(set, bad, 1, 0));
    CALL(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLEXCLUSIVE));
    CALL(control(EPOLL_CTL_DEL, p->fd, 0));
    CALL(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT));
    CALL(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLEXCLUSIVE));
    CALL(control(EPOLL_CTL_MOD, p->fd, EPOLLIN));
    have(p, 's', 4);
    say_wait(-1);
    tell(p, 'q');
}

static void times(struct peer *p) {
    begin(p, EPOLLIN);
    struct epoll_event event;
    int64_t start = now_ms();
    CALL(epoll_wait(set, &event, 1, 0));
    say_elapsed(start, 0, LATE);
    start = now_ms();
    CALL(epoll_wait(set, &event, 1, 90));
    say_elapsed(start, 89, LATE);
    start = now_ms();
    CALL(epoll_pwait(set, &event, 1, 40, NULL));
    say_elapsed(start, 39, LATE);
    struct timespec t = {0, 2500000};
    start = now_ms();
    CALL(epoll_pwait2(set, &event, 1, &t, NULL));
    say_elapsed(start, 2, LATE);
    t = (struct timespec){0, 30000};
    CALL(epoll_pwait2(set, &event, 1, &t, NULL));
    start = now_ms();
    tell(p, 'l');
    CALL(epoll_wait(set, &event, 1, 20000));
    say_elapsed(start, 80, LATE);
    hear(p);
    recv_all(p->fd, buffer, 4);
    tell(p, 'l');
    CALL(epoll_pwait2(set, &event, 1, NULL, NULL));
    hear(p);
    tell(p, 'q');
}

static const struct scenario scenarios[] = {
    {"level_triggered_while_there_is_something", changes, level},
    {"level_triggered_room_to_write", changes, level_out},
    {"edge_triggered_once_for_each_arrival", changes, edge},
    {"edge_triggered_once_for_an_end", changes, edge_of_an_end},
    {"edge_triggered_once_for_an_end_behind_bytes", changes, edge_of_an_end_behind_bytes},
    {"edge_triggered_both_ways", changes, edge_both},
    {"edge_triggered_when_room_comes_back", changes, edge_room},
    {"level_triggered_when_room_comes_back", changes, level_room},
    {"one_shot_until_armed_again", changes, one_shot},
    {"one_shot_stays_silent_back_on_tcp", changes, one_shot_and_back},
    {"leaving_and_coming_back", changes, leaving},
    {"epoll_shows_half_close_and_hang_up", changes, hang_up},
    {"epoll_shows_a_reset", changes, reset},
    {"epoll_shows_a_reset_as_an_edge", changes, reset_edge},
    {"epoll_checks_its_arguments", changes, arguments},
    {"epoll_waits_as_long_as_asked", changes, times},
};
SCENARIO_MAIN(scenarios)
