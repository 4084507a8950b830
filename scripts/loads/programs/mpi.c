// SIZE ROUNDS: a message of so many bytes goes to the other process and back. Prints round trips per second.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
    MPI_Init(&count, &words);
    size_t size = strtoul(words[1], NULL, 10), rounds = strtoul(words[2], NULL, 10);
    int own;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    unsigned char *sent = malloc(size), *got = malloc(size);
    for (size_t place = 0; place < size; place++) sent[place] = (unsigned char)(place * 7 + (place >> 8) * 31);
    double begun = MPI_Wtime();
    for (size_t round = 0; round < rounds; round++) {
        if (own == 0) {
            // So that a message of an earlier round is not right.
            for (size_t place = 0; place < size; place += 4096) sent[place] = (unsigned char)(round + place);
            MPI_Send(sent, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(got, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (memcmp(sent, got, size)) {
                fprintf(stderr, "message %zu differs\n", round);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        } else {
            MPI_Recv(got, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(got, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    if (own == 0) printf("%f\n", rounds / (MPI_Wtime() - begun));
    MPI_Finalize();
}
