// Threads that leave before their process does.
#include "common.h"
#include <sys/syscall.h>

static char buffer[70000];

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

// The process ends with its last thread, and its connection with it.
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

// Without a second thread the process ends at once.
static void the_only_thread_leaves(struct peer *p) {
    converse(p->fd, 20, 'a');
    fflush(stdout);
    syscall(SYS_exit, 0);
}

// No connection is left, and the library's thread may still be there.
static void leaves_after_its_connection(struct peer *p) {
    converse(p->fd, 20, 'a');
    close(p->fd);
    fflush(stdout);
    syscall(SYS_exit, 0);
}

// The library's thread ends when there is nothing to watch, and is there again when there is.
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

static const struct scenario scenarios[] = {
    {"the_first_thread_leaves_by_a_system_call", answers, main_leaves_by_a_system_call},
    {"the_first_thread_leaves_by_pthread_exit", answers, main_leaves_by_pthread_exit},
    {"the_first_thread_leaves_inline", answers, main_leaves_inline},
    {"the_only_thread_leaves", answers, the_only_thread_leaves},
    {"the_only_thread_leaves_after_its_connection", answers, leaves_after_its_connection},
    {"connections_now_and_then", serves_again, comes_back},
};
SCENARIO_MAIN(scenarios)
