/* A stream of messages without a copy: the sender writes each where the receiver reads it.
 *
 *     zero_copy server              prints its port, and adds up what comes
 *     zero_copy client PORT         sends messages of 32 KB
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sovia.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 32 << 10, PIECES = 2000 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t sum(const unsigned char *bytes, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += bytes[i];
    return total;
}

static void serve(void) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int listener = sov_socket(AF_INET, SOCK_VIA, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || sov_bind(listener, (struct sockaddr *)&address, length) < 0 ||
        sov_listen(listener, 16) < 0 ||
        sov_getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        fail("listening");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        const void *message;
        ssize_t count;
        uint64_t total = 0;
        int stream = sov_accept(listener, NULL, NULL);
        if (stream < 0)
            fail("accept");
        while ((count = sov_borrow(stream, &message, 0)) > 0) {
            total += sum(message, (size_t)count);
            if (sov_return(message) < 0)
                fail("return");
        }
        if (count < 0)
            fail("borrow");
        sov_send(stream, &total, sizeof total, 0);
        sov_close(stream);
    }
}

static void stream_to(int port) {
    struct sockaddr_in address;
    uint64_t total, expected = 0;
    int in_place = 0;
    int stream = sov_socket(AF_INET, SOCK_VIA, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (stream < 0 || sov_connect(stream, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    for (int i = 0; i < PIECES; i++) {
        unsigned char *message = sov_lend(stream, PIECE);
        if (!message)
            fail("lend");
        memset(message, i, PIECE);
        in_place += sov_in_place(message);
        expected += (uint64_t)(unsigned char)i * PIECE;
        if (sov_commit(stream, message, PIECE, 0) != PIECE)
            fail("commit");
    }
    sov_shutdown(stream, SHUT_WR);
    if (sov_recv(stream, &total, sizeof total, MSG_WAITALL) != sizeof total)
        fail("recv");
    if (total != expected) {
        fprintf(stderr, "not what was sent\n");
        exit(1);
    }
    printf("%d messages arrived, %s in place\n", PIECES, in_place ? "some" : "none");
    sov_close(stream);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "server") == 0)
        serve();
    else if (argc == 3 && strcmp(argv[1], "client") == 0)
        stream_to(atoi(argv[2]));
    else
        fprintf(stderr, "usage: %s server | client PORT\n", argv[0]);
    return argc < 2;
}
