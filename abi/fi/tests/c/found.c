/* Regression tests for what libfabric's own tests found, and near relatives: counters of regions, closed regions,
 * messages sent just before an exit. */
#include "pair.h"

/* A region's counter counts every kind of write by peers. Waiting for the counter makes progress by itself. */
static void counters_of_regions(void)
{
    static const size_t lengths[] = {8, 16384, 16385, 1000000};
    enum { KEY = 40, WRITES = 4 + 2 };
    unsigned char *memory = calloc(1, MOST);
    struct fid_mr *mr;
    struct fid_cntr *written;
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    IS(fi_mr_reg(domain, memory, MOST, access, 0, KEY, 0, &mr, NULL), 0);
    struct fi_cntr_attr other = {.events = FI_CNTR_EVENTS_COMP + 1}, waited = {.wait_obj = FI_WAIT_FD};
    IS(fi_cntr_open(domain, &other, &written, NULL), -FI_ENOSYS);
    IS(fi_cntr_open(domain, &waited, &written, NULL), -FI_ENOSYS);
    IS(fi_cntr_open(domain, &attr, &written, NULL), 0);
    IS(fi_mr_bind(mr, &written->fid, FI_REMOTE_WRITE), 0);
    meet();
    if (side == 0) {
        uint64_t one = 1, before;
        for (int i = 0; i < 4; i++) {
            fill(out, lengths[i], i);
            OK(fi_write(ep, out, lengths[i], NULL, peer, 8, KEY, NULL));
            IS(done().flags, FI_RMA | FI_WRITE);
        }
        OK(fi_atomic(ep, &one, 1, NULL, peer, 0, KEY, FI_UINT64, FI_SUM, NULL));
        done();
        OK(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, peer, 0, KEY, FI_UINT64, FI_SUM, NULL));
        done();
        IS(before, 1);
        /* Reads are not counted. */
        OK(fi_read(ep, in, 100000, NULL, peer, 0, KEY, NULL));
        IS(done().flags, FI_RMA | FI_READ);
    } else {
        while (fi_cntr_read(written) < WRITES)
            ;
        CHECK(is_filled(memory + 8, lengths[3], 3) && memory[0] == 2);
    }
    meet();
    IS(fi_cntr_read(written), side == 0 ? 0 : WRITES);
    IS(fi_close(&written->fid), -FI_EBUSY);
    IS(fi_close(&mr->fid), 0);
    IS(fi_close(&written->fid), 0);
    free(memory);
}

/* A region closed while a peer writes to it does not change from then on, and the peer gets an error. */
static void taken_back(void)
{
    enum { KEY = 41, SEED = 5 };
    meet();
    if (side == 0) {
        meet();
        fill(out, MOST, SEED);
        OK(fi_write(ep, out, MOST, NULL, peer, 0, KEY, (void *)7));
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error = {0};
        ssize_t n;
        while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
            ;
        if (n < 0) {
            IS(fi_cq_readerr(cq, &error, 0), 1);
            CHECK(error.op_context == (void *)7);
            IS(error.err, FI_EKEYREJECTED);
        }
        char whole = n == 1;
        CHECK(send(peer_socket, &whole, 1, 0) == 1);
    } else {
        unsigned char *memory = calloc(1, MOST), *copy = malloc(MOST);
        struct fid_mr *mr;
        IS(fi_mr_reg(domain, memory, MOST, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
        meet();
        while (!memory[0])
            fi_cntr_read(counters[0]);
        IS(fi_close(&mr->fid), 0);
        memcpy(copy, memory, MOST);
        /* A new region with the same key is another region. */
        IS(fi_mr_reg(domain, in, MOST, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
        memset(in, 0, MOST);
        char whole;
        while (recv(peer_socket, &whole, 1, MSG_DONTWAIT) != 1)
            fi_cntr_read(counters[0]);
        CHECK(memcmp(copy, memory, MOST) == 0);
        CHECK(!whole || is_filled(memory, MOST, SEED));
        for (size_t i = 0; i < MOST; i++)
            CHECK(in[i] == 0);
        IS(fi_close(&mr->fid), 0);
        free(memory);
        free(copy);
    }
    meet();
    nothing();
}

/* A process answers a peer and ends. Its messages arrive even if it connects and ends between two polls of the peer. */
static void last_words(void)
{
    enum { N = 20 };
    if (side == 1) {
        OK(fi_trecv(ep, in, 100, NULL, peer, 60, 0, NULL));
        IS(done().len, 5);
        for (int i = 0; i < N; i++) {
            fill(out, 1000, i);
            OK(fi_tsend(ep, out, 1000, NULL, peer, 61, NULL));
            done();
        }
        end();
        exit(0);
    }
    OK(fi_tsend(ep, "first", 5, NULL, peer, 60, NULL));
    done();
    int status;
    while (getenv("FI_SOVIA_SHM") && !waitpid(peer_process, &status, WNOHANG))
        fi_cntr_read(counters[0]);
    if (!getenv("FI_SOVIA_SHM"))
        CHECK(waitpid(peer_process, &status, 0) == peer_process);
    IS(status, 0);
    for (int i = 0; i < N; i++) {
        OK(fi_trecv(ep, in, 1000, NULL, peer, 61, 0, NULL));
        IS(done().len, 1000);
        CHECK(is_filled(in, 1000, i));
    }
    OK(fi_trecv(ep, in, 1000, NULL, peer, 61, 0, NULL));
    IS(failed().err, FI_ECONNRESET);
}

static const struct check cases[] = {
    {"taken back", taken_back},
    {"counters of regions", counters_of_regions},
    {"last words", last_words},
};

int main(int argc, char **argv)
{
    return run(cases, sizeof cases / sizeof *cases, last_words, argc, argv);
}
