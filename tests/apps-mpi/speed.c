/* Measures latency, bandwidth and message rate of two ranks, like OSU's benchmarks: `speed [ROUNDS [LARGEST]]`. With
   SPEED_PRIORITY in the environment, both ranks have a real-time priority while they measure.
   Prints for each size nanoseconds of half a round trip, bandwidth in MB/s with 64 messages under way, and
   millions of messages a second. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 };

static int rank;
static char *bytes;
static MPI_Request requests[WINDOW];

static double latency(int size, int rounds)
{
    double start = 0;
    for (int i = -rounds / 10; i < rounds; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        if (rank == 0) {
            MPI_Send(bytes, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(bytes, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(bytes, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(bytes, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / rounds / 2;
}

/* Seconds for each message. */
static double flow(int size, int rounds)
{
    double start = 0;
    for (int i = -rounds / 10 - 1; i < rounds; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        for (int j = 0; j < WINDOW; j++)
            if (rank == 0)
                MPI_Isend(bytes, size, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[j]);
            else
                MPI_Irecv(bytes, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[j]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / rounds / WINDOW;
}

static void priority(int is_on)
{
    struct sched_param param = {.sched_priority = is_on ? 10 : 0};
    if (getenv("SPEED_PRIORITY") && sched_setscheduler(0, is_on ? SCHED_FIFO : SCHED_OTHER, &param))
        perror("sched_setscheduler");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int rounds = argc > 1 ? atoi(argv[1]) : 100000, most = argc > 2 ? atoi(argv[2]) : 4 << 20;
    static const int sizes[] = {0, 4, 64, 1024, 8192, 16384, 65536, 262144, 1 << 20, 4 << 20};
    bytes = malloc(4 << 20);
    memset(bytes, rank + 1, 4 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++) {
        int size = sizes[i], fewer = 1 + size / 4096;
        priority(1);
        double one_way = latency(size, 10 + rounds / fewer), each = flow(size, 2 + rounds / 20 / fewer);
        priority(0);
        if (rank == 0)
            printf("%8d B %10.1f ns %10.1f MB/s %8.3f M/s\n", size, one_way * 1e9, size / each / 1e6, 1e-6 / each);
    }
    MPI_Finalize();
    return 0;
}
