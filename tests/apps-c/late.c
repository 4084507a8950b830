// Two ends are moving to a VI, and one of them pauses for a while between two calls.
#include "common.h"
#include <pthread.h>

enum { BYTES = 8 };

static void send_some(int fd, int times) {
    char message[BYTES] = "message";
    for (int i = 0; i < times; i++)
        if (send(fd, message, sizeof message, 0) != sizeof message)
            die("send: %s", strerrorname_np(errno));
}

static void receive_some(int fd, int times) {
    char message[BYTES];
    for (int i = 0; i < times; i++)
        if (recv(fd, message, sizeof message, MSG_WAITALL) != sizeof message)
            die("recv: %s", strerrorname_np(errno));
}

enum { FLOOD = 64, STEPS = 30 };

// A new process for each connection, because two processes that have met once meet in another way.
static void in_a_child(void (*does)(struct peer *, int), struct peer *p, int step) {
    pid_t child = MUST(fork());
    if (child == 0) {
        does(p, step);
        exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("a child", status);
}

// The acceptor pauses after this many of its calls. The connector sends as often as it waits for an answer, and more.
static void stands_still(struct peer *p, int step) {
    int fd = accept_one(p->listener);
    for (int i = 0; i < step; i++) {
        receive_some(fd, 1);
        send_some(fd, 1);
    }
    hear(p);
    receive_some(fd, FLOOD);
    warm_until_met(fd, true);
    close(fd);
}

static void sends_on(struct peer *p, int step) {
    int fd = connect_to(p, AF_INET, "port2");
    for (int i = 0; i < step; i++) {
        send_some(fd, 1);
        receive_some(fd, 1);
    }
    for (int i = 0; i < FLOOD; i++) {
        send_some(fd, 1);
        usleep(500);
    }
    tell(p, step);
    warm_until_met(fd, false);
    close(fd);
}

static void server_stands_still(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "port2");
    for (int step = 0; step < STEPS; step++)
        in_a_child(stands_still, p, step);
}

static void client_sends_on(struct peer *p) {
    for (int step = 0; step < STEPS; step++)
        in_a_child(sends_on, p, step);
}

// A thread waits on a connection that has just got its VI, and another thread closes the descriptor. Then the peer
// resets the connection, which only TCP reports.
enum { YOUNG = 60 };

static void *awaits_a_reset(void *fd) {
    char byte;
    CALL(recv(*(int *)fd, &byte, 1, 0));
    return NULL;
}

static void closes_under_a_receive(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port2");
    for (int i = 0; i < YOUNG; i++) {
        int fd = accept_one(listener);
        pthread_t thread;
        warm_until_met(fd, true);
        MUST(-pthread_create(&thread, NULL, awaits_a_reset, &fd));
        usleep(100);
        await_rest();
        MUST(close(fd));
        tell(p, i);
        MUST(-pthread_join(thread, NULL));
    }
}

static void resets_young_connections(struct peer *p) {
    const struct linger at_once = {1, 0};
    for (int i = 0; i < YOUNG; i++) {
        int fd = connect_to(p, AF_INET, "port2");
        warm_until_met(fd, false);
        hear(p);
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
        MUST(close(fd));
    }
}

static const struct scenario scenarios[] = {
    {"a_young_connection_is_reset_after_its_number_is_closed", closes_under_a_receive, resets_young_connections},
    {"the_acceptor_stands_still_at_each_step", server_stands_still, client_sends_on, RAW},
};
SCENARIO_MAIN(scenarios)
