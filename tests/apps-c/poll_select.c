// poll, ppoll, select and pselect on a stream, alone and among other descriptors.
#include "common.h"
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static char buffer[70000];

enum { ALL = POLLIN | POLLPRI | POLLOUT | POLLRDHUP };

static void say_poll(int fd, short events, int timeout) {
    struct pollfd one = {.fd = fd, .events = events};
    int ready = poll(&one, 1, timeout);
    say("poll = %d, %s", ready, poll_names(one.revents));
}

// The server changes the client's events on request.
static void changes(struct peer *p) {
    for (;;) {
        switch (hear(p)) {
        case 's': send_all(p->fd, "some", 4); break;
        case 'h': MUST(shutdown(p->fd, SHUT_WR)); break;
        case 'r': {
            struct linger none = {.l_onoff = 1};
            MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
            close(p->fd);
            break;
        }
        case 'l': nap(150); send_all(p->fd, "late", 4); break;
        case 'q': return;
        }
        tell(p, 0);
    }
}

static void have(struct peer *p, int what) {
    tell(p, what);
    hear(p);
}

static void masks(struct peer *p) {
    say_poll(p->fd, ALL, 0);
    say_poll(p->fd, POLLIN, 0);
    say_poll(p->fd, 0, 0);
    say_poll(p->fd, POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND, 0);
    have(p, 's');
    await_bytes(p->fd, 4);
    say_poll(p->fd, ALL, -1);
    say_poll(p->fd, POLLIN, -1);
    say_poll(p->fd, POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND, -1);
    say_poll(p->fd, POLLRDHUP, 0);
    say_poll(p->fd, 0, 0);
    recv_all(p->fd, buffer, 2);
    say_poll(p->fd, POLLIN, 0);
    recv_all(p->fd, buffer, 2);
    say_poll(p->fd, POLLIN, 0);
    have(p, 's');
    have(p, 'h');
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    say_poll(p->fd, ALL, 0);
    recv_all(p->fd, buffer, 4);
    say_poll(p->fd, ALL, 0);
    say_poll(p->fd, POLLIN, 0);
    say_poll(p->fd, 0, 0);
    MUST(shutdown(p->fd, SHUT_WR));
    await_events(p->fd, 0, POLLHUP);
    say_poll(p->fd, ALL, 0);
    say_poll(p->fd, 0, 0);
    tell(p, 'q');
}

static void masks_after_reset(struct peer *p) {
    have(p, 'r');
    await_events(p->fd, 0, POLLHUP);
    say_poll(p->fd, ALL, 0);
    say_poll(p->fd, 0, 0);
    CALL(recv(p->fd, buffer, 1, 0));
    say_poll(p->fd, ALL, 0);
    tell(p, 'q');
}

static void masks_after_own_shutdown(struct peer *p) {
    MUST(shutdown(p->fd, SHUT_RD));
    say_poll(p->fd, ALL, 0);
    MUST(shutdown(p->fd, SHUT_WR));
    tell(p, 'h');
    hear(p);
    await_events(p->fd, 0, POLLHUP);
    say_poll(p->fd, ALL, 0);
    close(p->fd);
    say_poll(p->fd, ALL, 0);
    tell(p, 'q');
}

static void poll_times(struct peer *p) {
    int64_t start = now_ms();
    say_poll(p->fd, POLLIN, 0);
    say_elapsed(start, 0, LATE);
    start = now_ms();
    say_poll(p->fd, POLLIN, 120);
    say_elapsed(start, 119, LATE);
    struct timespec t = {0, 80 * 1000000};
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    start = now_ms();
    CALL(ppoll(&one, 1, &t, NULL));
    say_elapsed(start, 79, LATE);
    say("timeout left as it was: %d", t.tv_nsec == 80 * 1000000);
    t = (struct timespec){0, 300000};
    start = now_ms();
    CALL(ppoll(&one, 1, &t, NULL));
    say_elapsed(start, 0, LATE);
    // Waits for a later event, with a timeout and without. The event may come before a busy machine
    // resumes this process, so the time is counted from before the request.
    start = now_ms();
    tell(p, 'l');
    say_poll(p->fd, POLLIN, 20000);
    say_elapsed(start, 100, LATE);
    hear(p);
    recv_all(p->fd, buffer, 4);
    start = now_ms();
    tell(p, 'l');
    say_poll(p->fd, POLLIN, -1);
    say_elapsed(start, 100, LATE);
    hear(p);
    recv_all(p->fd, buffer, 4);
    tell(p, 'l');
    CALL(ppoll(&one, 1, NULL, NULL));
    hear(p);
    tell(p, 'q');
}

