/* A Redis client: a thousand times SET and GET over sovia.h. The server is an ordinary one, under
 * `sovia run` or not.
 *
 *     redis PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sovia.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Sends a request in Redis's own protocol, and reads an answer of known length. */
static void request(int stream, const char *text, const char *expected) {
    char answer[256];
    size_t done = 0, size = strlen(expected);
    if (sov_send(stream, text, strlen(text), 0) != (ssize_t)strlen(text))
        fail("send");
    while (done < size) {
        ssize_t count = sov_recv(stream, answer + done, size - done, 0);
        if (count <= 0)
            fail("recv");
        done += (size_t)count;
    }
    if (memcmp(answer, expected, size) != 0) {
        fprintf(stderr, "wrong answer: %.*s\n", (int)size, answer);
        exit(1);
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address;
    int on_via = 0;
    socklen_t length = sizeof on_via;
    if (argc != 2) {
        fprintf(stderr, "usage: %s PORT\n", argv[0]);
        return 2;
    }
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int stream = sov_socket(AF_INET, SOCK_VIA, 0);
    if (stream < 0 || sov_connect(stream, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    for (int i = 0; i < 1000; i++) {
        char text[128], expected[64];
        snprintf(text, sizeof text, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4\r\n%04d\r\n", i);
        request(stream, text, "+OK\r\n");
        snprintf(expected, sizeof expected, "$4\r\n%04d\r\n", i);
        request(stream, "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", expected);
    }
    if (sov_getsockopt(stream, SOL_SOVIA, SOV_ON_VIA, &on_via, &length) < 0)
        fail("getsockopt");
    printf("1000 keys set and got over %s\n", on_via ? "a VI" : "TCP");
    sov_close(stream);
    return 0;
}
