// One thread waits while another one changes the entries.
#include "common.h"
#include <sys/eventfd.h>

static char buffer[70000];
static int set;

static void feeds(struct peer *p) {
    for (;;) {
        switch (hear(p)) {
        case 's': send_all(p->fd, "some", 4); break;
        case 'l': nap(120); send_all(p->fd, "late", 4); break;
        case 'h': MUST(shutdown(p->fd, SHUT_WR)); break;
        case 'q': return;
        }
        tell(p, 0);
    }
}

// Sends bytes, and reports the end of the stream.
static void feeds_to_the_end(struct peer *p) {
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    feeds(p);
    say("before: %s", poll(&one, 1, 100) ? "ENDED" : "open");
    tell(p, 0);
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
}

static void have(struct peer *p, int what) {
    tell(p, what);
    hear(p);
}

static int control(int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u32 = 5};
    return epoll_ctl(set, operation, fd, &event);
}

struct waiter {
    pthread_t thread;
    int set, timeout, count;
    struct epoll_event event;
    _Atomic pid_t id; // thread that will block
};

// Waits until the thread has begun and sleeps, however busy the machine is.
static void await_asleep(struct waiter *w) {
    int asleep = 0;
    for (int tries = 0; tries < 5000 && asleep < 5; tries++) {
        char path[64], text[200], state = 0;
        nap(2);
        if (w->id == 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", w->id);
        FILE *file = fopen(path, "r");
        if (file && fgets(text, sizeof text, file))
            state = strrchr(text, ')')[2];
        if (file)
            fclose(file);
        asleep = state == 'S' ? asleep + 1 : 0;
    }
    if (asleep < 5)
        die("a thread does not come to rest");
}

static void *waits(void *argument) {
    struct waiter *w = argument;
    w->count = epoll_wait(w->set, &w->event, 1, w->timeout);
    return NULL;
}

static void start(struct waiter *w, int which, int timeout) {
    *w = (struct waiter){.set = which, .timeout = timeout};
    pthread_create(&w->thread, NULL, waits, w);
    nap(80); // it sleeps by now
}

static void join(const char *who, struct waiter *w) {
    pthread_join(w->thread, NULL);
    say("%s: %d, %s", who, w->count, w->count > 0 ? epoll_names(w->event.events) : "none");
}

static void added_while_waiting(struct peer *p) {
    struct waiter w;
    set = MUST(epoll_create1(0));
    have(p, 's');
    await_bytes(p->fd, 4);
    start(&w, set, 20000);
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    join("with bytes there", &w);
    recv_all(p->fd, buffer, 4);
    MUST(control(EPOLL_CTL_DEL, p->fd, 0));
    start(&w, set, 20000);
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    nap(50);
    have(p, 's');
    join("with bytes to come", &w);
    recv_all(p->fd, buffer, 4);
    start(&w, set, 20000);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLOUT));
    join("with another mask", &w);
    MUST(control(EPOLL_CTL_MOD, p->fd, 0));
    have(p, 's');
    start(&w, set, 20000);
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLONESHOT));
    join("armed", &w);
    recv_all(p->fd, buffer, 4);
    tell(p, 'q');
}

static void removed_while_waiting(struct peer *p) {
    struct waiter w;
    set = MUST(epoll_create1(0));
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    start(&w, set, 400);
    MUST(control(EPOLL_CTL_DEL, p->fd, 0));
    have(p, 's');
    join("removed", &w);
    recv_all(p->fd, buffer, 4);
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN));
    start(&w, set, 400);
    close(p->fd);
    have(p, 's');
    join("closed", &w);
    tell(p, 'q');
}

static void *polls(void *argument) {
    struct waiter *w = argument;
    struct pollfd one = {.fd = w->set, .events = POLLIN};
    w->count = poll(&one, 1, w->timeout);
    w->event.events = one.revents;
    return NULL;
}

// A descriptor that is closed while another thread polls it: no crash, and the
// poll still ends in time.
static void closed_while_polled(struct peer *p) {
    struct waiter w = {.set = p->fd, .timeout = 300};
    pthread_create(&w.thread, NULL, polls, &w);
    nap(80);
    CALL(close(p->fd));
    pthread_join(w.thread, NULL);
    say("poll ended");
    tell(p, 'q');
}

static void *reads(void *argument) {
    struct waiter *w = argument;
    w->id = gettid();
    w->count = recv(w->set, buffer, 10, 0);
    w->timeout = errno;
    return NULL;
}