static void poll_arguments(struct peer *p) {
    CALL(poll(NULL, 0, 0));
    struct pollfd some[4] = {{p->fd, POLLIN | POLLOUT, 0}, {-1, POLLIN, 77}, {p->fd, POLLOUT, 0}, {150, POLLIN, 0}};
    CALL(poll(some, 4, -1));
    for (int i = 0; i < 4; i++)
        say("  %s", poll_names(some[i].revents));
    struct timespec wrong = {0, -1};
    CALL(ppoll(some, 1, &wrong, NULL));
    wrong = (struct timespec){-1, 0};
    CALL(ppoll(some, 1, &wrong, NULL));
    struct pollfd *volatile bad = (void *)8;
    CALL(poll(bad, 1, 0));
    static volatile nfds_t too_many = 1 << 30;
    CALL(poll(some, too_many, 0));
    tell(p, 'q');
}

static void say_select(int fd, struct timeval *timeout) {
    fd_set in, out, except;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&except);
    FD_SET(fd, &in);
    FD_SET(fd, &out);
    FD_SET(fd, &except);
    int ready = select(fd + 1, &in, &out, &except, timeout);
    say("select = %d:%s%s%s", ready, FD_ISSET(fd, &in) ? " in" : "", FD_ISSET(fd, &out) ? " out" : "",
        FD_ISSET(fd, &except) ? " except" : "");
}

static void selects(struct peer *p) {
    struct timeval none = {0, 0};
    say_select(p->fd, &none);
    have(p, 's');
    await_bytes(p->fd, 4);
    say_select(p->fd, NULL);
    recv_all(p->fd, buffer, 4);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(p->fd, &in);
    struct timeval t = {0, 150000};
    int64_t start = now_ms();
    CALL(select(p->fd + 1, &in, NULL, NULL, &t));
    say_elapsed(start, 149, LATE);
    say("time left %ld.%06ld, set %d", (long)t.tv_sec, (long)t.tv_usec, FD_ISSET(p->fd, &in));
    FD_SET(p->fd, &in);
    t = (struct timeval){20, 0};
    tell(p, 'l');
    CALL(select(p->fd + 1, &in, NULL, NULL, &t));
    say("time left: %s", t.tv_sec < 20 && t.tv_sec > 10 ? "less" : "WRONG");
    hear(p);
    struct timespec still = {5, 0};
    CALL(pselect(p->fd + 1, &in, NULL, NULL, &still, NULL));
    say("time left %ld", (long)still.tv_sec);
    recv_all(p->fd, buffer, 4);
    // A high descriptor, and one that is closed
    int high = MUST(fcntl(p->fd, F_DUPFD, 900));
    say_select(high, &none);
    have(p, 's');
    await_bytes(high, 4);
    say_select(high, &none);
    close(high);
    FD_ZERO(&in);
    FD_SET(high, &in);
    CALL(select(high + 1, &in, NULL, NULL, &none));
    FD_ZERO(&in);
    CALL(select(-1, &in, NULL, NULL, &none));
    CALL(select(0, NULL, NULL, NULL, &none));
    have(p, 'h');
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    say_select(p->fd, NULL);
    tell(p, 'q');
}

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

