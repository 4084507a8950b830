/* Shared by the test programs: checks, and pairs of connected sockets. */
#ifndef CHECK_H
#define CHECK_H
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sovia.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHECK(truth)                                                                               \
    do {                                                                                           \
        if (!(truth)) {                                                                            \
            printf("%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #truth, errno);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
/* Checks that a call fails with this errno. */
#define FAILS(call, number)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((long)(call) == -1 && errno == (number));                                            \
    } while (0)

struct pair {
    int one, other;
};

/* Two connected sockets of a type, in this process. */
static inline struct pair connected(int type) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct pair pair;
    int listener = sov_socket(AF_INET, type, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(listener >= 0);
    CHECK(sov_bind(listener, (struct sockaddr *)&address, length) == 0);
    CHECK(sov_listen(listener, 4) == 0);
    CHECK(sov_getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    pair.one = sov_socket(AF_INET, type, 0);
    CHECK(sov_connect(pair.one, (struct sockaddr *)&address, length) == 0);
    pair.other = sov_accept(listener, NULL, NULL);
    CHECK(pair.one >= 0 && pair.other >= 0);
    CHECK(sov_close(listener) == 0);
    return pair;
}

static inline int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(sov_getsockopt(fd, level, name, &value, &length) == 0 && length == sizeof value);
    return value;
}

/* Exchanges small messages until the pair has met, if it can. */
static inline void warm(struct pair pair) {
    char byte = 'w';
    for (int i = 0; i < 50; i++) {
        CHECK(sov_send(pair.one, &byte, 1, 0) == 1);
        CHECK(sov_recv(pair.other, &byte, 1, 0) == 1);
        CHECK(sov_send(pair.other, &byte, 1, 0) == 1);
        CHECK(sov_recv(pair.one, &byte, 1, 0) == 1);
    }
}

static inline struct pair warmed(void) {
    struct pair pair = connected(SOCK_VIA);
    warm(pair);
    CHECK(option(pair.one, SOL_SOVIA, SOV_ON_VIA) == 1);
    CHECK(option(pair.other, SOL_SOVIA, SOV_ON_VIA) == 1);
    return pair;
}

static inline void end(struct pair pair) {
    CHECK(sov_close(pair.one) == 0);
    CHECK(sov_close(pair.other) == 0);
}
#endif
