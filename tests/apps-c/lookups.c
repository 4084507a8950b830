// Functions of libc that a program has not bound by their names. It looks them up in libc itself, or opens a
// library that looks in libc first (RTLD_DEEPBIND).
#include "common.h"
#include <dlfcn.h>

struct calls {
    ssize_t (*send)(int, const void *, size_t);
    ssize_t (*recv)(int, void *, size_t);
    int (*poll)(struct pollfd *, nfds_t, int);
    int (*close)(int);
};

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    const char *error = dlerror();
    if (error)
        die("%s: %s", name, error);
    return found;
}

static struct calls of_libc(struct peer *p) {
    (void)p;
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    if (!libc)
        die("%s", dlerror());
    CALL(dlsym(libc, "no_such_function") != NULL);
    say("%s", dlerror() ? "and says why" : "and does not say why");
    return (struct calls){
        .send = find(libc, "write"),
        .recv = find(libc, "read"),
        .poll = find(libc, "poll"),
        .close = find(libc, "close"),
    };
}

static struct calls of_library(struct peer *p, const char *when, int how) {
    char path[600];
    snprintf(path, sizeof path, "%s.%s.so", p->self, when);
    void *library = dlopen(path, how | RTLD_DEEPBIND);
    if (!library)
        die("%s", dlerror());
    return (struct calls){
        .send = find(library, "library_send"),
        .recv = find(library, "library_recv"),
        .poll = *(int (**)(struct pollfd *, nfds_t, int))find(library, "library_poll"),
        .close = find(library, "library_close"),
    };
}

static struct calls of_a_lazy_library(struct peer *p) { return of_library(p, "lazy", RTLD_LAZY); }
static struct calls of_a_library_that_is_bound_at_once(struct peer *p) {
    return of_library(p, "lazy", RTLD_NOW);
}
static struct calls of_a_protected_library(struct peer *p) { return of_library(p, "now", RTLD_NOW); }

// Functions bound by their names.
static ssize_t plain_send(int fd, const void *bytes, size_t count) { return write(fd, bytes, count); }
static ssize_t plain_recv(int fd, void *bytes, size_t count) { return read(fd, bytes, count); }
static const struct calls plain = {plain_send, plain_recv, poll, close};

// One end uses the functions that it has found, and the other one its own, in turns.
static void converse(struct peer *p, struct calls calls) {
    warm(p->fd, p->server);
    char bytes[100];
    for (int i = 0; i < 20; i++) {
        if (p->server == (i % 2 == 0)) {
            memset(bytes, 'a' + i, sizeof bytes);
            CALL(calls.send(p->fd, bytes, sizeof bytes));
        } else {
            struct pollfd poll = {.fd = p->fd, .events = POLLIN};
            CALL(calls.poll(&poll, 1, 60000));
            CALL(calls.recv(p->fd, bytes, sizeof bytes));
            say("%.5s", bytes);
        }
    }
    meet(p);
    if (p->server) {
        CALL(calls.close(p->fd));
    } else {
        CALL(calls.recv(p->fd, bytes, sizeof bytes));
        CALL(calls.close(p->fd));
    }
    CALL(calls.close(p->fd));
}

#define FINDS(name)                                                                                \
    static void name(struct peer *p) { converse(p, p->server ? of_##name(p) : plain); }
FINDS(libc)
FINDS(a_lazy_library)
FINDS(a_library_that_is_bound_at_once)
FINDS(a_protected_library)

static const struct scenario all[] = {
    {"in_libc", libc, libc, 0},
    {"in_a_lazy_library", a_lazy_library, a_lazy_library, 0},
    {"in_a_library_that_is_bound_at_once", a_library_that_is_bound_at_once,
     a_library_that_is_bound_at_once, 0},
    {"in_a_protected_library", a_protected_library, a_protected_library, 0},
};
SCENARIO_MAIN(all)
