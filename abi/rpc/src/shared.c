/* Shared by receiving and sending. */
#include "record.h"

#include <errno.h>
#include <sovia.h>
#include <time.h>

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int wait_for(int fd, short events, int milliseconds) {
    struct pollfd wanted = {.fd = fd, .events = events};
    int64_t until = milliseconds > 0 ? now() + milliseconds : 0;
    for (;;) {
        int count = sov_poll(&wanted, 1, milliseconds);
        if (count >= 0 || errno != EINTR)
            return count;
        if (milliseconds > 0) {
            int64_t left = until - now();
            milliseconds = left > 0 ? (int)left : 0;
        }
    }
}

bool_t xdr_nothing(XDR *xdrs, ...) {
    (void)xdrs;
    return TRUE;
}
