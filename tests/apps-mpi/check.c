/* Checks the results of functions that MPI specifies: types, wildcards, probes, cancels, synchronous sends, long
   messages, messages to oneself, layouts with gaps, collectives, one-sided windows.
   `check CASE...` runs these cases; without a case it runs all. Prints a line for each case that is right. Ends with
   a status other than 0 at the first that is not. */
#include <mpi.h>
#include <complex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: rank %d: %s\n", file, line, rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition))

static unsigned char pattern(size_t i, int seed)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)seed * 17);
}

static void fill(unsigned char *bytes, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(i, seed);
}

static int is_filled(const unsigned char *bytes, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != pattern(i, seed))
            return 0;
    return 1;
}

static int next(void) { return (rank + 1) % size; }
static int previous(void) { return (rank + size - 1) % size; }

/* Sends every length from zero to some megabytes, around the sizes at which the transport changes. */
static void lengths(void)
{
    static const size_t some[] = {0, 1, 3, 4, 7, 8, 9, 31, 32, 33, 39, 40, 41, 63, 64, 65, 100, 255, 256, 1000, 4095, 4096,
                                  4097, 8191, 8192, 16383, 16384, 16385, 32768, 65535, 65536, 65537, 262144, 1000003, 4194304};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        size_t n = some[i];
        unsigned char *out = malloc(n + 1), *in = malloc(n + 1);
        fill(out, n, rank);
        memset(in, 0xee, n + 1);
        MPI_Status status;
        MPI_Sendrecv(out, (int)n, MPI_BYTE, next(), 11, in, (int)n + 1, MPI_BYTE, previous(), 11, MPI_COMM_WORLD, &status);
        int count;
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == (int)n && status.MPI_SOURCE == previous() && status.MPI_TAG == 11);
        CHECK(is_filled(in, n, previous()) && in[n] == 0xee);
        free(out);
        free(in);
    }
}