// A shutdown by another thread ends a blocked read.
static void shut_while_read(struct peer *p) {
    struct waiter w = {.set = p->fd};
    pthread_create(&w.thread, NULL, reads, &w);
    await_asleep(&w);
    CALL(shutdown(p->fd, SHUT_RDWR));
    pthread_join(w.thread, NULL);
    say("recv = %d", w.count);
    tell(p, 'q');
}

// A close by another thread does not end a blocked read; the bytes still come.
static void closed_while_read(struct peer *p) {
    struct waiter w = {.set = p->fd};
    pthread_create(&w.thread, NULL, reads, &w);
    await_asleep(&w);
    CALL(close(p->fd));
    have(p, 's');
    pthread_join(w.thread, NULL);
    say_text("recv", buffer, w.count);
    tell(p, 'q');
}

// Two such reads: the connection stays open until both have returned.
static void several_read(struct peer *p) {
    struct waiter w[2] = {{.set = p->fd}, {.set = p->fd}};
    pthread_t first;
    for (int i = 0; i < 2; i++)
        pthread_create(&w[i].thread, NULL, reads, &w[i]);
    await_asleep(&w[0]);
    await_asleep(&w[1]);
    CALL(close(p->fd));
    have(p, 's');
    // Either thread may get the bytes.
    while (pthread_tryjoin_np(first = w[0].thread, NULL) && pthread_tryjoin_np(first = w[1].thread, NULL))
        nap(1);
    say_text("recv", buffer, w[first == w[1].thread].count);
    tell(p, 'q');
    hear(p);
    pthread_cancel(w[first != w[1].thread].thread);
    pthread_join(w[first != w[1].thread].thread, NULL);
    meet(p);
}

static void *cancelled_read(void *argument) {
    struct waiter *w = argument;
    w->id = gettid();
    recv(w->set, buffer, 10, 0);
    return NULL;
}

// The read that keeps a connection open is cancelled.
static void closed_and_cancelled(struct peer *p) {
    struct waiter w = {.set = p->fd};
    pthread_create(&w.thread, NULL, cancelled_read, &w);
    await_asleep(&w);
    CALL(close(p->fd));
    tell(p, 'q');
    hear(p);
    pthread_cancel(w.thread);
    pthread_join(w.thread, NULL);
    say("cancelled");
    meet(p);
}

// Meanwhile the number of the blocked read means another file.
static void one_of_two_closed(struct peer *p) {
    struct waiter w = {.set = p->fd};
    int other = MUST(dup(p->fd));
    pthread_create(&w.thread, NULL, reads, &w);
    await_asleep(&w);
    CALL(close(p->fd));
    if (MUST(open("/dev/null", O_RDONLY)) != p->fd)
        die("another number");
    have(p, 's');
    pthread_join(w.thread, NULL);
    say_text("recv", buffer, w.count);
    tell(p, 'q');
    hear(p);
    CALL(close(other));
    meet(p);
}

enum { MUCH = 40 << 20 };

static void *writes_much(void *argument) {
    struct waiter *w = argument;
    char *bytes = calloc(1, MUCH);
    w->id = gettid();
    w->count = send(w->set, bytes, MUCH, 0);
    free(bytes);
    return NULL;
}

static void closed_while_written(struct peer *p) {
    struct waiter w = {.set = p->fd};
    pthread_create(&w.thread, NULL, writes_much, &w);
    await_asleep(&w);
    CALL(close(p->fd));
    meet(p);
    pthread_join(w.thread, NULL);
    say("sent %d", w.count);
}

static void reads_much(struct peer *p) {
    long total = 0, got;
    meet(p);
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        total += got;
    say("received %ld, then %ld", total, got);
}

// Returns how many of two waiting threads were notified. If one thread is not notified soon after the
// other, something else in its epoll set wakes it. No wait has to last longer than a busy machine takes.
static int told(struct waiter *w) {
    int first = 0, home;
    while (pthread_tryjoin_np(w[first].thread, NULL))
        if ((first = !first) == 0)
            nap(1);
    struct waiter *other = &w[!first];
    nap(200);
    if (pthread_tryjoin_np(other->thread, NULL)) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = 6};
        home = MUST(eventfd(1, 0));
        MUST(epoll_ctl(other->set, EPOLL_CTL_ADD, home, &event));
        pthread_join(other->thread, NULL);
        close(home);
    }
    return (w[0].count > 0 && w[0].event.data.u32 == 5) + (w[1].count > 0 && w[1].event.data.u32 == 5);
}

