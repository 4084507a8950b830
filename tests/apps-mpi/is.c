/* IS, the integer sort of the NAS Parallel Benchmarks, written anew from their specification (NASA RNR-94-007,
   section 2.5): `is S|W|A`.
   Ranks the keys ten times, which takes an all-to-all of all keys. Compares the ranks of five keys with those of the
   benchmark in each iteration, and checks the sorted keys at the end. Prints millions of keys ranked a second. Ends
   with status 1 on any error. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 10, BUCKETS = 1024, TESTS = 5 };

struct class {
    char name;
    int log_keys, log_max;
    int index[TESTS], rank[TESTS];
    /* Of the tests, how many have their rank grow with the iteration, and what is added to the iteration for these and
       for the others. */
    int growing, grown, shrunk;
};

static const struct class classes[] = {
    {'S', 16, 11, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, 3, 0, 0},
    {'W', 20, 16, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}, 2, -2, 0},
    {'A', 23, 19, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}, 3, -1, -1},
};

static int me, ranks;

static void die(const char *what)
{
    fprintf(stderr, "is: rank %d: %s\n", me, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *get(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        die("no memory");
    return memory;
}

/* The benchmark's generator: x = 5^13 x mod 2^46. */
static const uint64_t factor = 1220703125, modulus = (1ull << 46) - 1;

static double next(uint64_t *x)
{
    *x = *x * factor & modulus;
    return (double)*x / (double)(1ull << 46);
}

static uint64_t power(uint64_t exponent)
{
    uint64_t result = 1, base = factor;
    for (; exponent; exponent >>= 1, base = base * base & modulus)
        if (exponent & 1)
            result = result * base & modulus;
    return result;
}

static int first_of(int rank, int keys) { return (int)((int64_t)keys * rank / ranks); }

static int owner_of(int index, int keys)
{
    int rank = 0;
    while (first_of(rank + 1, keys) <= index)
        rank++;
    return rank;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct class *class = NULL;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (argc == 2 && argv[1][0] == classes[i].name && !argv[1][1])
            class = &classes[i];
    if (!class || ranks > BUCKETS)
        die("usage: is S|W|A, with no more than 1024 ranks");
    const int keys = 1 << class->log_keys, max = 1 << class->log_max, shift = class->log_max - 10;
    const int first = first_of(me, keys), own = first_of(me + 1, keys) - first;

    int *key = get(own * sizeof *key), *sorted = get(own * sizeof *sorted);
    uint64_t x = 314159265 * power(4 * (uint64_t)first) & modulus;
    for (int i = 0; i < own; i++) {
        double sum = next(&x);
        for (int j = 0; j < 3; j++)
            sum += next(&x);
        key[i] = (int)(sum * (max / 4));
    }

    int *here = get(BUCKETS * sizeof *here), *all = get(BUCKETS * sizeof *all), *at = get(BUCKETS * sizeof *at);
    int *counts = get(ranks * sizeof *counts), *places = get(ranks * sizeof *places);
    int *their_counts = get(ranks * sizeof *their_counts), *their_places = get(ranks * sizeof *their_places);
    int *taken = NULL, *less = NULL, taken_count = 0, low = 0, high = 0, before = 0;
    int wrong = 0;
    double start = 0;
    /* The first iteration does not count. */
    for (int iteration = 0; iteration <= ITERATIONS; iteration++) {
        int turn = iteration ? iteration : 1;
        if (iteration == 1) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        for (int which = 0; which < 2; which++) {
            int index = turn + which * ITERATIONS;
            if (index >= first && index < first + own)
                key[index - first] = which ? max - turn : turn;
        }
        int test[TESTS];
        for (int i = 0; i < TESTS; i++) {
            int from = owner_of(class->index[i], keys);
            if (from == me)
                test[i] = key[class->index[i] - first];
            MPI_Bcast(&test[i], 1, MPI_INT, from, MPI_COMM_WORLD);
        }

        /* By buckets, which go to ranks in turn, so that each rank gets about as many keys. */
        memset(here, 0, BUCKETS * sizeof *here);
        for (int i = 0; i < own; i++)
            here[key[i] >> shift]++;
        MPI_Allreduce(here, all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        at[0] = 0;
        for (int i = 1; i < BUCKETS; i++)
            at[i] = at[i - 1] + here[i - 1];
        for (int i = 0; i < own; i++)
            sorted[at[key[i] >> shift]++] = key[i];
        memset(counts, 0, ranks * sizeof *counts);
        int64_t passed = 0;
        low = high = before = 0;
        for (int i = 0, rank = 0; i < BUCKETS; i++) {
            while (rank < ranks - 1 && passed >= (int64_t)keys * (rank + 1) / ranks) {
                rank++;
                if (rank == me) {
                    low = high = i << shift;
                    before = (int)passed;
                }
            }
            counts[rank] += here[i];
            passed += all[i];
            if (rank == me)
                high = (i + 1) << shift;
        }
        if (!high)
            low = high = max, before = keys;
        MPI_Alltoall(counts, 1, MPI_INT, their_counts, 1, MPI_INT, MPI_COMM_WORLD);
        places[0] = their_places[0] = 0;
        for (int i = 1; i < ranks; i++) {
            places[i] = places[i - 1] + counts[i - 1];
            their_places[i] = their_places[i - 1] + their_counts[i - 1];
        }
        taken_count = their_places[ranks - 1] + their_counts[ranks - 1];
        free(taken);
        taken = get(taken_count * sizeof *taken);
        MPI_Alltoallv(sorted, counts, places, MPI_INT, taken, their_counts, their_places, MPI_INT, MPI_COMM_WORLD);

        /* `less[k - low]` is the number of keys below k, of all ranks. */
        free(less);
        less = get((high - low + 1) * sizeof *less);
        memset(less, 0, (high - low + 1) * sizeof *less);
        for (int i = 0; i < taken_count; i++) {
            if (taken[i] < low || taken[i] >= high)
                die("a key came to the wrong rank");
            less[taken[i] - low + 1]++;
        }
        less[0] = before;
        for (int i = low; i < high; i++)
            less[i - low + 1] += less[i - low];

        for (int i = 0; i < TESTS; i++) {
            if (test[i] < low || test[i] >= high)
                continue;
            int expected = class->rank[i];
            expected += i < class->growing ? turn + class->grown : -(turn + class->shrunk);
            if (less[test[i] - low] != expected) {
                fprintf(stderr, "is: iteration %d, key %d has rank %d, not %d\n", turn, test[i], less[test[i] - low], expected);
                wrong++;
            }
        }
    }
    double seconds = MPI_Wtime() - start, longest;

    /* Checks that all keys are there, and that those of a rank are less than those of the next one. */
    int64_t count = taken_count, sum = 0, total[2], mine[2];
    for (int i = 0; i < own; i++)
        sum += key[i];
    for (int i = 0; i < taken_count; i++)
        sum -= taken[i];
    mine[0] = count, mine[1] = sum;
    MPI_Allreduce(mine, total, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (total[0] != keys || total[1] != 0 || less[high - low] != before + taken_count) {
        fprintf(stderr, "is: rank %d: keys are missing\n", me);
        wrong++;
    }
    int all_wrong;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (me == 0)
        printf("IS %c, %d ranks: %.2f million keys a second, %s\n", class->name, ranks, (double)ITERATIONS * keys / longest / 1e6,
               all_wrong ? "wrong" : "right");
    MPI_Finalize();
    return all_wrong != 0;
}
