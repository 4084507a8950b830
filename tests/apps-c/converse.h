// Requests and answers on the connection under test, which may have become another program's meanwhile.
#ifndef SOVIA_TESTS_CONVERSE_H
#define SOVIA_TESTS_CONVERSE_H

#include "common.h"

enum { SIZE = 100 };

// `count` requests and their answers, each of SIZE bytes. `tag` tells those of relatives apart.
static inline void converse_as(int fd, bool server, int count, char tag) {
    for (int i = 0; i < count; i++) {
        char out[SIZE], in[SIZE];
        fill(out, sizeof out, (uint64_t)tag << 32 | i);
        if (!server)
            send_all(fd, out, sizeof out);
        recv_all(fd, in, sizeof in);
        if (server)
            send_all(fd, in, sizeof in);
        else if (memcmp(in, out, sizeof in))
            die("answer %d is another's", i);
    }
}

static inline void converse(int fd, bool server, int count) { converse_as(fd, server, count, 'a'); }

#endif