// Two threads in one set: an edge and a one-shot go to one of them.
static void two_waiters(struct peer *p) {
    struct waiter w[2];
    set = MUST(epoll_create1(0));
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLONESHOT));
    start(&w[0], set, 20000);
    start(&w[1], set, 20000);
    have(p, 's');
    say("one-shot: %d", told(w));
    MUST(control(EPOLL_CTL_MOD, p->fd, EPOLLIN));
    start(&w[0], set, 20000);
    join("level", &w[0]);
    recv_all(p->fd, buffer, 4);
    start(&w[0], set, 20000);
    start(&w[1], set, 20000);
    have(p, 's');
    join("level", &w[0]);
    join("level", &w[1]);
    tell(p, 'q');
}

// Two epoll sets with EPOLLEXCLUSIVE share a stream: at least one is notified.
static void exclusive(struct peer *p) {
    struct waiter w[2];
    int sets[2] = {MUST(epoll_create1(0)), MUST(epoll_create1(0))};
    for (int i = 0; i < 2; i++) {
        set = sets[i];
        MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLEXCLUSIVE));
    }
    start(&w[0], sets[0], 20000);
    start(&w[1], sets[1], 20000);
    have(p, 's');
    say("%s", told(w) >= 1 ? "told" : "NO THREAD told");
    recv_all(p->fd, buffer, 4);
    start(&w[0], sets[0], 100);
    join("empty", &w[0]);
    tell(p, 'q');
}

struct server_thread {
    pthread_t thread;
    struct peer *p;
    long turns;
};

// Threads pass a one-shot entry around, as thread pools do.
static void *serves(void *argument) {
    struct server_thread *s = argument;
    struct epoll_event event;
    char byte;
    for (;;) {
        if (MUST(epoll_wait(set, &event, 1, 20000)) == 0)
            return NULL;
        ssize_t got = recv(s->p->fd, &byte, 1, MSG_DONTWAIT);
        if (got == 0) {
            // The other threads must get it too.
            MUST(control(EPOLL_CTL_MOD, s->p->fd, EPOLLIN | EPOLLONESHOT));
            return NULL;
        }
        if (got == 1) {
            s->turns++;
            byte++;
            send_all(s->p->fd, &byte, 1);
        }
        MUST(control(EPOLL_CTL_MOD, s->p->fd, EPOLLIN | EPOLLONESHOT));
    }
}

static void pool(struct peer *p) {
    struct server_thread pool[3];
    long turns = 0;
    set = MUST(epoll_create1(0));
    MUST(control(EPOLL_CTL_ADD, p->fd, EPOLLIN | EPOLLONESHOT));
    for (int i = 0; i < 3; i++) {
        pool[i] = (struct server_thread){.p = p};
        pthread_create(&pool[i].thread, NULL, serves, &pool[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(pool[i].thread, NULL);
        turns += pool[i].turns;
    }
    say("%ld turns", turns);
}

static void asks_pool(struct peer *p) {
    char byte = 0;
    unsigned wrong = 0;
    for (int i = 0; i < 2000; i++) {
        char sent = byte;
        send_all(p->fd, &byte, 1);
        recv_all(p->fd, &byte, 1);
        wrong += byte != (char)(sent + 1);
    }
    say("%u wrong", wrong);
    CALL(shutdown(p->fd, SHUT_WR));
}

static const struct scenario scenarios[] = {
    {"joining_a_set_that_is_waited_for", feeds, added_while_waiting},
    {"leaving_a_set_that_is_waited_for", feeds, removed_while_waiting},
    {"closing_what_is_polled", feeds, closed_while_polled},
    {"shutting_what_is_read", feeds, shut_while_read},
    {"closing_what_is_read", feeds, closed_while_read},
    {"closing_what_is_read_by_several", feeds_to_the_end, several_read},
    {"closing_under_a_blocked_write", reads_much, closed_while_written},
    {"closing_one_of_two_numbers", feeds_to_the_end, one_of_two_closed},
    {"closing_under_a_cancelled_read", feeds_to_the_end, closed_and_cancelled},
    {"two_threads_wait_for_one_set", feeds, two_waiters},
    {"exclusive_entries_of_two_sets", feeds, exclusive},
    {"a_pool_of_threads_with_one_shots", pool, asks_pool},
};
SCENARIO_MAIN(scenarios)
