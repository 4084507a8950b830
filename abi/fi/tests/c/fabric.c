/* Checks between two processes that a reliable datagram endpoint keeps libfabric's promises. */
#include "pair.h"

static void messages(void)
{
    static const size_t lengths[] = {0, 1, 40, 41, 1000, 16384, 16385, 65536, 1000003, MOST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        fill(out, n, side + (int)i);
        memset(in, 0, n);
        /* Sends with a tag and data. */
        OK(fi_trecv(ep, in, n, NULL, peer, 0xabcd0000 | i, 0, (void *)1));
        OK(fi_tsenddata(ep, out, n, NULL, 77 + i, peer, 0xabcd0000 | i, (void *)2));
        for (int seen = 0; seen != 3;) {
            struct fi_cq_tagged_entry entry = done();
            seen |= (int)(intptr_t)entry.op_context;
            if (entry.op_context == (void *)1) {
                IS(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
                CHECK(entry.len == n && entry.data == 77 + i && entry.tag == (0xabcd0000 | i));
            } else {
                IS(entry.flags, FI_SEND | FI_TAGGED);
            }
        }
        CHECK(is_filled(in, n, !side + (int)i));
        memset(in, 0, n);
        /* Sends without a tag, in pieces of other lengths at each end. The receive is posted after
         * the message has arrived. */
        struct iovec from[] = {{out, n / 3}, {out + n / 3, n - n / 3}};
        struct iovec to[] = {{in, n / 2}, {in + n / 2, n / 4}, {in + n / 2 + n / 4, n - n / 2 - n / 4}};
        OK(fi_sendv(ep, from, NULL, 2, peer, (void *)2));
        meet();
        OK(fi_recvv(ep, to, NULL, 3, FI_ADDR_UNSPEC, (void *)1));
        for (int seen = 0; seen != 3;)
            seen |= (int)(intptr_t)done().op_context;
        CHECK(is_filled(in, n, !side + (int)i));
        meet();
    }
    /* An injected buffer can be reused at once, and its send makes no completion. */
    for (int i = 0; i < 1000; i++) {
        uint64_t value = (uint64_t)i;
        OK(fi_tinject(ep, &value, sizeof value, peer, 5));
        value = ~value;
        OK(fi_injectdata(ep, &i, sizeof i, 9, peer));
    }
    for (int i = 0; i < 1000; i++) {
        uint64_t value = 0;
        int other = 0;
        OK(fi_trecv(ep, &value, sizeof value, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
        IS(done().len, sizeof value);
        CHECK(value == (uint64_t)i);
        OK(fi_recv(ep, &other, sizeof other, NULL, peer, NULL));
        IS(done().data, 9);
        IS(other, i);
    }
    meet();
    nothing();
    IS(fi_tinject(ep, out, info->tx_attr->inject_size + 1, peer, 5), -FI_EMSGSIZE);
}

static void sources(void)
{
    uint64_t value = 3;
    fi_addr_t source;
    struct fi_cq_tagged_entry entry;
    OK(fi_tinject(ep, &value, sizeof value, peer, 1));
    OK(fi_trecv(ep, &value, sizeof value, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
    ssize_t n;
    while ((n = fi_cq_readfrom(cq, &entry, 1, &source)) == -FI_EAGAIN)
        ;
    IS(n, 1);
    CHECK(source == peer);
    IS(fi_trecv(ep, &value, sizeof value, NULL, 1234, 0, 0, NULL), -FI_EINVAL);
}

static void probes(void)
{
    static const size_t lengths[] = {100, 100000};
    for (int i = 0; i < 2; i++) {
        size_t n = lengths[i];
        fill(out, n, side);
        struct iovec to = {in, n};
        struct fi_msg_tagged msg = {.msg_iov = &to, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 8, .context = (void *)4};
        OK(fi_trecvmsg(ep, &msg, FI_PEEK));
        IS(failed().err, FI_ENOMSG);
        meet();
        for (uint64_t tag = 8; tag < 11; tag++)
            OK(fi_tsend(ep, out, n, NULL, peer, tag, (void *)1));
        meet();
        struct fi_cq_tagged_entry entry;
        int sent = 0;
        OK(fi_trecvmsg(ep, &msg, FI_PEEK));
        while ((entry = done()).op_context != (void *)4)
            sent++;
        CHECK(entry.len == n && entry.tag == 8);
        OK(fi_trecvmsg(ep, &msg, FI_PEEK | FI_CLAIM));
        while ((entry = done()).op_context != (void *)4)
            sent++;
        OK(fi_trecvmsg(ep, &msg, FI_PEEK));
        struct fi_cq_err_entry error = {0};
        for (ssize_t got; (got = fi_cq_read(cq, &entry, 1)) != -FI_EAVAIL;)
            sent += got == 1;
        IS(fi_cq_readerr(cq, &error, 0), 1);
        IS(error.err, FI_ENOMSG);
        msg.tag = 9;
        OK(fi_trecvmsg(ep, &msg, FI_PEEK | FI_DISCARD));
        while ((entry = done()).op_context != (void *)4)
            sent++;
        memset(in, 0, n);
        OK(fi_trecvmsg(ep, &msg, FI_CLAIM));
        while ((entry = done()).op_context != (void *)4)
            sent++;
        CHECK(entry.len == n && is_filled(in, n, !side));
        memset(in, 0, n);
        OK(fi_trecv(ep, in, n, NULL, peer, 10, 0, (void *)4));
        while ((entry = done()).op_context != (void *)4)
            sent++;
        CHECK(entry.len == n && is_filled(in, n, !side));
        while (sent < 3) {
            IS(done().op_context, 1);
            sent++;
        }
        meet();
    }
}

static void cancels(void)
{
    OK(fi_trecv(ep, in, 8, NULL, peer, 1, 0, (void *)1));
    OK(fi_trecv(ep, in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, (void *)2));
    OK(fi_recv(ep, in, 8, NULL, peer, (void *)3));
    for (intptr_t i = 3; i > 0; i--) {
        IS(fi_cancel(&ep->fid, (void *)i), 0);
        struct fi_cq_err_entry error = failed();
        IS(error.err, FI_ECANCELED);
        IS(error.op_context, i);
    }
    IS(fi_cancel(&ep->fid, (void *)1), -FI_ENOENT);
}

static void truncation(void)
{
    static const size_t lengths[] = {30, 5000, 200000};
    for (int i = 0; i < 3; i++) {
        size_t n = lengths[i];
        fill(out, n, side);
        memset(in, 0xee, n);
        OK(fi_trecv(ep, in, n - 10, NULL, peer, 3, 0, (void *)1));
        meet();
        OK(fi_tsend(ep, out, n, NULL, peer, 3, (void *)2));
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error = {0};
        /* The sender gets no error, because its message has arrived. */
        for (int seen = 0; seen != 3;) {
            ssize_t got = fi_cq_read(cq, &entry, 1);
            if (got == 1) {
                IS(entry.op_context, 2);
                seen |= 2;
            } else if (got == -FI_EAVAIL) {
                IS(fi_cq_readerr(cq, &error, 0), 1);
                seen |= 1;
            }
        }
        CHECK(error.op_context == (void *)1 && error.err == FI_ETRUNC && error.olen == 10 && error.len == n - 10);
        CHECK(is_filled(in, n - 10, !side) && in[n - 10] == 0xee);
        meet();
    }
}

static void many(void)
{
    size_t least = 600;
    IS(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
    size_t told, len = sizeof told;
    IS(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &told, &len), 0);
    IS(told, least);
    struct iovec to = {in, 4000};
    struct fi_msg msg = {.msg_iov = &to, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = (void *)1};
    /* Some messages arrive before their receive is posted, some after it. */
    for (int i = 0; i < 3; i++) {
        memset(out, side * 100 + i, 500);
        OK(fi_inject(ep, out, 500, peer));
    }
    meet();
    OK(fi_recvmsg(ep, &msg, FI_MULTI_RECV));
    meet();
    for (int i = 3; i < 8; i++) {
        memset(out, side * 100 + i, 500);
        OK(fi_inject(ep, out, 500, peer));
    }
    int count = 0;
    for (int is_last = 0; !is_last; count++) {
        struct fi_cq_tagged_entry entry = done();
        CHECK(entry.op_context == (void *)1 && entry.len == 500);
        unsigned char *at = entry.buf;
        CHECK(at >= in && at + 500 <= in + 4000 && at[0] == !side * 100 + count && at[499] == at[0]);
        is_last = (entry.flags & FI_MULTI_RECV) != 0;
    }
    IS(count, 7);
    OK(fi_recv(ep, in, 500, NULL, peer, NULL));
    done();
    meet();
}

static void remote(void)
{
    unsigned char *memory = calloc(1, MOST);
    struct fid_mr *mr, *other;
    uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    IS(fi_mr_reg(domain, memory, MOST, access, 0, 5, 0, &mr, NULL), 0);
    IS(fi_mr_reg(domain, memory, MOST, access, 0, 5, 0, &other, NULL), -FI_ENOKEY);
    IS(fi_mr_reg(domain, memory, 100, FI_REMOTE_READ, 0, 6, 0, &other, NULL), 0);
    uint64_t written = fi_cntr_read(counters[5]), read = fi_cntr_read(counters[4]);
    meet();
    static const size_t lengths[] = {1, 24, 25, 16384, 16385, 1000000};
    for (int i = 0; i < 6; i++) {
        size_t n = lengths[i];
        fill(out, n, side + i);
        OK(fi_write(ep, out, n, NULL, peer, 1000, 5, (void *)1));
        IS(done().flags, FI_RMA | FI_WRITE);
        meet();
        CHECK(is_filled(memory + 1000, n, !side + i));
        memset(in, 0, n);
        OK(fi_read(ep, in, n, NULL, peer, 1000, 5, (void *)2));
        IS(done().flags, FI_RMA | FI_READ);
        CHECK(is_filled(in, n, side + i));
        meet();
    }
    OK(fi_cntr_wait(counters[5], written + 6, -1));
    OK(fi_cntr_wait(counters[4], read + 6, -1));
    /* Writes with data for the target's queue. */
    OK(fi_writedata(ep, out, 50, NULL, 4711, peer, 0, 5, (void *)1));
    for (int seen = 0; seen != 3;) {
        struct fi_cq_tagged_entry entry = done();
        if (entry.flags & FI_REMOTE_CQ_DATA) {
            IS(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
            CHECK(entry.data == 4711 && entry.len == 50);
            seen |= 1;
        } else {
            seen |= 2;
        }
    }
    OK(fi_inject_write(ep, out, 50, peer, 60, 5));
    OK(fi_cntr_wait(counters[5], written + 8, -1));
    CHECK(is_filled(memory + 60, 50, !side + 5));
    /* Forbidden operations fail, and others do not. */
    OK(fi_write(ep, out, 8, NULL, peer, 0, 99, (void *)1));
    IS(failed().err, FI_EKEYREJECTED);
    OK(fi_write(ep, out, 8, NULL, peer, 0, 6, (void *)1));
    IS(failed().err, FI_EACCES);
    OK(fi_read(ep, in, 8, NULL, peer, 93, 6, (void *)1));
    IS(failed().err, FI_EINVAL);
    OK(fi_read(ep, in, 100000, NULL, peer, MOST - 99999, 5, (void *)1));
    IS(failed().err, FI_EINVAL);
    meet();
    nothing();
    IS(fi_close(&mr->fid), 0);
    IS(fi_close(&other->fid), 0);
    meet();
    OK(fi_read(ep, in, 8, NULL, peer, 0, 5, (void *)1));
    IS(failed().err, FI_EKEYREJECTED);
    meet();
    free(memory);
}

static void atomics(void)
{
    int64_t memory[100] = {0};
    struct fid_mr *mr;
    IS(fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL), 0);
    meet();
    int64_t one = 1, before = -1, compare, results[50], operands[50];
    for (int i = 0; i < 500; i++) {
        OK(fi_atomic(ep, &one, 1, NULL, peer, 0, 7, FI_INT64, FI_SUM, NULL));
        IS(done().flags, FI_ATOMIC | FI_WRITE);
    }
    meet();
    IS(memory[0], 500);
    meet();
    OK(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, peer, 0, 7, FI_INT64, FI_SUM, NULL));
    IS(done().flags, FI_ATOMIC | FI_READ);
    IS(before, 500);
    compare = 501;
    one = 42;
    OK(fi_compare_atomic(ep, &one, 1, NULL, &compare, NULL, &before, NULL, peer, 0, 7, FI_INT64, FI_CSWAP, NULL));
    done();
    IS(before, 501);
    OK(fi_fetch_atomic(ep, NULL, 1, NULL, &before, NULL, peer, 0, 7, FI_INT64, FI_ATOMIC_READ, NULL));
    done();
    IS(before, 42);
    for (int i = 0; i < 50; i++)
        operands[i] = i * 3;
    OK(fi_atomic(ep, operands, 50, NULL, peer, 80, 7, FI_INT64, FI_ATOMIC_WRITE, NULL));
    done();
    OK(fi_fetch_atomic(ep, operands, 50, NULL, results, NULL, peer, 80, 7, FI_INT64, FI_PROD, NULL));
    done();
    for (int i = 0; i < 50; i++)
        IS(results[i], i * 3);
    meet();
    for (int i = 0; i < 50; i++)
        IS(memory[10 + i], i * i * 9);
    size_t count;
    IS(fi_atomicvalid(ep, FI_DOUBLE, FI_SUM, &count), 0);
    CHECK(count >= 1000);
    IS(fi_atomicvalid(ep, FI_DOUBLE, FI_BOR, &count), -FI_EOPNOTSUPP);
    IS(fi_compare_atomicvalid(ep, FI_UINT64, FI_MSWAP, &count), 0);
    struct fi_atomic_attr attr;
    IS(fi_query_atomic(domain, FI_UINT32, FI_BXOR, &attr, FI_FETCH_ATOMIC), 0);
    IS(attr.size, 4);
    IS(fi_atomic(ep, &one, 1, NULL, peer, 0, 7, FI_LONG_DOUBLE, FI_SUM, NULL), -FI_EOPNOTSUPP);
    meet();
    IS(fi_close(&mr->fid), 0);
}

/* A send that completes when its message has matched a receive does not complete earlier. */
static void delivery(void)
{
    if (side == 0) {
        struct iovec from = {out, 100};
        struct fi_msg_tagged msg = {.msg_iov = &from, .iov_count = 1, .addr = peer, .tag = 6, .context = (void *)1};
        OK(fi_tsendmsg(ep, &msg, FI_DELIVERY_COMPLETE));
        meet();
        nothing();
        meet();
        IS(done().op_context, 1);
    } else {
        meet();
        meet();
        OK(fi_trecv(ep, in, 100, NULL, peer, 6, 0, NULL));
        done();
    }
    meet();
}

/* A peer that makes no progress fills its queues. Everything that was sent arrives. */
static void full(void)
{
    int sent = 0, refused = 0;
    uint64_t value;
    if (side == 0) {
        while (!refused) {
            value = (uint64_t)sent;
            ssize_t ret = fi_tinject(ep, &value, sizeof value, peer, 12);
            if (ret == -FI_EAGAIN)
                refused = 1;
            else
                IS(ret, 0);
            sent += ret == 0;
            CHECK(sent < 1000000);
        }
        CHECK(sent > 100 && send(peer_socket, &sent, sizeof sent, 0) == sizeof sent);
    } else {
        CHECK(recv(peer_socket, &sent, sizeof sent, MSG_WAITALL) == sizeof sent);
        for (int i = 0; i < sent; i++) {
            OK(fi_trecv(ep, &value, sizeof value, NULL, peer, 12, 0, NULL));
            done();
            CHECK(value == (uint64_t)i);
        }
    }
    meet();
}

static void addresses(void)
{
    char text[200], found[ADDRESS], other[ADDRESS];
    size_t len = sizeof text;
    CHECK(fi_av_straddr(av, peer_address, text, &len) == text);
    CHECK(strncmp(text, "fi_sovia://", 11) == 0 && len == strlen(text) + 1);
    len = ADDRESS;
    IS(fi_av_lookup(av, peer, found, &len), 0);
    CHECK(len == ADDRESS && memcmp(found, peer_address, ADDRESS) == 0);
    fi_addr_t number;
    IS(fi_av_insertsvc(av, text, NULL, &number, 0, NULL), 1);
    len = ADDRESS;
    IS(fi_av_lookup(av, number, found, &len), 0);
    CHECK(memcmp(found, peer_address, ADDRESS) == 0);
    IS(fi_tinject(ep, "x", 1, number, 20), 0);
    OK(fi_trecv(ep, in, 1, NULL, peer, 20, 0, NULL));
    done();
    IS(fi_av_remove(av, &number, 1, 0), 0);
    IS(fi_av_remove(av, &number, 1, 0), -FI_EINVAL);
    IS(fi_av_lookup(av, number, found, &len), -FI_EINVAL);
    IS(fi_tinject(ep, "x", 1, number, 20), -FI_EINVAL);
    /* An address without an endpoint, and bytes that are no address. */
    memcpy(other, peer_address, ADDRESS);
    other[30] ^= 1;
    IS(fi_av_insert(av, other, 1, &number, 0, NULL), 1);
    IS(fi_tinject(ep, "x", 1, number, 20), -FI_EHOSTUNREACH);
    other[0] ^= 1;
    IS(fi_av_insert(av, other, 1, &number, 0, NULL), 0);
    CHECK(number == FI_ADDR_NOTAVAIL);
    meet();
}

static void waits(void)
{
    struct fi_cq_tagged_entry entry;
    IS(fi_cq_sread(cq, &entry, 1, NULL, 20), -FI_EAGAIN);
    IS(fi_cntr_wait(counters[1], fi_cntr_read(counters[1]) + 1, 20), -FI_ETIMEDOUT);
    IS(fi_cq_signal(cq), 0);
    IS(fi_cq_sread(cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    if (side == 0)
        usleep(30000);
    OK(fi_tinject(ep, "x", 1, peer, 30));
    OK(fi_trecv(ep, in, 1, NULL, peer, 30, 0, NULL));
    IS(fi_cq_sread(cq, &entry, 1, NULL, -1), 1);
    meet();
}

/* The end of a forked child changes nothing for its parent. */
static void forks(void)
{
    pid_t child = fork();
    if (child == 0)
        exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    meet();
    fill(out, 100000, side);
    OK(fi_tsend(ep, out, 100000, NULL, peer, 40, NULL));
    OK(fi_trecv(ep, in, 100000, NULL, peer, 40, 0, NULL));
    done();
    done();
    CHECK(is_filled(in, 100000, !side));
    meet();
}

/* The last case: side 1 is killed during transfers. */
static void death(void)
{
    if (side == 1) {
        fi_tinject(ep, "last", 4, peer, 50);
        fi_tsend(ep, out, MOST, NULL, peer, 51, NULL);
        meet();
        kill(getpid(), SIGKILL);
    }
    meet();
    /* A message that arrived before the peer's death is received. Long messages, their receives, and receives from
     * this peer alone fail. */
    OK(fi_tsend(ep, out, MOST, NULL, peer, 1, (void *)1));
    int status;
    CHECK(waitpid(peer_process, &status, 0) == peer_process);
    struct fi_cq_err_entry error = failed();
    CHECK(error.op_context == (void *)1 && error.err == FI_ECONNRESET);
    OK(fi_trecv(ep, in, 4, NULL, peer, 50, 0, (void *)2));
    struct fi_cq_tagged_entry entry = done();
    CHECK(entry.op_context == (void *)2 && entry.len == 4 && memcmp(in, "last", 4) == 0);
    OK(fi_trecv(ep, in, MOST, NULL, peer, 51, 0, (void *)3));
    error = failed();
    CHECK(error.op_context == (void *)3 && error.err == FI_ECONNRESET);
    OK(fi_trecv(ep, in, MOST, NULL, peer, 52, 0, (void *)4));
    error = failed();
    CHECK(error.op_context == (void *)4 && error.err == FI_ECONNRESET);
    IS(fi_tinject(ep, "x", 1, peer, 1), -FI_ECONNRESET);
    nothing();
}

static const struct check cases[] = {
    {"messages", messages}, {"sources", sources},     {"probes", probes}, {"cancels", cancels},     {"truncation", truncation},
    {"many", many},         {"remote", remote},       {"atomics", atomics}, {"delivery", delivery}, {"full", full},
    {"addresses", addresses}, {"waits", waits},       {"forks", forks},   {"death", death},
};

int main(int argc, char **argv)
{
    return run(cases, sizeof cases / sizeof *cases, death, argc, argv);
}
