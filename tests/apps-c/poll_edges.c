// Edge cases of poll, select and their relatives: ends that no set reports, and lists of the greatest length. Numbers
// that are closed during the wait, and blocked signals.
#include "common.h"
#include <sys/resource.h>
#include <sys/select.h>

static char buffer[100];

// The server causes the client's events on request.
static void obeys(struct peer *p) {
    for (;;) {
        switch (hear(p)) {
        case 'h': MUST(shutdown(p->fd, SHUT_WR)); break;
        case 'l': nap(150); send_all(p->fd, "late", 4); break;
        case 'q': return;
        }
        tell(p, 0);
    }
}

// select continues to wait while none of its sets reports the ready descriptors: ends of a stream and of a pipe in
// the exception set.
static void say_sets(int count, fd_set sets[3], bool masked) {
    fd_set left[3] = {sets[0], sets[1], sets[2]};
    struct timeval wait = {.tv_usec = 60000};
    struct timespec same = {.tv_nsec = 60000000};
    int64_t since = now_ms();
    int ready = masked ? pselect(count, &left[0], &left[1], &left[2], &same, NULL)
                       : select(count, &left[0], &left[1], &left[2], &wait);
    say("%sselect = %d", masked ? "p" : "", ready);
    say_elapsed(since, ready ? 0 : 60, LATE);
}

static void sees_ends_nowhere(struct peer *p) {
    int pipes[2];
    MUST(pipe(pipes));
    MUST(close(pipes[1]));
    enum { IN, OUT, EXCEPT };
    fd_set sets[3] = {};
    FD_SET(p->fd, &sets[IN]);
    FD_SET(pipes[0], &sets[EXCEPT]);
    say_sets(200, sets, false);
    say_sets(200, sets, true);
    tell(p, 'h');
    hear(p);
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    MUST(shutdown(p->fd, SHUT_WR));
    await_events(p->fd, POLLIN, POLLHUP);
    FD_CLR(p->fd, &sets[IN]);
    FD_SET(p->fd, &sets[EXCEPT]);
    say_sets(200, sets, false);
    say_sets(200, sets, true);
    FD_SET(p->fd, &sets[IN]);
    say_sets(200, sets, false);
    FD_CLR(p->fd, &sets[IN]);
    FD_SET(p->fd, &sets[OUT]);
    say_sets(200, sets, true);
    tell(p, 'q');
}

// Lists with as many entries as RLIMIT_NOFILE allows are accepted, however the call waits.
static void polls_as_many_as_allowed(struct peer *p) {
    enum { MOST = 200 };
    static struct pollfd all[MOST];
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = MOST;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    for (int i = 0; i < MOST; i++)
        all[i] = (struct pollfd){.fd = i ? -i : p->fd, .events = POLLIN};
    CALL(poll(all, MOST, 0));
    CALL(poll(all, MOST, 60));
    tell(p, 'l');
    CALL(poll(all, MOST, -1));
    hear(p);
    tell(p, 'q');
}

// Each check uses the number's present file: none, once another thread has closed it.
struct closing {
    struct peer *peer;
    int number;
    bool with_bytes;
    volatile bool may_begin;
};

static void *closes_while_the_other_sleeps(void *argument) {
    struct closing *closing = argument;
    while (!closing->may_begin)
        sched_yield();
    await_rest();
    close(closing->number);
    if (closing->with_bytes)
        tell(closing->peer, 'l');
    return NULL;
}

