// Measures the software of a write and a read, without moving a cache line to another processor:
// one thread is both ends of a connection.
//
//     one_thread BYTES BATCH      writes BATCH messages of BYTES, then reads them, over and over
//
// Under `sovia run` it uses a VI, alone kernel TCP.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20000, WARM_UP = 2000, LARGEST = 65536 };

static char bytes[LARGEST];

static void must(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "one_thread: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

// Reads exactly `length` bytes.
static void take(int fd, size_t length) {
    while (length > 0) {
        ssize_t n = read(fd, bytes, length);
        must(n > 0, "read");
        length -= (size_t)n;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: one_thread BYTES BATCH\n");
        return 2;
    }
    size_t length = strtoul(argv[1], NULL, 10);
    int batch = atoi(argv[2]);
    if (length == 0 || length > LARGEST || batch < 1 || batch > 64) {
        fprintf(stderr, "one_thread: 1 to %d bytes, a batch of 1 to 64\n", LARGEST);
        return 2;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(listener >= 0 && bind(listener, (void *)&at, size) == 0, "bind");
    must(listen(listener, 1) == 0 && getsockname(listener, (void *)&at, &size) == 0, "listen");
    int here = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    must(connect(here, (void *)&at, size) == 0, "connect");
    int there = accept(listener, NULL, NULL);
    must(there >= 0, "accept");
    must(setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "setsockopt");

    double writes = 0, reads = 0, misses = 0;
    for (int round = -WARM_UP; round < ROUNDS; round++) {
        double begin = now_ns();
        for (int i = 0; i < batch; i++)
            must(write(here, bytes, length) == (ssize_t)length, "write");
        double written = now_ns();
        for (int i = 0; i < batch; i++)
            take(there, length);
        double taken = now_ns();
        for (int i = 0; i < batch; i++)
            must(recv(there, bytes, length, MSG_DONTWAIT) < 0 && errno == EAGAIN, "recv");
        double end = now_ns();
        // Use the other direction as well, until the ends have found each other.
        if (round < 0) {
            must(write(there, bytes, 1) == 1, "write");
            take(here, 1);
            continue;
        }
        writes += written - begin;
        reads += taken - written;
        misses += end - taken;
    }
    double calls = (double)ROUNDS * batch;
    printf("write %.1f ns, read %.1f ns, recv that finds nothing %.1f ns\n", writes / calls,
           reads / calls, misses / calls);
    return 0;
}
