/* Measures the time of collective operations, like OSU's benchmarks: `collectives [ROUNDS]`. Prints a line for each
   operation and size: microseconds, the mean of all ranks. Checks each result. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 16 };

static int me, ranks, wrong;
static int *from, *to;

static void barrier(int count)
{
    (void)count;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(int count) { MPI_Bcast(from, count, MPI_INT, 0, MPI_COMM_WORLD); }
static void allreduce(int count) { MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); }
static void allgather(int count) { MPI_Allgather(from, count, MPI_INT, to, count, MPI_INT, MPI_COMM_WORLD); }
static void alltoall(int count) { MPI_Alltoall(from, count, MPI_INT, to, count, MPI_INT, MPI_COMM_WORLD); }

static void expect(int found, int expected) { wrong += found != expected; }

static void check_bcast(int count)
{
    for (int i = 0; i < count; i++)
        expect(from[i], i);
}

static void check_allreduce(int count)
{
    for (int i = 0; i < count; i++)
        expect(to[i], ranks * i + ranks * (ranks - 1) / 2);
}

static void check_allgather(int count)
{
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < count; i++)
            expect(to[rank * count + i], rank + i);
}

static void check_alltoall(int count)
{
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < count; i++)
            expect(to[rank * count + i], rank + me * count + i);
}

static const struct {
    const char *name;
    void (*call)(int), (*check)(int);
} operations[] = {
    {"barrier", barrier, NULL},
    {"bcast", bcast, check_bcast},
    {"allreduce", allreduce, check_allreduce},
    {"allgather", allgather, check_allgather},
    {"alltoall", alltoall, check_alltoall},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int rounds = argc > 1 ? atoi(argv[1]) : 10000;
    from = malloc(sizeof *from * ranks * LONGEST / 4);
    to = malloc(sizeof *to * ranks * LONGEST / 4);
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        static const int sizes[] = {4, 1024, LONGEST};
        for (size_t s = 0; s < (operations[o].check ? sizeof sizes / sizeof *sizes : 1); s++) {
            const int count = sizes[s] / 4, turns = 1 + rounds / (1 + sizes[s] / 4096);
            for (int i = 0; i < ranks * count; i++)
                from[i] = me + i;
            double start = 0, took, all;
            for (int turn = -turns / 10; turn < turns; turn++) {
                if (turn == 0) {
                    MPI_Barrier(MPI_COMM_WORLD);
                    start = MPI_Wtime();
                }
                operations[o].call(count);
            }
            took = (MPI_Wtime() - start) / turns * 1e6;
            if (operations[o].check)
                operations[o].check(count);
            MPI_Reduce(&took, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
            if (me == 0)
                printf("%s %d B %.2f us\n", operations[o].name, operations[o].check ? sizes[s] : 0, all / ranks);
        }
    }
    int all_wrong;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (all_wrong && me == 0)
        fprintf(stderr, "collectives: %d numbers are wrong\n", all_wrong);
    MPI_Finalize();
    return all_wrong != 0;
}
