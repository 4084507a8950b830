/* Rank 1 is killed during long messages, while the other ranks wait for it. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, length = 8 << 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = calloc(1, (size_t)length), *in = calloc(1, (size_t)length);
    for (int i = 0;; i++) {
        MPI_Request requests[2];
        MPI_Isend(out, length, MPI_BYTE, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in, length, MPI_BYTE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
        if (rank == 1 && i == 20)
            kill(getpid(), SIGKILL);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}