// A mask that unblocks a signal only during the wait
static void masked(struct peer *p) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigset_t blocked, during;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, &during);
    sigdelset(&during, SIGALRM);
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    raise(SIGALRM);
    say("alarms %d", (int)alarms);
    CALL(ppoll(&one, 1, NULL, &during));
    say("alarms %d", (int)alarms);
    raise(SIGALRM);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(p->fd, &in);
    CALL(pselect(p->fd + 1, &in, NULL, NULL, NULL, &during));
    say("alarms %d", (int)alarms);
    alarm(1);
    CALL(ppoll(&one, 1, NULL, &during));
    say("alarms %d", (int)alarms);
    tell(p, 'q');
}

// All kinds of descriptors in one call; each becomes ready in turn
static void mixed(struct peer *p) {
    int pipes[2], event = MUST(eventfd(0, 0)), timer = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    MUST(pipe(pipes));
    int listener = listen_on(p, AF_INET, "other");
    struct pollfd all[6] = {{p->fd, POLLIN, 0},  {pipes[0], POLLIN, 0}, {event, POLLIN, 0},
                            {timer, POLLIN, 0}, {listener, POLLIN, 0}, {pipes[1], POLLOUT, 0}};
    uint64_t one = 1;
    for (int step = 0; step < 6; step++) {
        if (step == 1)
            MUST(write(pipes[1], "x", 1));
        if (step == 2)
            MUST(write(event, &one, 8));
        if (step == 3)
            timerfd_settime(timer, 0, &(struct itimerspec){.it_value = {0, 50000000}}, NULL);
        if (step == 4)
            connect_to(p, AF_INET, "other");
        if (step == 5)
            tell(p, 'l');
        // Take all ready data, so that each wait is for the next event alone.
        CALL(poll(all, step ? 5 : 6, step ? -1 : 0));
        for (int i = 0; i < 6; i++)
            if (all[i].revents)
                say("  %d: %s", i, poll_names(all[i].revents));
        uint64_t count;
        if (step && step < 4)
            MUST(read(all[step].fd, &count, step == 1 ? 1 : 8));
        if (step == 4)
            close(accept_one(listener));
        all[5].fd = -1;
    }
    hear(p);
    tell(p, 'q');
}

// Thirty streams; some of them are ready
static void many(struct peer *p) {
    struct pollfd all[30];
    int listener = p->server ? listen_on(p, AF_INET, "many") : -1;
    for (int i = 0; i < 30; i++) {
        int fd = p->server ? accept_one(listener) : connect_to(p, AF_INET, "many");
        warm(fd, p->server);
        all[i] = (struct pollfd){fd, POLLIN, 0};
    }
    meet(p);
    for (int round = 0; round < 5; round++) {
        if (p->server) {
            for (int i = round; i < 30; i += 7)
                send_all(all[i].fd, "x", 1);
            meet(p);
        } else {
            meet(p);
            for (int i = round; i < 30; i += 7)
                await_bytes(all[i].fd, 1);
            CALL(poll(all, 30, -1));
            for (int i = 0; i < 30; i++) {
                if (all[i].revents) {
                    say("  %d: %s", i, poll_names(all[i].revents));
                    recv_all(all[i].fd, buffer, 1);
                }
            }
            CALL(poll(all, 30, 0));
        }
        meet(p);
    }
}

// One of three connections falls back to TCP, and poll reports all three nevertheless.
#define GOERS 8

static void takes_them_back(struct peer *p) {
    for (int i = 0; i < GOERS; i++) {
        int fd = connect_to(p, AF_INET, "goers");
        warm(fd, false);
        meet(p);
        int set = MUST(epoll_create1(0));
        pid_t child = MUST(fork());
        if (child == 0) {
            // The kernel alone serves an instance that several processes have.
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}));
            nap(5);
            MUST(epoll_wait(set, &(struct epoll_event){0}, 1, 0));
            meet(p);
            meet(p);
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
        MUST(close(set));
        MUST(close(fd));
    }
}

