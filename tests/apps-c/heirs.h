// Programs that execute themselves again, as `--heir NUMBER WHAT DIR`. The heir inherits the connection under test
// with that number.
#ifndef SOVIA_TESTS_HEIRS_H
#define SOVIA_TESTS_HEIRS_H

#include "converse.h"

enum { ROUNDS = 300 };

// Talks until both ends know whether they meet, and for a while after that.
static void talk(int fd, bool server) {
    warm_until_met(fd, server);
    converse(fd, server, ROUNDS);
}

static char number[16];

static char **heir(struct peer *p, int fd, const char *what) {
    static char *arguments[6];
    snprintf(number, sizeof number, "%d", fd);
    char *all[6] = {(char *)p->self, "--heir", number, (char *)what, (char *)p->dir, NULL};
    memcpy(arguments, all, sizeof arguments);
    return arguments;
}

static void becomes(struct peer *p, int fd, const char *what) {
    execv(p->self, heir(p, fd, what));
    die("exec: %s", strerrorname_np(errno));
}

// Forks a child that becomes an heir. It has the connection under the numbers from `first` to `last`, and
// no other descriptor.
static pid_t start_heir(struct peer *p, const char *what, int first, int last) {
    pid_t child = MUST(fork());
    if (child)
        return child;
    for (int n = first; n <= last; n++)
        MUST(dup2(p->fd, n));
    close(p->listener);
    close(p->fd);
    becomes(p, first, what);
    return 0;
}

#endif
