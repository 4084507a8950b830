// Signal handlers that do not return, but leave by a C++ exception, with the thread, or by setcontext. The thread is
// then outside of any handler, as deep on its stack as it may go. Handlers of pthread_atfork run, and connections
// meet.
#include "common.h"
#include <setjmp.h>
#include <ucontext.h>

// left_thrown.cc
void throws(int signal);
bool is_thrown(void (*does)(void *), void *argument);

enum { DEEP = 200 << 10 };

static int before, in_parent, in_child;

static void on_before(void) { before++; }
static void on_parent(void) { in_parent++; }
static void on_child(void) { in_child++; }

static void forks(const char *how) {
    before = in_parent = in_child = 0;
    pid_t child = MUST(fork());
    if (child == 0)
        _exit(in_child);
    int status;
    MUST(waitpid(child, &status, 0));
    say("%s: a fork's handlers: %d before, %d in the parent", how, before, in_parent);
    say_status("child, with its handlers", status);
}

static void connects(struct peer *p) {
    tell(p, 1);
    int fd = connect_to(p, AF_INET, "port");
    warm_until_met(fd, false);
    close(fd);
}

// Deeper on the stack than any handler that the caller has left.
__attribute__((noinline)) static void is_outside(struct peer *p, const char *how) {
    volatile char room[DEEP];
    room[0] = 1;
    forks(how);
    connects(p);
    room[1] = room[0];
}

static void begins(void) {
    if (pthread_atfork(on_before, on_parent, on_child))
        die("pthread_atfork");
}

static void ends(struct peer *p) { tell(p, 0); }

static void serves(struct peer *p) {
    while (hear(p)) {
        int fd = accept_one(p->listener);
        warm_until_met(fd, true);
        close(fd);
    }
}

static void handles(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(signal, &action, NULL));
}

static void unblocks(int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

// --- exceptions

static void faults(void *nothing) {
    (void)nothing;
    *(volatile int *)NULL = 1;
}

static void raises(void *signal) { raise(*(int *)signal); }

static void throws_for(struct peer *p, const char *how, void (*does)(void *), int signal) {
    if (!is_thrown(does, &signal))
        die("%s: nothing was thrown", how);
    unblocks(signal);
    is_outside(p, how);
}

static void throws_at_a_fault(struct peer *p) {
    begins();
    handles(SIGSEGV, throws, 0);
    for (int i = 0; i < 3; i++)
        throws_for(p, "fault", faults, SIGSEGV);
    ends(p);
}

static void throws_on_an_alternate_stack(struct peer *p) {
    static char room[64 << 10];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room};
    begins();
    MUST(sigaltstack(&other, NULL));
    handles(SIGSEGV, throws, SA_ONSTACK);
    throws_for(p, "fault", faults, SIGSEGV);
    handles(SIGUSR1, throws, SA_ONSTACK);
    throws_for(p, "signal", raises, SIGUSR1);
    // The next handler runs on the thread's own stack.
    handles(SIGUSR1, throws, 0);
    throws_for(p, "after that", raises, SIGUSR1);
    ends(p);
}

static void raises_other(int signal) {
    (void)signal;
    raise(SIGUSR2);
    die("a handler returns that should have thrown");
}

static void catches_other(int signal) {
    (void)signal;
    int other = SIGUSR2;
    if (!is_thrown(raises, &other))
        die("nothing was thrown");
}

static void throws_out_of_two(struct peer *p) {
    static char room[64 << 10];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room};
    begins();
    MUST(sigaltstack(&other, NULL));
    for (int inner = 0; inner < 2; inner++) {
        for (int outer = 0; outer < 2; outer++) {
            handles(SIGUSR2, throws, inner ? SA_ONSTACK : 0);
            handles(SIGUSR1, raises_other, outer ? SA_ONSTACK : 0);
            throws_for(p, "both", raises, SIGUSR1);
            unblocks(SIGUSR2);
            handles(SIGUSR1, catches_other, outer ? SA_ONSTACK : 0);
            raise(SIGUSR1);
            unblocks(SIGUSR2);
            is_outside(p, "the inner one, the outer one returned");
        }
    }
    ends(p);
}

static void throws_with_flags(struct peer *p) {
    begins();
    handles(SIGUSR1, throws, SA_NODEFER);
    for (int i = 0; i < 3; i++)
        throws_for(p, "SA_NODEFER", raises, SIGUSR1);
    for (int i = 0; i < 3; i++) {
        handles(SIGUSR1, throws, SA_RESETHAND);
        throws_for(p, "SA_RESETHAND", raises, SIGUSR1);
        handles(SIGSEGV, throws, SA_RESETHAND | SA_NODEFER);
        throws_for(p, "both", faults, SIGSEGV);
    }
    ends(p);
}

// --- exceptions out of calls that wait

struct call {
    void (*waits)(struct peer *, int fd);
    struct peer *peer;
    int fd;
    pthread_t caller;
    volatile bool begun;
};

static void accepts(struct peer *p, int fd) {
    (void)p;
    accept(fd, NULL, NULL);
}

// Connects to a listener without room, which does not answer.
static void is_not_accepted(struct peer *p, int fd) {
    (void)fd;
    connect_to(p, AF_INET, "full");
}

static void reads(struct peer *p, int fd) {
    (void)fd;
    char byte;
    if (read(p->fd, &byte, 1) == 1)
        die("something to read");
}

static void waits(void *argument) {
    struct call *call = argument;
    call->begun = true;
    call->waits(call->peer, call->fd);
    die("the call returns");
}

static void *interrupts(void *argument) {
    struct call *call = argument;
    while (!call->begun)
        nap(1);
    nap(20);
    pthread_kill(call->caller, SIGUSR1);
    return NULL;
}

