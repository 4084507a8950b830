// Requests and answers on the connection under test, which another program may have inherited
// meanwhile.
#ifndef SOVIA_TESTS_CONVERSE_H
#define SOVIA_TESTS_CONVERSE_H

#include "common.h"

enum { SIZE = 100 };

// Exchanges `count` requests and answers of SIZE bytes. `tag` distinguishes those of forked
// relatives.
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
