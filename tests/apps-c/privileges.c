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

static const struct scenario all[] = {
    {"connections_accepted_meanwhile", serves, asks, RAW},
};

SCENARIO_MAIN(all)