static void waits_for_what_another_closes(struct peer *p, bool by_select) {
    for (int among = 1; among <= 2; among++) {
        for (int with_bytes = 0; with_bytes < 2; with_bytes++) {
            int pipes[2], number = MUST(dup(p->fd));
            MUST(pipe(pipes));
            pthread_t closer;
            struct closing closing = {.peer = p, .number = number, .with_bytes = with_bytes};
            pthread_create(&closer, NULL, closes_while_the_other_sleeps, &closing);
            struct pollfd both[] = {{.fd = number, .events = POLLIN}, {.fd = pipes[0], .events = POLLIN}};
            if (by_select) {
                fd_set in, out;
                struct timeval wait = {.tv_sec = with_bytes ? 20 : 1};
                FD_ZERO(&in);
                FD_ZERO(&out);
                FD_SET(number, &in);
                if (among == 2)
                    FD_SET(pipes[0], &in);
                closing.may_begin = true;
                CALL(select(200, &in, &out, NULL, &wait));
                say("%d", !!FD_ISSET(number, &in));
            } else {
                closing.may_begin = true;
                int ready = MUST(poll(both, among, with_bytes ? 20000 : 1000));
                say("%d, %s", ready, poll_names(both[0].revents));
            }
            pthread_join(closer, NULL);
            if (with_bytes) {
                recv_all(p->fd, buffer, 4);
                hear(p);
            }
            close(pipes[0]);
            close(pipes[1]);
        }
    }
    tell(p, 'q');
}

static void polls_what_another_closes(struct peer *p) { waits_for_what_another_closes(p, false); }

static void selects_what_another_closes(struct peer *p) { waits_for_what_another_closes(p, true); }

// The handler of a signal that the call's own mask blocks has run before the call, and does not interrupt
// it.
static volatile bool goes_on;
static volatile int storms;

static void on_storm(int signal) {
    (void)signal;
    storms++;
}

static void *raises_storm(void *thread) {
    while (goes_on) {
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        nap(0);
        sched_yield();
    }
    return NULL;
}

static void waits_in_a_storm(struct peer *p) {
    enum { WAITS = 400 };
    struct sigaction action = {.sa_handler = on_storm};
    sigset_t storm;
    sigemptyset(&storm);
    sigaddset(&storm, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    int pipes[2], set = MUST(epoll_create1(0));
    MUST(pipe(pipes));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    for (int kind = 0; kind < 5; kind++) {
        pthread_t self = pthread_self(), thread;
        goes_on = true;
        pthread_sigmask(SIG_BLOCK, &storm, NULL);
        pthread_create(&thread, NULL, raises_storm, &self);
        pthread_sigmask(SIG_UNBLOCK, &storm, NULL);
        int interrupted = 0, before = storms;
        for (int i = 0; i < WAITS || storms == before; i++) {
            struct timespec wait = {.tv_nsec = 200000};
            struct pollfd both[] = {{.fd = p->fd, .events = POLLIN}, {.fd = pipes[0], .events = POLLIN}};
            fd_set in;
            FD_ZERO(&in);
            FD_SET(p->fd, &in);
            FD_SET(pipes[0], &in);
            int result = kind == 0   ? ppoll(both, 1, &wait, &storm)
                         : kind == 1 ? ppoll(both, 2, &wait, &storm)
                         : kind == 2 ? pselect(200, &in, NULL, NULL, &wait, &storm)
                         : kind == 3 ? epoll_pwait(set, &event, 1, 1, &storm)
                                     : epoll_pwait2(set, &event, 1, &wait, &storm);
            if (result > 0)
                die("a stream with nothing unread is ready");
            interrupted += result < 0;
        }
        goes_on = false;
        pthread_join(thread, NULL);
        say("kind %d: interrupted %d", kind, interrupted);
    }
    tell(p, 'q');
}

static const struct scenario scenarios[] = {
    {"select_waits_for_what_its_sets_show", obeys, sees_ends_nowhere},
    {"poll_takes_as_many_as_there_may_be", obeys, polls_as_many_as_allowed},
    {"poll_of_what_another_thread_closes", obeys, polls_what_another_closes},
    {"select_of_what_another_thread_closes", obeys, selects_what_another_closes},
    {"a_masked_storm_interrupts_no_wait", obeys, waits_in_a_storm},
};
SCENARIO_MAIN(scenarios)
