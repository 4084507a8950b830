// serve PORT: sends received bytes back, to one client after the other.
//
// ask PORT SIZE ROUNDS: makes ROUNDS round trips with messages of SIZE bytes, and prints round trips per second.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void check(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(1);
}

static void serve(int listener) {
    static char piece[65536];
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        check(peer >= 0, "accept");
        ssize_t got;
        while ((got = read(peer, piece, sizeof piece)) > 0)
            for (ssize_t sent = 0, more; sent < got; sent += more)
                check((more = write(peer, piece + sent, got - sent)) > 0, "write");
        close(peer);
    }
}

static double ask(int peer, size_t size, size_t rounds) {
    char *sent = malloc(size), *got = malloc(size);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t place = 0; place < size; place++) sent[place] = (char)(round * 31 + place * 7);
        check(write(peer, sent, size) == (ssize_t)size, "write");
        for (ssize_t place = 0, more; place < (ssize_t)size; place += more)
            check((more = read(peer, got + place, size - place)) > 0, "read");
        if (memcmp(sent, got, size)) {
            fprintf(stderr, "message %zu differs\n", round);
            exit(1);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return rounds / (ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int one = 1, own = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(words[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!strcmp(words[1], "serve")) {
        check(!bind(own, (struct sockaddr *)&address, sizeof address), "bind");
        check(!listen(own, 10), "listen");
        serve(own);
    }
    check(!connect(own, (struct sockaddr *)&address, sizeof address), "connect");
    printf("%f\n", ask(own, strtoul(words[3], NULL, 10), strtoul(words[4], NULL, 10)));
}
