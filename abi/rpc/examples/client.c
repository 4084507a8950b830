/* Asks the server of lengths.x: `client HOST via LINE`, `client HOST tcp LINE`. */
#include "lengths.h"
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s HOST via|tcp LINE\n", argv[0]);
        return 2;
    }
    CLIENT *client = clnt_create(argv[1], LENGTHS, LENGTHS_FIRST, argv[2]);
    if (!client) {
        clnt_pcreateerror(argv[1]);
        return 1;
    }
    for (int i = 0; i < 1000; i++) {
        int *length = length_of_1(&argv[3], client);
        if (!length) {
            clnt_perror(client, argv[1]);
            return 1;
        }
        if (i == 0)
            printf("%d bytes, says the server over %s\n", *length, argv[2]);
    }
    clnt_destroy(client);
    return 0;
}
