// A waiting process uses no processor time. A process that changes its identity continues.
#include "common.h"
#include <grp.h>
#include <sys/resource.h>

static char buffer[70000];

static long cpu_ms(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void say_cost(const char *what, long before) {
    long cost = cpu_ms() - before;
    say("%s: %s", what, cost < 100 ? "idle" : "BUSY");
    if (cost > 20)
        note("%s: %ld ms of a second", what, cost);
}

static void speaks_each_second(struct peer *p) {
    for (int i = 0; i < 4; i++) {
        meet(p);
        long before = cpu_ms();
        nap(1000);
        say_cost("asleep", before);
        send_all(p->fd, "tick", 4);
    }
    // There is no room for more: the writer waits for the reader.
    set_nonblocking(p->fd, true);
    while (send(p->fd, buffer, sizeof buffer, 0) > 0)
        ;
    set_nonblocking(p->fd, false);
    meet(p);
    long before = cpu_ms();
    send_all(p->fd, buffer, 10000);
    say_cost("blocked in send", before);
}

static void waits_each_second(struct peer *p) {
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    static const char *const ways[] = {"recv", "poll", "epoll_wait", "select"};
    for (int i = 0; i < 4; i++) {
        meet(p);
        long before = cpu_ms();
        fd_set in;
        FD_ZERO(&in);
        FD_SET(p->fd, &in);
        if (i == 1)
            MUST(poll(&one, 1, -1));
        else if (i == 2)
            MUST(epoll_wait(set, &event, 1, -1));
        else if (i == 3)
            MUST(select(p->fd + 1, &in, NULL, NULL, NULL));
        recv_all(p->fd, buffer, 4);
        say_cost(ways[i], before);
    }
    meet(p);
    nap(1000);
    while (recv(p->fd, buffer, sizeof buffer, 0) > 0)
        ;
    say("all read");
}

static void stays(struct peer *p) {
    say_alive(p->fd, p->server, "before");
    say_alive(p->fd, p->server, "after");
    int fd = accept_one(p->listener);
    warm(fd, true);
    say_alive(fd, true, "another stream");
}

// Daemons drop privileges once they have what they need.
static void drops_rights(struct peer *p) {
    say_alive(p->fd, p->server, "before");
    if (geteuid() == 0) {
        MUST(setgroups(0, NULL));
        MUST(setresgid(65534, 65534, 65534));
        MUST(setresuid(65534, 65534, 65534));
    }
    say_alive(p->fd, p->server, "after");
    p->fd = connect_to(p, AF_INET, "port");
    warm(p->fd, false);
    say_alive(p->fd, false, "another stream");
}

static void changes_root(struct peer *p) {
    int port = port_of(p, "port");
    say_alive(p->fd, p->server, "before");
    if (geteuid() == 0) {
        MUST(chroot(p->dir));
        MUST(chdir("/"));
    }
    say_alive(p->fd, p->server, "after");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(p->fd, (struct sockaddr *)&to, sizeof to));
    warm(p->fd, false);
    say_alive(p->fd, false, "another stream");
}

static const struct scenario scenarios[] = {
    {"waiting_costs_no_time", speaks_each_second, waits_each_second},
    {"dropping_privileges", stays, drops_rights},
    {"changing_the_root", stays, changes_root},
};
SCENARIO_MAIN(scenarios)