static void polls_among_them(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "goers");
    for (int i = 0; i < GOERS; i++) {
        int fd = accept_one(p->listener);
        warm(fd, true);
        int again = MUST(dup(fd));
        send_all(fd, "unread", 6);
        meet(p);
        meet(p);
        struct pollfd all[] = {
            {.fd = p->fd, .events = POLLOUT}, {.fd = fd, .events = POLLOUT}, {.fd = again, .events = POLLOUT}};
        int ready = MUST(poll(all, 3, 0));
        for (int k = 0; k < 3; k++)
            say("%d of %d %s", k, ready, poll_names(all[k].revents));
        meet(p);
        MUST(close(again));
        MUST(close(fd));
    }
}

// A call that reports a byte also reports descriptors that became ready before it. No report of an earlier call
// remains.
enum { TELLINGS = 20000, LEFT = 0x7700 };

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void tells_and_sends(struct peer *p) {
    char byte;
    unsigned long random = 1;
    for (int i = 0; i < TELLINGS; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        int64_t until = now_us() + (random >> 33) % (i % 64 ? 4 : 100);
        while (now_us() < until)
            ;
        if (i % 4 == 0)
            tell(p, i);
        send_all(p->fd, i % 4 ? "b" : "t", 1);
        recv_all(p->fd, &byte, 1);
    }
}

static bool select_reports_a_byte(struct peer *p, bool *told) {
    fd_set in;
    FD_ZERO(&in);
    FD_SET(p->fd, &in);
    FD_SET(p->hear, &in);
    int ready = MUST(select((p->fd > p->hear ? p->fd : p->hear) + 1, &in, NULL, NULL, NULL));
    *told = FD_ISSET(p->hear, &in);
    bool byte = FD_ISSET(p->fd, &in);
    if (ready != byte + *told)
        die("%d are ready, and %d shown", ready, byte + *told);
    return byte;
}

static bool poll_reports_a_byte(struct peer *p, bool *told) {
    struct pollfd both[2] = {{p->fd, POLLIN, LEFT}, {p->hear, POLLIN, LEFT}};
    int ready = MUST(poll(both, 2, -1));
    if (both[0].revents == LEFT || both[1].revents == LEFT)
        die("a descriptor's events are those from before");
    *told = both[1].revents != 0;
    if (ready != (both[0].revents != 0) + *told)
        die("%d are ready, and %x and %x shown", ready, both[0].revents, both[1].revents);
    return both[0].revents != 0;
}

static void counts_what_is_missed(struct peer *p, bool (*reports)(struct peer *, bool *)) {
    int missed = 0;
    for (int i = 0; i < TELLINGS;) {
        bool told;
        char byte;
        if (!reports(p, &told))
            continue;
        recv_all(p->fd, &byte, 1);
        if (byte == 't') {
            missed += !told;
            hear(p);
        }
        send_all(p->fd, &byte, 1);
        i++;
    }
    say("%d missed", missed);
}

static void polls_both(struct peer *p) { counts_what_is_missed(p, poll_reports_a_byte); }

static void selects_both(struct peer *p) { counts_what_is_missed(p, select_reports_a_byte); }

static const struct scenario scenarios[] = {
    {"poll_reports_what_was_ready_before", tells_and_sends, polls_both},
    {"select_reports_what_was_ready_before", tells_and_sends, selects_both},
    {"poll_shows_each_state", changes, masks},
    {"poll_shows_a_reset", changes, masks_after_reset},
    {"poll_shows_ones_own_shutdown", changes, masks_after_own_shutdown},
    {"poll_waits_as_long_as_asked", changes, poll_times},
    {"poll_checks_its_arguments", changes, poll_arguments},
    {"select_shows_each_state", changes, selects},
    {"ppoll_lets_signals_in_while_waiting", changes, masked},
    {"poll_mixes_kinds_of_descriptors", changes, mixed},
    {"poll_over_thirty_streams", many, many},
    {"poll_tells_of_all_while_one_goes_back", polls_among_them, takes_them_back},
};
SCENARIO_MAIN(scenarios)
