// Calls that wait for something other than a connection, after a fork. Meanwhile the peer falls back to TCP, and
// needs an answer. The child makes no call of libc until then, so that it cannot answer for its parent.
#include "common.h"

#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

enum { BEFORE = 100, AFTER = 112 };

static pid_t child;
static sigset_t signals;

static void by_wait(void) { MUST(wait(NULL)); }
static void by_waitpid(void) { MUST(waitpid(child, NULL, 0)); }
static void by_wait3(void) { MUST(wait3(NULL, 0, NULL)); }
static void by_wait4(void) { MUST(wait4(child, NULL, 0, NULL)); }
static void by_waitid(void) {
    siginfo_t found;
    MUST(waitid(P_PID, child, &found, WEXITED));
}
static void by_poll(void) { poll(NULL, 0, -1); }
static void by_select(void) { select(0, NULL, NULL, NULL, NULL); }
static void by_nanosleep(void) { nanosleep(&(struct timespec){.tv_sec = 10000}, NULL); }
static void by_clock_nanosleep(void) {
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 10000}, NULL);
}
static void by_usleep(void) { usleep(2000000000); }
static void by_sleep(void) { sleep(10000); }
static void by_pause(void) { pause(); }
static void by_sigsuspend(void) {
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
}
static void by_sigwait(void) {
    int found;
    if (sigwait(&signals, &found) != 0)
        die("sigwait");
}
static void by_sigwaitinfo(void) { MUST(sigwaitinfo(&signals, NULL)); }
static void by_sigtimedwait(void) {
    MUST(sigtimedwait(&signals, NULL, &(struct timespec){.tv_sec = 10000}));
}
static int pipes[2];
static void by_read(void) {
    char byte;
    if (read(pipes[0], &byte, 1) >= 0)
        die("a byte from nowhere");
}

static const struct way {
    const char *name;
    void (*wait)(void);
    bool for_child, blocked;
} ways[] = {
    {"wait", by_wait, true, false},
    {"waitpid", by_waitpid, true, false},
    {"wait3", by_wait3, true, false},
    {"wait4", by_wait4, true, false},
    {"waitid", by_waitid, true, false},
    {"poll", by_poll, false, false},
    {"select", by_select, false, false},
    {"read", by_read, false, false},
    {"nanosleep", by_nanosleep, false, false},
    {"clock_nanosleep", by_clock_nanosleep, false, false},
    {"usleep", by_usleep, false, false},
    {"sleep", by_sleep, false, false},
    {"pause", by_pause, false, false},
    {"sigsuspend", by_sigsuspend, false, false},
    {"sigwait", by_sigwait, false, true},
    {"sigwaitinfo", by_sigwaitinfo, false, true},
    {"sigtimedwait", by_sigtimedwait, false, true},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void caught(int signal) { (void)signal; }

// Ends its parent's wait once the peer has reported that it continues.
static void end_of_wait(struct peer *p, const struct way *way) {
    uint64_t value;
    struct timespec moment = {.tv_nsec = 10000000};
    call_inline(SYS_read, p->hear, (long)&value, sizeof value);
    while (!way->for_child) {
        call_inline(SYS_kill, call_inline(SYS_getppid, 0, 0, 0), SIGUSR1, 0);
        call_inline(SYS_nanosleep, (long)&moment, 0, 0);
    }
    call_inline(SYS_exit_group, 0, 0, 0);
}

static void waits(struct peer *p) {
    struct sigaction action = {.sa_handler = caught};
    sigset_t before;
    MUST(pipe(pipes));
    MUST(sigaction(SIGUSR1, &action, NULL));
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    p->listener = listen_on(p, AF_INET, "waits");
    for (int i = 0; i < WAYS; i++) {
        const struct way *way = &ways[i];
        int fd = accept_one(p->listener);
        warm_until_on_vi(fd, true);
        hear(p);
        if (way->blocked)
            MUST(sigprocmask(SIG_BLOCK, &signals, &before));
        child = MUST(fork());
        if (child == 0)
            end_of_wait(p, way);
        tell(p, 1);
        way->wait();
        if (!way->for_child) {
            MUST(kill(child, SIGKILL));
            MUST(waitpid(child, NULL, 0));
        }
        if (way->blocked) {
            // One more may be pending.
            while (sigtimedwait(&signals, NULL, &(struct timespec){0}) > 0)
                ;
            MUST(sigprocmask(SIG_SETMASK, &before, NULL));
        }
        recv_pattern(fd, 0, BEFORE + AFTER, 100);
        say("%s: the peer had its answer", way->name);
        MUST(close(fd));
    }
}

// Executes a program that inherits the connections, and does not load the library.
static pid_t execute(void) {
    char *const nothing[] = {NULL};
    pid_t program = vfork();
    if (program == 0) {
        execle("/bin/true", "true", NULL, nothing);
        _exit(1);
    }
    return program;
}

static void goes_back(struct peer *p) {
    for (int i = 0; i < WAYS; i++) {
        int fd = connect_to(p, AF_INET, "waits");
        warm_until_on_vi(fd, false);
        send_pattern(fd, 0, BEFORE, BEFORE);
        tell(p, 1);
        hear(p);
        reap("program", execute());
        send_pattern(fd, BEFORE, AFTER, AFTER);
        tell(p, 1);
        char last;
        if (recv(fd, &last, 1, 0) != 0)
            die("no end");
        MUST(close(fd));
    }
    say("went on %d times", WAYS);
}

static const struct scenario scenarios[] = {
    {"a_program_that_waits_after_a_fork_answers_its_peer", waits, goes_back, RAW},
};
SCENARIO_MAIN(scenarios)
