/* Serves lengths.x over the transport of that name: `server via`, `server tcp`. rpcbind tells clients where. */
#include "lengths.h"
#include <stdio.h>
#include <string.h>

/* rpcgen's, from lengths.x: `rpcgen -m`. */
void lengths_1(struct svc_req *request, SVCXPRT *transport);

int *length_of_1_svc(char **line, struct svc_req *request) {
    static int length;
    (void)request;
    length = (int)strlen(*line);
    return &length;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s via|tcp\n", argv[0]);
        return 2;
    }
    if (!svc_create(lengths_1, LENGTHS, LENGTHS_FIRST, argv[1]))
        return 1;
    printf("serving over %s\n", argv[1]);
    fflush(stdout);
    svc_run();
    return 1;
}