static void large(void)
{
    size_t n = 64u << 20;
    unsigned char *bytes = malloc(n);
    if (rank == 0) {
        fill(bytes, n, 5);
        for (int to = 1; to < size; to++)
            MPI_Send(bytes, (int)n, MPI_BYTE, to, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(bytes, (int)n, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(is_filled(bytes, n, 5));
    }
    free(bytes);
}

/* Many messages of all lengths under way at once, in both directions. */
static void crowd(void)
{
    enum { N = 200 };
    MPI_Request requests[2 * N];
    unsigned char *out[N], *in[N];
    for (int i = 0; i < N; i++) {
        size_t n = (size_t)(i * i * 13 % 70000);
        in[i] = malloc(n + 1);
        out[i] = malloc(n + 1);
        fill(out[i], n, rank + i);
        MPI_Irecv(in[i], (int)n, MPI_BYTE, previous(), i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = N; i-- > 0;)
        MPI_Isend(out[i], (int)((size_t)i * i * 13 % 70000), MPI_BYTE, next(), i, MPI_COMM_WORLD, &requests[N + i]);
    MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) {
        CHECK(is_filled(in[i], (size_t)(i * i * 13 % 70000), previous() + i));
        free(in[i]);
        free(out[i]);
    }
}

/* A flood of messages without receives, which are then received in order. */
static void flood(void)
{
    enum { N = 20000 };
    if (rank == 0) {
        for (int to = 1; to < size; to++)
            for (int i = 0; i < N; i++)
                MPI_Send(&i, 1, MPI_INT, to, i % 3, MPI_COMM_WORLD);
        for (int to = 1; to < size; to++)
            MPI_Send(NULL, 0, MPI_INT, to, 9, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int tag = 2; tag >= 0; tag--)
            for (int i = tag; i < N; i += 3) {
                int got = -1;
                MPI_Recv(&got, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK(got == i);
            }
    }
}

static void wildcards(void)
{
    if (rank == 0) {
        int seen[64] = {0};
        for (int i = 0; i < 3 * (size - 1); i++) {
            int value;
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK(value == status.MPI_SOURCE * 100 + status.MPI_TAG);
            /* Messages of one source arrive in their order. */
            CHECK(status.MPI_TAG == seen[status.MPI_SOURCE]++);
        }
    } else {
        for (int tag = 0; tag < 3; tag++) {
            int value = rank * 100 + tag;
            MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* A receive from any source does not overtake an older one from one source. */
    if (rank == 0 && size > 1) {
        int a = -1, b = -1;
        MPI_Request requests[2];
        MPI_Irecv(&a, 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&b, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &requests[1]);
        MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(a == 1 && b == 2);
    } else if (rank == 1) {
        int a = 1, b = 2;
        MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&a, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        MPI_Send(&b, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
    }
}

static void probes(void)
{
    int flag;
    MPI_Status status;
    MPI_Message message;
    MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag);
    MPI_Improbe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    static const int lengths[] = {0, 5, 3000, 100000};
    for (int i = 0; i < 4; i++) {
        int n = lengths[i], count;
        unsigned char *out = malloc((size_t)n + 1), *in = malloc((size_t)n + 1);
        fill(out, (size_t)n, rank + i);
        MPI_Request requests[2];
        MPI_Isend(out, n, MPI_BYTE, next(), 30, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, n, MPI_BYTE, next(), 31, MPI_COMM_WORLD, &requests[1]);
        MPI_Probe(MPI_ANY_SOURCE, 31, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n && status.MPI_SOURCE == previous() && status.MPI_TAG == 31);
        MPI_Mprobe(previous(), MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n && status.MPI_TAG == 30);
        /* A message that was taken is not found again. */
        MPI_Iprobe(previous(), 30, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag);
        MPI_Recv(in, n, MPI_BYTE, previous(), 31, MPI_COMM_WORLD, &status);
        CHECK(is_filled(in, (size_t)n, previous() + i));
        memset(in, 0, (size_t)n);
        MPI_Mrecv(in, n, MPI_BYTE, &message, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n && is_filled(in, (size_t)n, previous() + i));
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        free(out);
        free(in);
        /* Later messages must not arrive before all ranks have probed. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void cancels(void)
{
    int value = -1, cancelled;
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < 100; i++) {
        MPI_Irecv(&value, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : previous(), 99, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled && value == -1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Messages that arrived meanwhile are not lost. */
    int out = rank;
    MPI_Sendrecv(&out, 1, MPI_INT, next(), 99, &value, 1, MPI_INT, previous(), 99, MPI_COMM_WORLD, &status);
    CHECK(value == previous());
}

static void synchronous(void)
{
    int value = rank, got, flag;
    MPI_Request request;
    MPI_Issend(&value, 1, MPI_INT, next(), 40, MPI_COMM_WORLD, &request);
    if (size > 1) {
        /* No rank receives it before the barrier. */
        for (int i = 0; i < 1000; i++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Recv(&got, 1, MPI_INT, previous(), 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == previous());
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (size > 1) {
        size_t n = 300000;
        unsigned char *bytes = malloc(n);
        if (rank % 2 == 0 && rank + 1 < size) {
            fill(bytes, n, 3);
            MPI_Ssend(bytes, (int)n, MPI_BYTE, rank + 1, 41, MPI_COMM_WORLD);
        } else if (rank % 2 == 1) {
            MPI_Recv(bytes, (int)n, MPI_BYTE, rank - 1, 41, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(is_filled(bytes, n, 3));
        }
        free(bytes);
    }
    /* Buffered and ready sends. */
    int room = 1 << 16;
    void *buffer = malloc((size_t)room);
    MPI_Buffer_attach(buffer, room);
    MPI_Irecv(&got, 1, MPI_INT, previous(), 42, MPI_COMM_WORLD, &request);
    MPI_Bsend(&value, 1, MPI_INT, next(), 42, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == previous());
    MPI_Buffer_detach(&buffer, &room);
    free(buffer);
    MPI_Irecv(&got, 1, MPI_INT, previous(), 43, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Rsend(&value, 1, MPI_INT, next(), 43, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == previous());
}

static void oneself(void)
{
    for (size_t n = 1; n <= 1 << 20; n *= 16) {
        unsigned char *out = malloc(n), *in = malloc(n);
        fill(out, n, (int)n);
        MPI_Request requests[2];
        MPI_Irecv(in, (int)n, MPI_BYTE, rank, 50, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, (int)n, MPI_BYTE, rank, 50, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(is_filled(in, n, (int)n));
        memset(in, 0, n);
        MPI_Isend(out, (int)n, MPI_BYTE, rank, 51, MPI_COMM_WORLD, &requests[0]);
        MPI_Recv(in, (int)n, MPI_BYTE, MPI_ANY_SOURCE, 51, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        CHECK(is_filled(in, n, (int)n));
        free(out);
        free(in);
    }
}

static void truncation(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    static const int lengths[] = {100, 20000};
    for (int i = 0; i < 2; i++) {
        int n = lengths[i];
        unsigned char *out = malloc((size_t)n), *in = malloc((size_t)n);
        fill(out, (size_t)n, 1);
        memset(in, 0xee, (size_t)n);
        MPI_Request request;
        MPI_Isend(out, n, MPI_BYTE, next(), 60, comm, &request);
        int class, code = MPI_Recv(in, n / 2, MPI_BYTE, previous(), 60, comm, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        for (int at = n / 2; at < n; at++)
            CHECK(in[at] == 0xee);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(out);
        free(in);
    }
    MPI_Comm_free(&comm);
}

static void layouts(void)
{
    enum { ROWS = 300, COLUMNS = 257 };
    static double matrix[ROWS][COLUMNS], other[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            matrix[i][j] = rank * 1e6 + i * 1000 + j, other[i][j] = -1;
    MPI_Datatype column, pieces, mixed;
    MPI_Type_vector(ROWS, 3, COLUMNS, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(&matrix[0][5], 1, column, next(), 70, &other[0][5], 1, column, previous(), 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            CHECK(other[i][j] == (j >= 5 && j < 8 ? previous() * 1e6 + i * 1000 + j : -1));
    /* Sent with gaps, received without. */
    static double dense[ROWS * 3];
    MPI_Sendrecv(&matrix[0][5], 1, column, next(), 71, dense, ROWS * 3, MPI_DOUBLE, previous(), 71, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS * 3; i++)
        CHECK(dense[i] == previous() * 1e6 + i / 3 * 1000 + 5 + i % 3);
    int counts[] = {1, 2, 1}, places[] = {0, 3, 9};
    MPI_Type_indexed(3, counts, places, MPI_INT, &pieces);
    MPI_Type_commit(&pieces);
    int out[30], in[30];
    for (int i = 0; i < 30; i++)
        out[i] = rank * 100 + i, in[i] = -1;
    MPI_Sendrecv(out, 2, pieces, next(), 72, in, 2, pieces, previous(), 72, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 20; i++) {
        int at = i % 10, is_sent = at == 0 || at == 3 || at == 4 || at == 9;
        CHECK(in[i] == (is_sent ? previous() * 100 + i : -1));
    }
    struct { char c; double d; short s; } a = {(char)rank, rank + 0.5, (short)(rank + 7)}, b = {0};
    MPI_Aint at[] = {(char *)&a.c - (char *)&a, (char *)&a.d - (char *)&a, (char *)&a.s - (char *)&a};
    int ones[] = {1, 1, 1};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    MPI_Type_create_struct(3, ones, at, types, &mixed);
    MPI_Type_commit(&mixed);
    MPI_Sendrecv(&a, 1, mixed, next(), 73, &b, 1, mixed, previous(), 73, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(b.c == (char)previous() && b.d == previous() + 0.5 && b.s == previous() + 7);
    MPI_Type_free(&column);
    MPI_Type_free(&pieces);
    MPI_Type_free(&mixed);
}

#define TYPE(type, mpi)                                                                                                     \
    do {                                                                                                                    \
        type own = (type)(rank + 1), sum = 0, most = 0, in = 0;                                                             \
        MPI_Allreduce(&own, &sum, 1, mpi, MPI_SUM, MPI_COMM_WORLD);                                                         \
        MPI_Allreduce(&own, &most, 1, mpi, MPI_MAX, MPI_COMM_WORLD);                                                        \
        MPI_Sendrecv(&own, 1, mpi, next(), 80, &in, 1, mpi, previous(), 80, MPI_COMM_WORLD, MPI_STATUS_IGNORE);             \
        CHECK(sum == (type)(size * (size + 1) / 2) && most == (type)size && in == (type)(previous() + 1));                  \
    } while (0)

static void types(void)
{
    TYPE(signed char, MPI_SIGNED_CHAR);
    TYPE(unsigned char, MPI_UNSIGNED_CHAR);
    TYPE(short, MPI_SHORT);
    TYPE(unsigned short, MPI_UNSIGNED_SHORT);
    TYPE(int, MPI_INT);
    TYPE(unsigned, MPI_UNSIGNED);
    TYPE(long, MPI_LONG);
    TYPE(unsigned long, MPI_UNSIGNED_LONG);
    TYPE(long long, MPI_LONG_LONG);
    TYPE(float, MPI_FLOAT);
    TYPE(double, MPI_DOUBLE);
    TYPE(long double, MPI_LONG_DOUBLE);
    TYPE(int8_t, MPI_INT8_T);
    TYPE(uint16_t, MPI_UINT16_T);
    TYPE(int32_t, MPI_INT32_T);
    TYPE(uint64_t, MPI_UINT64_T);
    double complex z = rank + 1 + I * rank, total = 0;
    MPI_Allreduce(&z, &total, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
    CHECK(creal(total) == size * (size + 1) / 2 && cimag(total) == size * (size - 1) / 2);
    struct { double value; int at; } mine = {rank % 2 ? -rank : rank, rank}, least;
    MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    int last_odd = size % 2 == 0 ? size - 1 : size - 2;
    CHECK(size < 2 || (least.at == last_odd && least.value == -last_odd));
}

static void collectives(void)
{
    static const int lengths[] = {1, 7, 1000, 50000};
    for (int l = 0; l < 4; l++) {
        int n = lengths[l];
        int *a = malloc((size_t)n * (size_t)size * sizeof *a), *b = malloc((size_t)n * (size_t)size * sizeof *b);
        for (int root = 0; root < size; root++) {
            for (int i = 0; i < n; i++)
                a[i] = rank == root ? root + i : -1;
            MPI_Bcast(a, n, MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < n; i++)
                CHECK(a[i] == root + i);
            for (int i = 0; i < n; i++)
                a[i] = rank * 3 + i;
            MPI_Gather(a, n, MPI_INT, b, n, MPI_INT, root, MPI_COMM_WORLD);
            if (rank == root)
                for (int i = 0; i < n * size; i++)
                    CHECK(b[i] == i / n * 3 + i % n);
            for (int i = 0; i < n * size; i++)
                b[i] = rank == root ? root * 7 + i : 0;
            MPI_Scatter(b, n, MPI_INT, a, n, MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < n; i++)
                CHECK(a[i] == root * 7 + rank * n + i);
            for (int i = 0; i < n; i++)
                a[i] = rank + i;
            MPI_Reduce(a, b, n, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
            if (rank == root)
                for (int i = 0; i < n; i++)
                    CHECK(b[i] == size * (size - 1) / 2 + i * size);
        }
        for (int i = 0; i < n; i++)
            a[i] = rank * i;
        MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == size * (size - 1) / 2 * i);
        MPI_Allgather(a, n, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < n * size; i++)
            CHECK(b[i] == i / n * (i % n));
        for (int i = 0; i < n * size; i++)
            a[i] = rank * 1000003 + i;
        MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < n * size; i++)
            CHECK(b[i] == i / n * 1000003 + rank * n + i % n);
        MPI_Scan(a, b, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == rank * 1000003 + i);
        MPI_Request request;
        MPI_Iallreduce(a, b, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == (size - 1) * 1000003 + i);
        free(a);
        free(b);
    }
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int its_rank, its_size, sum;
    MPI_Comm_rank(half, &its_rank);
    MPI_Comm_size(half, &its_size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    int expected = 0;
    for (int i = rank % 2; i < size; i += 2)
        expected += i;
    CHECK(sum == expected && its_size == (size + 1 - rank % 2) / 2);
    MPI_Comm_free(&half);
}

static void windows(void)
{
    enum { N = 5000 };
    long *memory;
    MPI_Win window;
    MPI_Win_allocate(N * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (int i = 0; i < N; i++)
        memory[i] = rank * 10;
    MPI_Win_fence(0, window);
    static long out[N], in[N];
    for (int i = 0; i < N; i++)
        out[i] = rank + i * 10L;
    MPI_Put(out, N / 2, MPI_LONG, next(), 0, N / 2, MPI_LONG, window);
    MPI_Get(in, N / 2, MPI_LONG, previous(), N / 2, N / 2, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < N / 2; i++)
        CHECK(memory[i] == previous() + i * 10L && in[i] == previous() * 10);
    MPI_Win_fence(0, window);
    long one = rank + 1, before;
    for (int i = 0; i < 50; i++)
        MPI_Accumulate(&one, 1, MPI_LONG, 0, N - 1, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    if (rank == 0)
        CHECK(memory[N - 1] == 50L * size * (size + 1) / 2);
    MPI_Win_fence(0, window);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < 20; i++) {
        long add = 1;
        MPI_Fetch_and_op(&add, &before, MPI_LONG, 0, N - 2, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        CHECK(memory[N - 2] == 20L * size);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
}

static const struct { const char *name; void (*run)(void); } cases[] = {
    {"lengths", lengths},     {"large", large},       {"crowd", crowd},           {"flood", flood},
    {"wildcards", wildcards}, {"probes", probes},     {"cancels", cancels},       {"synchronous", synchronous},
    {"oneself", oneself},     {"layouts", layouts},   {"types", types},           {"collectives", collectives},
    {"truncation", truncation}, {"windows", windows},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int wanted = argc == 1;
        for (int j = 1; j < argc; j++)
            wanted |= strcmp(argv[j], cases[i].name) == 0;
        if (!wanted)
            continue;
        cases[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%s: right\n", cases[i].name);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
