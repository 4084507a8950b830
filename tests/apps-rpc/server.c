// Serves service.x on a loopback port: `server PORT [via]`, without a portmapper.
#include "service.h"
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

void service_1(struct svc_req *request, SVCXPRT *transport);

int *nothing_1_svc(void *none, struct svc_req *request) {
    static int answer;
    (void)none, (void)request;
    answer++;
    return &answer;
}

int *sum_1_svc(pair *given, struct svc_req *request) {
    static int answer;
    (void)request;
    answer = given->left + given->right;
    return &answer;
}

blob *reversed_1_svc(blob *given, struct svc_req *request) {
    static blob answer;
    (void)request;
    free(answer.blob_val);
    answer.blob_len = given->blob_len;
    answer.blob_val = malloc(given->blob_len + 1);
    for (u_int i = 0; i < given->blob_len; i++)
        answer.blob_val[i] = given->blob_val[given->blob_len - 1 - i];
    return &answer;
}

int *late_1_svc(int *milliseconds, struct svc_req *request) {
    (void)request;
    usleep(*milliseconds * 1000);
    return milliseconds;
}

int *death_1_svc(void *none, struct svc_req *request) {
    (void)none, (void)request;
    _exit(7);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static SVCXPRT *over_tcp(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) < 0 || listen(fd, 20) < 0)
        fail("listen");
    return svc_vc_create(fd, 0, 0);
}

static SVCXPRT *over_via(const struct sockaddr_in *address) {
#ifdef VIA
    int fd = sov_socket(AF_INET, SOCK_VIA, 0), one = 1;
    sov_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (sov_bind(fd, (const struct sockaddr *)address, sizeof *address) < 0 || sov_listen(fd, 20) < 0)
        fail("listen");
    return svc_via_create(fd, 0, 0);
#else
    (void)address;
    fprintf(stderr, "built without libsovia-rpc\n");
    exit(2);
#endif
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (argc < 2)
        return 2;
    address.sin_port = htons(atoi(argv[1]));
    SVCXPRT *transport = argc > 2 && !strcmp(argv[2], "via") ? over_via(&address) : over_tcp(&address);
    if (!transport || !svc_register(transport, SERVICE, FIRST, service_1, 0)) {
        fprintf(stderr, "the service cannot be registered\n");
        return 1;
    }
    svc_run();
    return 1;
}
