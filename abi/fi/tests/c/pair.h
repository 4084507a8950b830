/* Runs two processes with an endpoint each: `PROGRAM CASE...`, without a case all cases. The parent is side 0. Prints
   a line for each case that passes. To be included once, by a program that calls `run`. */
#ifndef PAIR_H
#define PAIR_H

#define _GNU_SOURCE
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ADDRESS = 64, MOST = 4 << 20 };

static int side, peer_socket;
static pid_t peer_process;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_cntr *counters[6];
static struct fid_ep *ep;
static fi_addr_t peer;
static char peer_address[ADDRESS];
static unsigned char *out, *in;

/* Name of the running case. */
static const char *current = "begin";

static void fail(int line, const char *what, long got)
{
    fprintf(stderr, "%s:%d: side %d: %s (%ld)\n", current, line, side, what, got);
    exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition, errno))
#define IS(expression, expected)                                                                                            \
    do {                                                                                                                    \
        long got_ = (long)(expression);                                                                                     \
        if (got_ != (long)(expected))                                                                                       \
            fail(__LINE__, #expression " is not " #expected, got_);                                                         \
    } while (0)
/* Repeats a call until there is room. */
#define OK(call)                                                                                                            \
    do {                                                                                                                    \
        long ret_;                                                                                                          \
        while ((ret_ = (call)) == -FI_EAGAIN)                                                                               \
            fi_cntr_read(counters[0]);                                                                                      \
        if (ret_)                                                                                                           \
            fail(__LINE__, #call, ret_);                                                                                    \
    } while (0)

static void fill(unsigned char *bytes, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 255 + (size_t)seed);
}

static int is_filled(const unsigned char *bytes, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (unsigned char)(i * 7 + i / 255 + (size_t)seed))
            return 0;
    return 1;
}

/* Waits until both sides have come here, and makes progress meanwhile. */
static void meet(void)
{
    char byte = 1;
    CHECK(send(peer_socket, &byte, 1, 0) == 1);
    while (recv(peer_socket, &byte, 1, MSG_DONTWAIT) != 1)
        fi_cntr_read(counters[0]);
}

static struct fi_cq_tagged_entry done(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n;
    while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        ;
    IS(n, 1);
    return entry;
}

static struct fi_cq_err_entry failed(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t n;
    while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        ;
    IS(n, -FI_EAVAIL);
    IS(fi_cq_readerr(cq, &error, 0), 1);
    return error;
}

static void nothing(void)
{
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < 1000; i++)
        IS(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
}

static void begin(void)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("sovia");
    hints->domain_attr->threading = getenv("FABRIC_SAFE") ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    IS(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    IS(fi_domain(fabric, info, &domain, NULL), 0);
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    IS(fi_av_open(domain, &av_attr, &av, NULL), 0);
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
    IS(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    IS(fi_endpoint(domain, info, &ep, NULL), 0);
    IS(fi_ep_bind(ep, &av->fid, 0), 0);
    IS(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    static const uint64_t kinds[] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
    for (int i = 0; i < 6; i++) {
        struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
        IS(fi_cntr_open(domain, &attr, &counters[i], NULL), 0);
        IS(fi_ep_bind(ep, &counters[i]->fid, kinds[i]), 0);
    }
    IS(fi_enable(ep), 0);
    char address[ADDRESS];
    size_t len = 0;
    IS(fi_getname(&ep->fid, address, &len), -FI_ETOOSMALL);
    IS(len, ADDRESS);
    IS(fi_getname(&ep->fid, address, &len), 0);
    CHECK(send(peer_socket, address, ADDRESS, 0) == ADDRESS);
    CHECK(recv(peer_socket, peer_address, ADDRESS, MSG_WAITALL) == ADDRESS);
    IS(fi_av_insert(av, peer_address, 1, &peer, 0, NULL), 1);
    out = malloc(MOST);
    in = malloc(MOST);
}

static void end(void)
{
    IS(fi_close(&cq->fid), -FI_EBUSY);
    IS(fi_close(&ep->fid), 0);
    IS(fi_close(&cq->fid), 0);
    for (int i = 0; i < 6; i++)
        IS(fi_close(&counters[i]->fid), 0);
    IS(fi_close(&domain->fid), -FI_EBUSY);
    IS(fi_close(&av->fid), 0);
    IS(fi_close(&domain->fid), 0);
    IS(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    free(out);
    free(in);
}

/* A case. Side 1 may end in the last case of a program. */
struct check {
    const char *name;
    void (*run)(void);
};

/* Runs the cases named by the arguments, and returns the program's status. `ends` is the case in which side 1 ends,
 * or null. */
static int run(const struct check *cases, size_t count, void (*ends)(void), int argc, char **argv)
{
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    peer_process = fork();
    side = peer_process == 0;
    peer_socket = sockets[side];
    close(sockets[!side]);
    begin();
    int has_ended = 0;
    for (size_t i = 0; i < count; i++) {
        int wanted = argc == 1;
        for (int j = 1; j < argc; j++)
            wanted |= strcmp(argv[j], cases[i].name) == 0;
        if (!wanted)
            continue;
        current = cases[i].name;
        cases[i].run();
        has_ended |= cases[i].run == ends;
        if (side == 0) {
            printf("%s: right\n", cases[i].name);
            fflush(stdout);
        }
    }
    end();
    int status = 0;
    if (side == 0 && !has_ended)
        CHECK(waitpid(peer_process, &status, 0) == peer_process);
    return status != 0;
}

#endif
