// Signal handlers that are left by unwinding, because the thread ends in them.
#include "common.h"

enum { MANY = 20 };

static int pipe_of_nothing[2];
static volatile int cleaned;

static void exits(int signal) {
    (void)signal;
    pthread_exit("exited");
}

// Acts on a cancellation that was requested before.
static void is_cancelled(int signal) {
    (void)signal;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void cleans(void *nothing) {
    (void)nothing;
    cleaned++;
}

static void polls(int fd) {
    struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = pipe_of_nothing[0], .events = POLLIN}};
    poll(both, 2, -1);
}

static void receives(int fd) {
    char byte;
    if (recv(fd, &byte, 1, 0) == 1)
        die("something to receive");
}

static void computes(int fd) {
    for (volatile int forever = fd; forever >= 0;)
        ;
}

struct thread {
    pthread_t id;
    void (*does)(int fd);
    int fd;
    volatile pid_t begun;
};

static void *runs(void *argument) {
    struct thread *thread = argument;
    pthread_cleanup_push(cleans, NULL);
    thread->begun = gettid();
    thread->does(thread->fd);
    pthread_cleanup_pop(0);
    return "went on";
}

static const char *result_of(void *result) { return result == PTHREAD_CANCELED ? "cancelled" : result; }

// Signals end threads in calls, one after the other; checks the state that each leaves.
static void are_ended(struct peer *p, const char *call, void (*does)(int), void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    cleaned = 0;
    const char *last = "nothing";
    for (int i = 0; i < MANY; i++) {
        struct thread thread = {.does = does, .fd = p->fd};
        pthread_create(&thread.id, NULL, runs, &thread);
        while (!thread.begun)
            nap(1);
        nap(5);
        pthread_kill(thread.id, SIGUSR1);
        void *result;
        pthread_join(thread.id, &result);
        last = result_of(result);
    }
    say("%s: %d cleaned, the last one %s", call, cleaned, last);
}

static void ends_threads(struct peer *p) {
    MUST(pipe(pipe_of_nothing));
    void (*handlers[])(int) = {exits, is_cancelled};
    for (int i = 0; i < 2; i++) {
        are_ended(p, "polls", polls, handlers[i]);
        are_ended(p, "receives", receives, handlers[i]);
        are_ended(p, "computes", computes, handlers[i]);
    }
    // The connection is unchanged.
    char byte;
    tell(p, 1);
    recv_all(p->fd, &byte, 1);
    send_all(p->fd, "y", 1);
    say_text("received", &byte, 1);
}

static void answers(struct peer *p) {
    char byte;
    hear(p);
    send_all(p->fd, "x", 1);
    recv_all(p->fd, &byte, 1);
    say_text("received", &byte, 1);
}

static const struct scenario scenarios[] = {
    {"threads_end_in_their_handlers", ends_threads, answers},
};
SCENARIO_MAIN(scenarios)