static void throws_out_of(struct peer *p, const char *name, void (*does)(struct peer *, int), int fd) {
    for (int i = 0; i < 3; i++) {
        struct call call = {.waits = does, .peer = p, .fd = fd, .caller = pthread_self()};
        pthread_t other;
        if (pthread_create(&other, NULL, interrupts, &call))
            die("no thread");
        bool thrown = is_thrown(waits, &call);
        pthread_join(other, NULL);
        if (!thrown)
            die("%s: nothing was thrown", name);
        unblocks(SIGUSR1);
        is_outside(p, name);
    }
}

static void throws_out_of_calls(struct peer *p) {
    begins();
    handles(SIGUSR1, throws, SA_RESTART);
    int listener = listen_on(p, AF_INET, "full");
    throws_out_of(p, "accept", accepts, listener);
    MUST(listen(listener, 0));
    int only = connect_to(p, AF_INET, "full");
    throws_out_of(p, "connect", is_not_accepted, listener);
    close(only);
    throws_out_of(p, "read", reads, listener);
    ends(p);
    say_alive(p->fd, false, "afterwards");
}

static void serves_and_is_alive(struct peer *p) {
    serves(p);
    say_alive(p->fd, true, "afterwards");
}

// --- threads that end in handlers

static pthread_key_t key;
static const char *end_of_thread;

static void exits(int signal) {
    (void)signal;
    pthread_exit(NULL);
}

static void is_cancelled(int signal) {
    (void)signal;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void raises_in_two(int signal) {
    (void)signal;
    raise(SIGUSR1);
}

static void is_destroyed(void *peer) { is_outside(peer, end_of_thread); }

static void *ends_by(void *signal) {
    raise(*(int *)signal);
    return NULL;
}

static void *ends_with_peer(void *peer) {
    int signal = strcmp(end_of_thread, "exits in two") ? SIGUSR1 : SIGUSR2;
    pthread_setspecific(key, peer);
    return ends_by(&signal);
}

static void threads_end(struct peer *p) {
    static const struct {
        const char *name;
        void (*handler)(int);
    } ways[] = {{"exits", exits}, {"is cancelled", is_cancelled}, {"exits in two", exits}};
    begins();
    pthread_key_create(&key, is_destroyed);
    handles(SIGUSR2, raises_in_two, 0);
    for (int i = 0; i < 3; i++) {
        end_of_thread = ways[i].name;
        handles(SIGUSR1, ways[i].handler, 0);
        pthread_t thread;
        if (pthread_create(&thread, NULL, ends_with_peer, p))
            die("no thread");
        pthread_join(thread, NULL);
    }
    ends(p);
}

// --- contexts

static ucontext_t back, coroutine;
static struct peer *peer;
static volatile int times;

static void sets_context(int signal) {
    (void)signal;
    setcontext(&back);
}

// Leaves through the context that the kernel has passed to the handler.
static void sets_its_own(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    setcontext(context);
}

static void contexts_are_set(struct peer *p) {
    begins();
    handles(SIGUSR1, sets_context, 0);
    times = 0;
    getcontext(&back);
    if (times++ < 3) {
        if (times > 1)
            is_outside(p, "set");
        raise(SIGUSR1);
    }
    struct sigaction own = {.sa_sigaction = sets_its_own, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGUSR1, &own, NULL));
    raise(SIGUSR1);
    is_outside(p, "set to what was interrupted");
    ends(p);
}

static void talks(void) {
    char byte = 'q';
    for (;;) {
        send_all(peer->fd, &byte, 1);
        recv_all(peer->fd, &byte, 1);
        say_text("in the other context", &byte, 1);
        swapcontext(&coroutine, &back);
    }
}

static void switches(int signal) {
    (void)signal;
    char byte = 'h';
    swapcontext(&back, &coroutine);
    send_all(peer->fd, &byte, 1);
    recv_all(peer->fd, &byte, 1);
    say_text("back in the handler", &byte, 1);
}

static void contexts_are_switched(struct peer *p) {
    static char room[256 << 10];
    begins();
    peer = p;
    getcontext(&coroutine);
    coroutine.uc_stack = (stack_t){.ss_sp = room, .ss_size = sizeof room};
    makecontext(&coroutine, talks, 0);
    handles(SIGUSR1, switches, 0);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        is_outside(p, "switched");
    }
    // Swaps contexts outside of any handler, too.
    swapcontext(&back, &coroutine);
    is_outside(p, "switched outside");
    // Closes one end of the connection, which the other end must see.
    MUST(shutdown(p->fd, SHUT_WR));
    ends(p);
}

static void *echoes(void *argument) {
    struct peer *p = argument;
    char byte;
    while (recv(p->fd, &byte, 1, 0) == 1) {
        byte++;
        send_all(p->fd, &byte, 1);
    }
    return NULL;
}

static void serves_and_echoes(struct peer *p) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, echoes, p))
        die("no thread");
    serves(p);
    pthread_join(thread, NULL);
}

static const struct scenario scenarios[] = {
    {"an_exception_at_a_fault", serves, throws_at_a_fault},
    {"an_exception_on_an_alternate_stack", serves, throws_on_an_alternate_stack},
    {"an_exception_out_of_two_handlers", serves, throws_out_of_two},
    {"an_exception_where_handlers_are_reset_or_not_deferred", serves, throws_with_flags},
    {"an_exception_out_of_a_call", serves_and_is_alive, throws_out_of_calls},
    {"the_end_of_the_thread", serves, threads_end},
    {"a_context_that_is_set", serves, contexts_are_set},
    {"a_context_that_comes_back", serves_and_echoes, contexts_are_switched},
};
SCENARIO_MAIN(scenarios)
