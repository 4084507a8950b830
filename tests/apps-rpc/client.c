// Calls what service.x says: `client PORT CASE`. Says what it is told, and nothing that differs from run to run.
#include "service.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in address = {.sin_family = AF_INET};

static CLIENT *service(void) {
    int fd = RPC_ANYSOCK;
    CLIENT *client = clnttcp_create(&address, SERVICE, FIRST, &fd, 0, 0);
    if (!client) {
        clnt_pcreateerror("no service");
        exit(1);
    }
    return client;
}

// Sums; says how many were right.
static void calls(CLIENT *client, int count) {
    int right = 0;
    for (int i = 0; i < count; i++) {
        pair given = {i, 3 * i};
        int *sum = sum_1(&given, client);
        right += sum && *sum == 4 * i;
    }
    printf("%d of %d sums are right\n", right, count);
}

static void large(CLIENT *client) {
    static const u_int sizes[] = {1, 4000, 4096, 9000, 65536, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        blob given = {sizes[i], malloc(sizes[i])};
        for (u_int at = 0; at < sizes[i]; at++)
            given.blob_val[at] = (char)(at * 7 + (at >> 9));
        blob *got = reversed_1(&given, client);
        int right = got && got->blob_len == sizes[i];
        for (u_int at = 0; right && at < sizes[i]; at++)
            right = got->blob_val[at] == given.blob_val[sizes[i] - 1 - at];
        printf("%u bytes come back reversed: %s\n", sizes[i], right ? "yes" : "NO");
        free(given.blob_val);
    }
}

static void say(const char *what, enum clnt_stat status) { printf("%s: %s\n", what, clnt_sperrno(status)); }

static enum clnt_stat late(CLIENT *client, int milliseconds, int patience) {
    int answer = 0;
    struct timeval limit = {patience / 1000, patience % 1000 * 1000};
    return clnt_call(client, LATE, (xdrproc_t)xdr_int, (caddr_t)&milliseconds, (xdrproc_t)xdr_int, (caddr_t)&answer, limit);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(atoi(argv[1]));
    const char *name = argv[2];
    CLIENT *client = service();
    calls(client, 2000);
    if (!strcmp(name, "large")) {
        large(client);
    } else if (!strcmp(name, "late")) {
        say("an answer that comes", late(client, 20, 60000));
        say("one that comes too late", late(client, 2000, 100));
        say("the next one, which is in time", late(client, 1, 60000));
    } else if (!strcmp(name, "death")) {
        int none = 0;
        struct timeval limit = {60, 0};
        say("a server that dies", clnt_call(client, DEATH, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_int, (caddr_t)&none, limit));
        say("a call after that", late(client, 1, 60000));
    } else if (!strcmp(name, "leaves")) {
        // Does not wait for the answer.
        say("a call without an answer", late(client, 100, 0));
        return 0;
    } else if (!strcmp(name, "endless")) {
        // A record of fragments none of which is the last.
        int fd;
        clnt_control(client, CLGET_FD, (char *)&fd);
        static char fragment[1 << 16];
        *(uint32_t *)fragment = htonl(sizeof fragment - 4);
        for (int i = 0; i < 100; i++)
            if (send(fd, fragment, sizeof fragment, MSG_NOSIGNAL) < 0)
                break;
        printf("no record\n");
        return 0;
    }
    clnt_destroy(client);
    return 0;
}
