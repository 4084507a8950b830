/* Definitions that the C test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <emp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program with an error message if `what` is false. */
#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);       \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* Ends the program with an error message unless the call returns `errno_`. */
#define GIVES(errno_, call)                                                          \
    do {                                                                             \
        int given = (call);                                                          \
        if (given != (errno_)) {                                                     \
            fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, given); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* Writes the address of a node of this program. Programs that run at the same time use different addresses. */
static const char *node_at(char *room, size_t length, unsigned node) {
    static unsigned own;
    if (own == 0)
        own = (unsigned)getpid();
    snprintf(room, length, "127.%u.%u.%u:17701", 1 + (own >> 8) % 200, own % 256, node + 1);
    return room;
}

#endif
