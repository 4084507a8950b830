// A worker gives up privileges while another of its threads accepts connections, as HAProxy's workers do. Each
// connection must answer every request, also those that are accepted during the change.
#include "common.h"
#include <stdatomic.h>
#include <sys/prctl.h>

enum { TRIALS = 24, CONNECTIONS = 40, TURNS = 40 };

static int listener;
static atomic_int accepted;

// Answers the requests of all connections until they have ended.
static void *serve(void *unused) {
    (void)unused;
    int set = MUST(epoll_create1(0)), ended = 0;
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, events[64];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    while (ended < CONNECTIONS) {
        int count = MUST(epoll_wait(set, events, 64, -1));
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd, request;
            if (fd == listener) {
                int end = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (end < 0)
                    continue;
                event = (struct epoll_event){EPOLLIN, {.fd = end}};
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, end, &event));
                if (++accepted == CONNECTIONS) // the next ones are for the next worker
                    MUST(epoll_ctl(set, EPOLL_CTL_DEL, listener, NULL));
                continue;
            }
            ssize_t n = recv(fd, &request, sizeof request, 0);
            if (n > 0) {
                send(fd, &request, n, MSG_NOSIGNAL);
            } else if (n == 0 || errno != EAGAIN) {
                close(fd);
                ended++;
            }
        }
    }
    return NULL;
}

// Gives up privileges once so many connections have been accepted.
static void work(int when) {
    pthread_t thread;
    MUST(-pthread_create(&thread, NULL, serve, NULL));
    while (accepted < when)
        ;
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    pthread_join(thread, NULL);
    _exit(0);
}

static void serves(struct peer *p) {
    listener = listen_on(p, AF_INET, "port");
    set_nonblocking(listener, true);
    for (int trial = 0; trial < TRIALS; trial++) {
        meet(p);
        pid_t worker = MUST(fork());
        if (worker == 0)
            work(trial % 12 + 1);
        reap("worker", worker);
    }
}

// Makes the connections before the worker starts, so that it accepts one after the other.
static void asks(struct peer *p) {
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pollfd ends[CONNECTIONS];
        int turns[CONNECTIONS] = {0};
        for (int i = 0; i < CONNECTIONS; i++) {
            ends[i] = (struct pollfd){connect_to(p, AF_INET, "port"), POLLIN, 0};
            MUST(send(ends[i].fd, &i, sizeof i, 0));
        }
        meet(p);
        for (int open = CONNECTIONS; open > 0;) {
            if (MUST(poll(ends, CONNECTIONS, 20000)) == 0)
                die("trial %d: %d connections get no answer", trial, open);
            for (int i = 0; i < CONNECTIONS; i++) {
                if (ends[i].fd < 0 || !ends[i].revents)
                    continue;
                int answer = -1, request = ++turns[i] * CONNECTIONS + i;
                ssize_t n = recv(ends[i].fd, &answer, sizeof answer, MSG_WAITALL);
                if (n != sizeof answer || answer != request - CONNECTIONS)
                    die("trial %d: answer %d of connection %d: %zd bytes, %d", trial, turns[i], i, n, answer);
                if (turns[i] < TURNS) {
                    MUST(send(ends[i].fd, &request, sizeof request, MSG_NOSIGNAL));
                } else {
                    MUST(close(ends[i].fd));
                    ends[i].fd = -1;
                    open--;
                }
            }
        }
    }
    say("all answered");
}

// Threads that are cancelled at any moment of a connect, before a change of privileges.

enum { CHILDREN = 4, THREADS = 40 };

static void *closes(void *argument) {
    for (;;)
        close(accept_one((int)(intptr_t)argument));
    return NULL;
}

static void serves_shortly(struct peer *p) {
    pthread_t thread;
    int fd = listen_on(p, AF_INET, "port");
    MUST(-pthread_create(&thread, NULL, closes, (void *)(intptr_t)fd));
    hear(p);
    say("served");
}

static void *connects(void *argument) {
    struct sockaddr_in address = *(struct sockaddr_in *)argument;
    struct linger reset = {.l_onoff = 1};
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        connect(fd, (struct sockaddr *)&address, sizeof address);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    return NULL;
}

static void cancels(struct peer *p) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons(port_of(p, "port"));
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = MUST(fork());
        if (child != 0) {
            reap("child", child);
            continue;
        }
        for (int j = 0; j < THREADS; j++) {
            pthread_t thread;
            MUST(-pthread_create(&thread, NULL, connects, &address));
            usleep(200 + 97 * j % 400);
            pthread_cancel(thread);
            pthread_join(thread, NULL);
        }
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        _exit(0);
    }
    tell(p, 1);
}

static const struct scenario all[] = {
    {"connections_accepted_meanwhile", serves, asks, RAW},
    {"connections_made_by_cancelled_threads", serves_shortly, cancels, RAW},
};

SCENARIO_MAIN(all)
