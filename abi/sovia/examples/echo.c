/* An echo server and its client over sovia.h.
 *
 *     echo server              prints its port, and answers one stream after the other
 *     echo client PORT         ten thousand round trips
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sovia.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10000, SIZE = 64 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void serve(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int listener = sov_socket(AF_INET, SOCK_VIA, 0);
    if (listener < 0 || sov_bind(listener, (struct sockaddr *)&address, length) < 0 ||
        sov_listen(listener, 16) < 0 ||
        sov_getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        fail("listening");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        char buffer[4096];
        ssize_t count;
        int stream = sov_accept(listener, NULL, NULL);
        if (stream < 0)
            fail("accept");
        while ((count = sov_recv(stream, buffer, sizeof buffer, 0)) > 0)
            if (sov_send(stream, buffer, (size_t)count, 0) != count)
                break;
        sov_close(stream);
    }
}

static void receive_all(int stream, char *buffer, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t count = sov_recv(stream, buffer + done, size - done, 0);
        if (count <= 0)
            fail("recv");
        done += (size_t)count;
    }
}

static void ask(int port) {
    struct sockaddr_in address = loopback(port);
    struct sov_info info;
    socklen_t length = sizeof info;
    int stream = sov_socket(AF_INET, SOCK_VIA, 0);
    if (stream < 0 || sov_connect(stream, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    for (int round = 0; round < ROUNDS; round++) {
        char question[SIZE], answer[SIZE];
        memset(question, round, SIZE);
        if (sov_send(stream, question, SIZE, 0) != SIZE)
            fail("send");
        receive_all(stream, answer, SIZE);
        if (memcmp(question, answer, SIZE) != 0)
            fail("not what was sent");
    }
    if (sov_getsockopt(stream, SOL_SOVIA, SOV_INFO, &info, &length) < 0)
        fail("getsockopt");
    if (info.state == SOV_VIA)
        printf("%d round trips over a VI\n", ROUNDS);
    else
        printf("%d round trips over TCP: %s\n", ROUNDS,
               info.reason ? sov_strreason((int)info.reason) : "not decided");
    sov_close(stream);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "server") == 0)
        serve();
    else if (argc == 3 && strcmp(argv[1], "client") == 0)
        ask(atoi(argv[2]));
    else
        fprintf(stderr, "usage: %s server | client PORT\n", argv[0]);
    return argc < 2;
}
