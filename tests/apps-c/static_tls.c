// A program with much static thread-local storage of its own.
#include "common.h"

static __thread char much[300 << 10];

static void *fills(void *argument) {
    struct peer *p = argument;
    memset(much, 'm', sizeof much);
    send_all(p->fd, much, 5000);
    return NULL;
}

static void sends(struct peer *p) {
    pthread_t thread;
    fills(p);
    if (pthread_create(&thread, NULL, fills, p))
        die("no thread");
    pthread_join(thread, NULL);
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, much, 1, 0));
}

static void receives(struct peer *p) {
    size_t total = 0;
    ssize_t got;
    while ((got = recv(p->fd, much, sizeof much, 0)) > 0)
        for (ssize_t i = 0; i < got; i++, total++)
            if (much[i] != 'm')
                die("wrong bytes at %zu", total);
    say("%zu bytes", total);
}

static const struct scenario scenarios[] = {
    {"much_static_thread_local_storage", receives, sends},
};
SCENARIO_MAIN(scenarios)
