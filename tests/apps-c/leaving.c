// Threads that end before their process does.
#include "common.h"
#include <sys/syscall.h>

static char buffer[70000];

static void serves_one(struct peer *p);

static void converse(int fd, int count, char tag) {
    for (int i = 0; i < count; i++) {
        char out[100], in[100];
        memset(out, tag + i % 20, sizeof out);
        send_all(fd, out, sizeof out);
        recv_all(fd, in, sizeof in);
        if (memcmp(in, out, sizeof in))
            die("answer %d is another's", i);
    }
}

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

static void *goes_on(void *argument) {
    struct peer *p = argument;
    nap(100);
    converse(p->fd, 200, 'a');
    say("the second thread is done");
    fflush(stdout);
    return NULL;
}

static void second_thread(struct peer *p) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, goes_on, p))
        die("no thread");
}

// The process ends with its last thread, and so does its connection.
static void main_leaves_by_a_system_call(struct peer *p) {
    second_thread(p);
    syscall(SYS_exit, 0);
}

static void main_leaves_by_pthread_exit(struct peer *p) {
    second_thread(p);
    pthread_exit(NULL);
}

static void inline_exit(void) {
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"((long)SYS_exit), "D"(0L) : "rcx", "r11", "memory");
#else
    syscall(SYS_exit, 0);
#endif
}

static void main_leaves_inline(struct peer *p) {
    second_thread(p);
    inline_exit();
}

// /proc shows a process by its first thread, which has ended when these ends meet.
static void *connects_then(void *argument) {
    struct peer *p = argument;
    nap(100);
    p->fd = connect_to(p, AF_INET, "port");
    warm(p->fd, false);
    converse(p->fd, 200, 'a');
    say("the second thread is done");
    fflush(stdout);
    return NULL;
}

static void *serves_then(void *argument) {
    nap(100);
    serves_one(argument);
    fflush(stdout);
    return NULL;
}

static void leaves_to(void *(*second)(void *), struct peer *p) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, second, p))
        die("no thread");
    pthread_exit(NULL);
}

static void main_leaves_and_a_thread_connects(struct peer *p) { leaves_to(connects_then, p); }

static void main_leaves_and_a_thread_serves(struct peer *p) { leaves_to(serves_then, p); }

static void connects_and_converses(struct peer *p) {
    p->fd = connect_to(p, AF_INET, "port");
    warm(p->fd, false);
    converse(p->fd, 200, 'a');
    say("done");
}

// Without a second thread the process ends at once.
static void the_only_thread_leaves(struct peer *p) {
    converse(p->fd, 20, 'a');
    fflush(stdout);
    syscall(SYS_exit, 0);
}

// The exit status is not defined: SIGTERM may find no process any more.
static bool ends_within(pid_t child, int milliseconds, int *status) {
    for (int64_t start = now_ms(); now_ms() - start < milliseconds; nap(5))
        if (MUST(waitpid(child, status, WNOHANG)) == child)
            return true;
    return false;
}

static void childs_only_thread_leaves(struct peer *p) {
    int port = port_of(p, "port"), status;
    say("%s", port > 0 ? "a port" : "NO port");
    fflush(NULL);
    pid_t child = MUST(fork());
    if (child == 0) {
        p->fd = connect_to(p, AF_INET, "port");
        warm(p->fd, false);
        converse(p->fd, 20, 'a');
        syscall(SYS_exit, 0);
    }
    if (ends_within(child, 60000, &status)) {
        say_status("child", status);
        return;
    }
    kill(child, SIGTERM);
    say("does not end by itself, and %s",
        ends_within(child, 1000, &status) ? "does by SIGTERM" : "ignores SIGTERM");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

static void serves_one(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "port");
    p->fd = accept_one(p->listener);
    warm(p->fd, true);
    answers(p);
}

// No connection is left, and the library's thread may still run.
static void leaves_after_its_connection(struct peer *p) {
    converse(p->fd, 20, 'a');
    close(p->fd);
    fflush(stdout);
    syscall(SYS_exit, 0);
}

// The library's thread ends when there is nothing to watch, and is restarted when there is.
static void comes_back(struct peer *p) {
    for (int i = 0; i < 3; i++) {
        int fd = connect_to(p, AF_INET, "again");
        warm(fd, false);
        converse(fd, 20, 'a');
        close(fd);
        nap(1500);
    }
    converse(p->fd, 20, 'z');
    close(p->fd);
}

static void serves_again(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "again");
    for (int i = 0; i < 3; i++) {
        int fd = accept_one(p->listener);
        warm(fd, true);
        ssize_t got;
        while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0)
            send_all(fd, buffer, got);
        say("%zd", got);
        close(fd);
    }
    answers(p);
}

// One thread makes the kernel take over a connection while another thread closes it. The next
// connection gets the same slot, and must not be affected.
enum { ROUNDS = 150 };
static pthread_barrier_t both;
static volatile int handed_over;

static void *hands_over(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&both);
        int two = 2;
        setsockopt(handed_over, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof two);
        pthread_barrier_wait(&both);
    }
    return argument;
}

static void closes_what_is_handed_over(struct peer *p) {
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    MUST(-pthread_create(&thread, NULL, hands_over, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        int fd = handed_over = connect_to(p, AF_INET, "again");
        warm(fd, false);
        pthread_barrier_wait(&both);
        for (volatile int n = 0; n < i * 200; n++)
            ;
        close(fd);
        int next = connect_to(p, AF_INET, "again");
        warm(next, false);
        converse(next, 5, 'a' + i % 5);
        pthread_barrier_wait(&both);
        converse(next, 5, 'a' + i % 5);
        int two = 2;
        MUST(setsockopt(next, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof two));
        converse(next, 5, 'a' + i % 5);
        close(next);
    }
    pthread_join(thread, NULL);
    say("%d rounds", ROUNDS);
}

static void serves_all(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "again");
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int fd = accept_one(p->listener);
        warm(fd, true);
        ssize_t got;
        while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0)
            send_all(fd, buffer, got);
        close(fd);
    }
    say("%d connections", 2 * ROUNDS);
}

static const struct scenario scenarios[] = {
    {"the_first_thread_leaves_and_another_connects", serves_one, main_leaves_and_a_thread_connects, RAW},
    {"the_first_thread_leaves_and_another_serves", main_leaves_and_a_thread_serves, connects_and_converses, RAW},
    {"the_first_threads_of_both_leave", main_leaves_and_a_thread_serves, main_leaves_and_a_thread_connects, RAW},
    {"the_first_thread_leaves_by_a_system_call", answers, main_leaves_by_a_system_call},
    {"the_first_thread_leaves_by_pthread_exit", answers, main_leaves_by_pthread_exit},
    {"the_first_thread_leaves_inline", answers, main_leaves_inline},
    {"the_only_thread_leaves", answers, the_only_thread_leaves},
    {"a_childs_only_thread_leaves", serves_one, childs_only_thread_leaves, RAW},
    {"the_only_thread_leaves_after_its_connection", answers, leaves_after_its_connection},
    {"a_close_while_the_kernel_takes_over", serves_all, closes_what_is_handed_over, RAW},
    {"connections_now_and_then", serves_again, comes_back},
};
SCENARIO_MAIN(scenarios)
