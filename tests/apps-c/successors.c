// Programs that are started with a connection while its peer ends. The peer may be putting its bytes back on TCP.
#include "common.h"

enum { ROUNDS = 60, LENGTH = 400000, PAUSE_US = 1500 };

static int read_on(const char *from) {
    static char buffer[65536];
    uint64_t at = atoi(from);
    ssize_t got;
    while ((got = read(0, buffer, sizeof buffer)) > 0) {
        if (!matches(buffer, got, at))
            die_of_wrong_bytes(buffer, got, at);
        at += got;
    }
    if (got < 0)
        note("after %d bytes: %s", (int)at, strerrorname_np(errno));
    return got == 0 && at == LENGTH ? 0 : 1;
}

static bool starts_a_successor(struct peer *p, int fd, bool by_vfork) {
    static char read_before[LENGTH];
    int count = rand() % LENGTH;
    recv_all(fd, read_before, count);
    char from[16];
    snprintf(from, sizeof from, "%d", count);
    pid_t child = MUST(by_vfork ? vfork() : fork());
    if (child == 0) {
        dup2(fd, 0);
        execl(p->self, p->self, "--successor", from, NULL);
        _exit(9);
    }
    close(fd);
    int status;
    MUST(waitpid(child, &status, 0));
    return status == 0;
}

static void starts_successors(struct peer *p, bool by_vfork) {
    p->listener = listen_on(p, AF_INET, "port2");
    MUST(fcntl(p->listener, F_SETFD, FD_CLOEXEC));
    int whole = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int fd = accept_one(p->listener);
        MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
        warm_until_met(fd, true);
        whole += starts_a_successor(p, fd, by_vfork);
    }
    say("%d of %d read all that was left", whole, ROUNDS);
}

static void forks(struct peer *p) { starts_successors(p, false); }

static void vforks(struct peer *p) { starts_successors(p, true); }

static void ends_soon(struct peer *p) {
    int fd = connect_to(p, AF_INET, "port2");
    warm_until_met(fd, false);
    send_pattern(fd, 0, LENGTH, LENGTH);
    srand(getpid());
    usleep(rand() % PAUSE_US);
    _exit(0);
}

static void peers_end(struct peer *p) {
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = MUST(fork());
        if (child == 0)
            ends_soon(p);
        int status;
        MUST(waitpid(child, &status, 0));
        if (status != 0)
            die("peer %d: %d", i, status);
    }
}

static const struct scenario scenarios[] = {
    {"children_read_what_peers_left", forks, peers_end, RAW},
    {"vforked_children_read_what_peers_left", vforks, peers_end, RAW},
};

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--successor") == 0)
        return read_on(argv[2]);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
