// Makes the calls of service.x: `client PORT CASE [via]`. Prints the results, and nothing that differs from run to
// run.
#include "client.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef VIA
#include <sovia.h>
#include <sovia_rpc.h>
#endif

static struct sockaddr_in address = {.sin_family = AF_INET};
static int via;

static CLIENT *service(void) {
    int fd = RPC_ANYSOCK;
    CLIENT *client = NULL;
#ifdef VIA
    struct netbuf there = {sizeof address, sizeof address, &address};
    if (via)
        client = clnt_via_create(fd, &there, SERVICE, FIRST, 0, 0);
#endif
    if (!via)
        client = clnttcp_create(&address, SERVICE, FIRST, &fd, 0, 0);
    if (!client) {
        clnt_pcreateerror("no service");
        exit(1);
    }
    return client;
}

// Prints where the connection's bytes are, if the transport knows.
static void say_where(CLIENT *client) {
#ifdef VIA
    int fd, on_via = 0;
    socklen_t length = sizeof on_via;
    clnt_control(client, CLGET_FD, (char *)&fd);
    sov_getsockopt(fd, SOL_SOVIA, SOV_ON_VIA, &on_via, &length);
    printf("on a VI: %s\n", on_via ? "yes" : "no");
#endif
    (void)client;
}

long send_raw(CLIENT *client, const void *bytes, size_t length) {
    int fd;
    clnt_control(client, CLGET_FD, (char *)&fd);
#ifdef VIA
    if (via)
        return sov_send(fd, bytes, length, MSG_NOSIGNAL);
#endif
    return send(fd, bytes, length, MSG_NOSIGNAL);
}

void calls(CLIENT *client, int count) {
    int right = 0;
    for (int i = 0; i < count; i++) {
        pair given = {i, 3 * i};
        int *sum = sum_1(&given, client);
        right += sum && *sum == 4 * i;
    }
    printf("%d of %d sums are right\n", right, count);
}

void say(const char *what, enum clnt_stat status) { printf("%s: %s\n", what, clnt_sperrno(status)); }

enum clnt_stat late(CLIENT *client, int milliseconds, int patience) {
    int answer = 0;
    struct timeval limit = {patience / 1000, patience % 1000 * 1000};
    return clnt_call(client, LATE, (xdrproc_t)xdr_int, (caddr_t)&milliseconds, (xdrproc_t)xdr_int, (caddr_t)&answer, limit);
}

static void large(CLIENT *client) {
    static const u_int sizes[] = {1, 4000, 4096, 9000, 65536, 1000000, 5000001};
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

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(atoi(argv[1]));
    const char *name = argv[2];
    via = argc > 3 && !strcmp(argv[3], "via");
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
    } else if (!strcmp(name, "handle")) {
        handle(client);
    } else if (!strcmp(name, "errors")) {
        errors(client);
    } else if (!strcmp(name, "where")) {
        say_where(client);
    } else if (hostile(client, name)) {
        return 0;
    }
    clnt_destroy(client);
    return 0;
}
