// SIZE ROUNDS: a message of so many bytes goes to the other process and back. Prints round trips per second.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

// Another pattern in each round.
static unsigned char at(long round, long place) { return (unsigned char)(round * 31 + place * 7 + (place >> 8)); }

int main(int count, char **words) {
    MPI_Init(&count, &words);
    long size = atol(words[1]), rounds = atol(words[2]);
    int own;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    unsigned char *message = malloc(size);
    double begun = MPI_Wtime();
    for (long round = 0; round < rounds; round++) {
        if (own == 0) {
            for (long place = 0; place < size; place++) message[place] = at(round, place);
            MPI_Send(message, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            for (long place = 0; place < size; place += 64) message[place] = 0;
            MPI_Recv(message, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (long place = 0; place < size; place++)
                if (message[place] != at(round, place)) {
                    fprintf(stderr, "message %ld differs at byte %ld\n", round, place);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
        } else {
            MPI_Recv(message, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    if (own == 0) printf("%f\n", rounds / (MPI_Wtime() - begun));
    MPI_Finalize();
}
