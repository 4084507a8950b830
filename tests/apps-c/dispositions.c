// Dispositions of signals that threads and handlers change and query at once. The stream carries only signs of life.
#include "common.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

enum { ROUNDS = 3000 };

static atomic_int handled, stopped;
static sigjmp_buf fault;

static void count(int signal) {
    (void)signal;
    handled++;
}

static void set(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(signal, &action, NULL));
}

static void (*now(int signal))(int) {
    struct sigaction action;
    MUST(sigaction(signal, NULL, &action));
    return action.sa_handler;
}

static void *changes(void *unused) {
    (void)unused;
    while (!stopped)
        set(SIGUSR1, count, 0);
    return NULL;
}

static void asks(int signal) {
    (void)signal;
    if (now(SIGUSR2) != SIG_DFL)
        die("another disposition");
    handled++;
}

// A signal that the kernel raises for an instruction may also be sent, during a change.
static void a_sent_fault_interrupts_a_change(struct peer *p) {
    pthread_t thread;
    set(SIGFPE, asks, 0);
    pthread_create(&thread, NULL, changes, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        int before = handled;
        pthread_kill(thread, SIGFPE);
        while (handled == before)
            sched_yield();
    }
    stopped = 1;
    pthread_join(thread, NULL);
    say("%d times", handled);
    say_alive(p->fd, p->server, "afterwards");
}

static void leaps(int signal) {
    (void)signal;
    siglongjmp(fault, 1);
}

static void a_bad_disposition(struct peer *p) {
    // Hidden from the compiler's optimizer.
    struct sigaction *volatile nowhere = (void *)16;
    set(SIGSEGV, leaps, 0);
    if (sigsetjmp(fault, 1) == 0)
        say("returned %d", sigaction(SIGUSR1, nowhere, NULL));
    else
        say("%s", "fault in a new one");
    if (sigsetjmp(fault, 1) == 0)
        say("returned %d", sigaction(SIGUSR1, NULL, nowhere));
    else
        say("%s", "fault in an old one");
    set(SIGSEGV, SIG_DFL, 0);
    set(SIGUSR2, count, 0);
    raise(SIGUSR2);
    say("handled %d", handled);
    say_alive(p->fd, p->server, "afterwards");
}

static void *waits(void *unused) {
    (void)unused;
    while (!stopped)
        sched_yield();
    return NULL;
}

static void other(int signal) { (void)signal; }

// A handler set while a one-shot handler is being called stays set.
static void set_while_one_is_called_once(struct peer *p) {
    pthread_t thread;
    int lost = 0;
    pthread_create(&thread, NULL, waits, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        int before = handled;
        set(SIGUSR1, count, SA_RESETHAND);
        pthread_kill(thread, SIGUSR1);
        // The kernel has begun to deliver the first signal.
        while (now(SIGUSR1) == count && handled == before)
            sched_yield();
        set(SIGUSR1, other, 0);
        while (handled == before)
            sched_yield();
        lost += now(SIGUSR1) != other;
    }
    stopped = 1;
    pthread_join(thread, NULL);
    say("%d handled, %d lost", handled, lost);
    say_alive(p->fd, p->server, "afterwards");
}

static void lives(struct peer *p) { say_alive(p->fd, p->server, "afterwards"); }

static const struct scenario scenarios[] = {
    {"a_sent_fault_interrupts_a_change", lives, a_sent_fault_interrupts_a_change},
    {"a_bad_disposition", lives, a_bad_disposition},
    {"one_is_set_while_another_is_called_once", lives, set_while_one_is_called_once},
};
SCENARIO_MAIN(scenarios)
