// Many threads that wait for several descriptors, and whose waits are interrupted.
#include "common.h"

#include <setjmp.h>

enum { MANY = 20 };

static int pipe_of_nothing[2];

// Waits for the connection and for a pipe.
static int waits(int fd, int limit) {
    struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = pipe_of_nothing[0], .events = POLLIN}};
    return poll(both, 2, limit);
}

static void *waits_for_ever(void *argument) {
    struct peer *p = argument;
    waits(p->fd, -1);
    return NULL;
}

static int selects(int fd) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    FD_SET(pipe_of_nothing[0], &set);
    struct timeval limit = {0, 100000};
    return select(1 + (fd > pipe_of_nothing[0] ? fd : pipe_of_nothing[0]), &set, NULL, NULL, &limit);
}

static void answers(struct peer *p) {
    char byte;
    meet(p);
    send_all(p->fd, "x", 1);
    recv_all(p->fd, &byte, 1);
}

static void ends(struct peer *p) {
    char byte;
    meet(p);
    recv_all(p->fd, &byte, 1);
    send_all(p->fd, "y", 1);
}

static void cancels(struct peer *p) {
    MUST(pipe(pipe_of_nothing));
    int cancelled = 0;
    for (int i = 0; i < MANY; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, waits_for_ever, p);
        nap(10);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    say("%d cancelled", cancelled);
    say("poll %d, select %d", waits(p->fd, 100), selects(p->fd));
    ends(p);
}

static void waits_beside_others(struct peer *p) {
    MUST(pipe(pipe_of_nothing));
    pthread_t threads[MANY];
    for (int i = 0; i < MANY; i++)
        pthread_create(&threads[i], NULL, waits_for_ever, p);
    nap(100);
    say("poll %d, select %d", waits(p->fd, 100), selects(p->fd));
    MUST(write(pipe_of_nothing[1], "x", 1));
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    char byte;
    MUST(read(pipe_of_nothing[0], &byte, 1));
    ends(p);
}

static sigjmp_buf back;

static void jumps(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void leaves_by_jumps(struct peer *p) {
    MUST(pipe(pipe_of_nothing));
    signal(SIGALRM, jumps);
    volatile int left = 0;
    if (sigsetjmp(back, 1))
        left++;
    if (left < MANY) {
        ualarm(5000, 0);
        waits(p->fd, -1);
    }
    say("left %d times, poll %d, select %d", left, waits(p->fd, 100), selects(p->fd));
    ends(p);
}

static volatile int handled;

static void counts(int signal) {
    (void)signal;
    handled++;
}

// A ready descriptor comes before a signal that only the call's mask unblocks.
static void has_signals_pending(struct peer *p) {
    MUST(pipe(pipe_of_nothing));
    signal(SIGUSR1, counts);
    sigset_t usr1, none;
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &usr1, NULL));
    meet(p);
    await_bytes(p->fd, 1);
    int ready = 0;
    for (int i = 0; i < 10; i++) {
        struct pollfd both[2] = {{.fd = p->fd, .events = POLLIN}, {.fd = pipe_of_nothing[0], .events = POLLIN}};
        raise(SIGUSR1);
        ready += ppoll(both, 2, NULL, &none) == 1;
    }
    say("ready %d, handled %d", ready, handled);
    char byte;
    recv_all(p->fd, &byte, 1);
    struct pollfd both[2] = {{.fd = p->fd, .events = POLLIN}, {.fd = pipe_of_nothing[0], .events = POLLIN}};
    errno = 0;
    int n = ppoll(both, 2, NULL, &none);
    say("nothing ready: %d %s, handled %d", n, strerrorname_np(errno), handled);
    send_all(p->fd, "y", 1);
}

static const struct scenario scenarios[] = {
    {"waits_for_several_are_cancelled", cancels, answers},
    {"a_limited_wait_beside_many", waits_beside_others, answers},
    {"waits_for_several_are_left_by_jumps", leaves_by_jumps, answers},
    {"a_signal_that_only_a_mask_lets_in", has_signals_pending, answers},
};
SCENARIO_MAIN(scenarios)
