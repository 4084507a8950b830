/* Two programs that talk: `pairs server|client CASE NAME`, NAME being a discriminator that nobody
   else uses. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <poll.h>
#include <pthread.h>

#define DESCRIPTORS 64
#define DATA 8192
#define SIZE (1 << 20)

/* One end: a NIC, a VI, and a region with descriptors and data. */
typedef struct {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE mem;
    unsigned char *memory;
    address_t local, remote;
    VIP_VI_ATTRIBUTES attributes;
} end_t;

static int server;
static const char *name;

static volatile int errors;
static volatile unsigned kinds; /* a bit for each error code that has been told */
static volatile VIP_ERROR_DESCRIPTOR told;
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e)
{
    (void)context;
    memcpy((void *)&told, e, sizeof told);
    kinds |= 1u << e->ErrorCode;
    errors++;
}

static void open_end(end_t *e, VIP_CQ_HANDLE send, VIP_CQ_HANDLE recv)
{
    VIP_MEM_ATTRIBUTES region = {NULL, VIP_TRUE, VIP_TRUE};
    if (!e->nic) {
        /* Different names of the same thing. */
        MUST(VIP_SUCCESS, VipOpenNic(server ? "/dev/via_lo" : "VINIC0", &e->nic));
        MUST(VIP_SUCCESS, VipErrorCallback(e->nic, NULL, on_error));
    }
    if (!e->attributes.ReliabilityLevel) e->attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    if (!e->attributes.MaxTransferSize) e->attributes.MaxTransferSize = 65536;
    MUST(VIP_SUCCESS, VipCreateVi(e->nic, &e->attributes, send, recv, &e->vi));
    e->memory = aligned_alloc(64, SIZE);
    memset(e->memory, 0, SIZE);
    MUST(VIP_SUCCESS, VipRegisterMem(e->nic, e->memory, SIZE, &region, &e->mem));
    address(&e->local, e->nic, server ? name : "client");
    address(&e->remote, e->nic, name);
}

static VIP_RETURN try_connect(end_t *e)
{
    VIP_VI_ATTRIBUTES far;
    if (server) {
        VIP_CONN_HANDLE c;
        address_t from;
        MUST(VIP_SUCCESS, VipConnectWait(e->nic, &e->local.net, SECONDS(20), &from.net, &far, &c));
        HOLDS(from.net.DiscriminatorLen == 6 && from.net.HostAddressLen == e->local.net.HostAddressLen);
        HOLDS(memcmp(from.net.HostAddress + from.net.HostAddressLen, "client", 6) == 0);
        return VipConnectAccept(c, e->vi);
    }
    VIP_RETURN got;
    int tries = 0;
    do {
        got = VipConnectRequest(e->vi, &e->local.net, &e->remote.net, SECONDS(20), &far);
        if (got != VIP_NO_MATCH) break;
        pause_ms(1);
    } while (tries++ < 20000);
    if (got == VIP_SUCCESS) HOLDS(far.ReliabilityLevel == e->attributes.ReliabilityLevel);
    return got;
}

static void connect_end(end_t *e)
{
    VIP_VI_STATE state;
    MUST(VIP_SUCCESS, try_connect(e));
    MUST(VIP_SUCCESS, VipQueryVi(e->vi, &state, NULL, NULL, NULL));
    HOLDS(state == VIP_STATE_CONNECTED || state == VIP_STATE_ERROR);
}

static void close_end(end_t *e)
{
    RETURNS(VIP_SUCCESS, VipDisconnect(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e->vi));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(e->nic, e->memory, e->mem));
    RETURNS(VIP_SUCCESS, VipCloseNic(e->nic));
    free(e->memory);
}

static VIP_DESCRIPTOR *at(end_t *e, int i)
{
    return (VIP_DESCRIPTOR *)(e->memory + 64 * i);
}

static unsigned char *data(end_t *e, int i)
{
    return e->memory + 65536 + DATA * i;
}

static VIP_DESCRIPTOR *prepare(end_t *e, int i, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = at(e, i);
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Control = VIP_CONTROL_OP_SENDRECV;
    d->CS.Length = length;
    d->DS[0].Local.Data.Address = data(e, i);
    d->DS[0].Local.Handle = e->mem;
    d->DS[0].Local.Length = length;
    return d;
}

static void post_recv(end_t *e, int i, VIP_UINT32 length)
{
    MUST(VIP_SUCCESS, VipPostRecv(e->vi, prepare(e, i, length), e->mem));
}

static VIP_DESCRIPTOR *take_recv(end_t *e)
{
    VIP_DESCRIPTOR *d;
    MUST(VIP_SUCCESS, VipRecvWait(e->vi, SECONDS(20), &d));
    HOLDS((d->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK)) == VIP_STATUS_DONE);
    return d;
}

static void send_now(end_t *e, VIP_DESCRIPTOR *d)
{
    VIP_DESCRIPTOR *got;
    MUST(VIP_SUCCESS, VipPostSend(e->vi, d, e->mem));
    MUST(VIP_SUCCESS, VipSendWait(e->vi, SECONDS(20), &got));
    HOLDS(got == d);
}

/* Both sides are here. Takes a receive that is posted for it beforehand. */
static void say(end_t *e, int i, const void *what, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = prepare(e, i, length);
    if (length) memcpy(data(e, i), what, length);
    send_now(e, d);
}

static unsigned char pattern(int round, VIP_UINT32 i) { return (unsigned char)(round * 31 + i * 7); }

/* ---- cases -------------------------------------------------------------------------------- */

static void ping_pong(int polling)
{
    static const VIP_UINT32 sizes[] = {0, 1, 4, 48, 112, 113, 1000, 4096, 8191, 8192};
    end_t e = {0};
    VIP_DESCRIPTOR *d;
    open_end(&e, NULL, NULL);
    post_recv(&e, 1, DATA);
    post_recv(&e, 2, DATA);
    connect_end(&e);
    for (int round = 0; round < 1000; round++) {
        VIP_UINT32 length = sizes[round % 10];
        if (!server) {
            VIP_DESCRIPTOR *s = prepare(&e, 0, length);
            for (VIP_UINT32 i = 0; i < length; i++) data(&e, 0)[i] = pattern(round, i);
            if (round % 2) s->CS.Control |= VIP_CONTROL_IMMEDIATE;
            s->CS.ImmediateData = (VIP_UINT32)round;
            send_now(&e, s);
        }
        int i = 1 + round % 2;
        if (polling) {
            /* As programs do that look at the status themselves. */
            VIP_RETURN got = VIP_NOT_DONE;
            for (long looks = 1; !(at(&e, i)->CS.Status & VIP_STATUS_DONE); looks++) {
                got = VipRecvDone(e.vi, &d);
                if (got != VIP_NOT_DONE) break;
                if (looks % 1000 == 0) pause_ms(1);
            }
            if (got == VIP_NOT_DONE) got = VipRecvDone(e.vi, &d);
            MUST(VIP_SUCCESS, got);
            HOLDS(d == at(&e, i));
        } else {
            MUST(VIP_SUCCESS, VipRecvWait(e.vi, SECONDS(20), &d));
            HOLDS(d == at(&e, i));
        }
        d = at(&e, i);
        HOLDS(d->CS.Length == length);
        HOLDS((d->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RECEIVE);
        int wrong = 0;
        for (VIP_UINT32 n = 0; n < length; n++) wrong += data(&e, i)[n] != pattern(round, n);
        HOLDS(wrong == 0);
        HOLDS(!(d->CS.Status & VIP_STATUS_IMMEDIATE) == !(round % 2));
        if (round % 2) HOLDS(d->CS.ImmediateData == (VIP_UINT32)round);
        if (server) {
            VIP_DESCRIPTOR *s = prepare(&e, 0, length);
            memcpy(data(&e, 0), data(&e, i), length);
            if (round % 2) s->CS.Control |= VIP_CONTROL_IMMEDIATE;
            s->CS.ImmediateData = (VIP_UINT32)round;
            post_recv(&e, i, DATA);
            send_now(&e, s);
        } else {
            post_recv(&e, i, DATA);
        }
        if (failures) exit(1);
    }
    close_end(&e);
}
static void polling(void) { ping_pong(1); }
static void waiting(void) { ping_pong(0); }

/* Several VIs, one completion queue for all that the server has. */
static void completion_queue(void)
{
    enum { VIS = 5, MESSAGES = 40 };
    static end_t e[VIS];
    VIP_CQ_HANDLE cq;
    VIP_NIC_HANDLE nic;
    MUST(VIP_SUCCESS, VipOpenNic("nic0", &nic));
    MUST(VIP_SUCCESS, VipCreateCQ(nic, 1024, &cq));
    for (int i = 0; i < VIS; i++) {
        e[i].nic = nic;
        open_end(&e[i], NULL, server ? cq : NULL);
        VipSetUserData(e[i].vi, &e[i]);
        if (server)
            for (int n = 0; n < MESSAGES; n++) post_recv(&e[i], n, 64);
        connect_end(&e[i]);
    }
    if (server) {
        int seen[VIS] = {0};
        for (int n = 0; n < VIS * MESSAGES; n++) {
            VIP_VI_HANDLE vi = NULL;
            VIP_BOOLEAN recv = VIP_FALSE;
            MUST(VIP_SUCCESS, VipCQWait(cq, SECONDS(20), &vi, &recv));
            end_t *of = VipGetUserData(vi);
            HOLDS(of && of->vi == vi && recv == VIP_TRUE);
            VIP_DESCRIPTOR *d;
            MUST(VIP_SUCCESS, VipRecvDone(vi, &d));
            HOLDS(data(of, seen[of - e])[0] == seen[of - e]);
            seen[of - e]++;
        }
        VIP_VI_HANDLE vi;
        RETURNS(VIP_NOT_DONE, VipCQDone(cq, &vi, NULL));
        RETURNS(VIP_ERROR_RESOURCE, VipDestroyCQ(cq));
    } else {
        for (int n = 0; n < MESSAGES; n++)
            for (int i = 0; i < VIS; i++) {
                unsigned char byte = (unsigned char)n;
                say(&e[i], 60, &byte, 1);
            }
        /* The server's disconnecting ends these. */
        VIP_VI_STATE state;
        for (int i = 0; i < VIS; i++)
            SOON(VipQueryVi(e[i].vi, &state, NULL, NULL, NULL) == VIP_SUCCESS && state == VIP_STATE_ERROR);
    }
    for (int i = 0; i < VIS; i++) {
        RETURNS(VIP_SUCCESS, VipDisconnect(e[i].vi));
        RETURNS(VIP_SUCCESS, VipDestroyVi(e[i].vi));
    }
    RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipCloseNic(nic));
}

/* Each receive's callback sends it back and asks for the next. */
static end_t echoed;
static volatile int echoes;
static void echo(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
    VIP_DESCRIPTOR *got;
    HOLDS(context == (VIP_PVOID)&echoed && nic == echoed.nic && vi == echoed.vi);
    if (d->CS.Status & VIP_STATUS_ERROR_MASK) return;
    VIP_DESCRIPTOR *s = prepare(&echoed, 60, d->CS.Length);
    s->DS[0].Local.Data.Address = d->DS[0].Local.Data.Address;
    MUST(VIP_SUCCESS, VipPostSend(vi, s, echoed.mem));
    MUST(VIP_SUCCESS, VipSendWait(vi, SECONDS(20), &got));
    post_recv(&echoed, (int)(((unsigned char *)d - echoed.memory) / 64), 64);
    RETURNS(VIP_SUCCESS, VipRecvNotify(vi, &echoed, echo));
    echoes++;
}

static void notifications(void)
{
    enum { MESSAGES = 200 };
    end_t *e = &echoed;
    open_end(e, NULL, NULL);
    for (int i = 0; i < 2; i++) post_recv(e, i, 64);
    if (server) RETURNS(VIP_SUCCESS, VipRecvNotify(e->vi, e, echo));
    connect_end(e);
    if (server) {
        SOON(echoes == MESSAGES);
    } else {
        for (int n = 0; n < MESSAGES; n++) {
            unsigned char byte = (unsigned char)n;
            say(e, 60, &byte, 1);
            VIP_DESCRIPTOR *d = take_recv(e);
            HOLDS(*(unsigned char *)d->DS[0].Local.Data.Address == byte);
            post_recv(e, n % 2, 64);
        }
    }
    close_end(e);
}

static end_t counted;
static VIP_CQ_HANDLE counting;
static volatile int counts;
static void count(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    VIP_DESCRIPTOR *d;
    HOLDS(context == (VIP_PVOID)&counts && nic == counted.nic && vi == counted.vi && recv);
    if (VipRecvDone(vi, &d) != VIP_SUCCESS) return;
    HOLDS(data(&counted, counts)[0] == counts);
    counts++;
    RETURNS(VIP_SUCCESS, VipCQNotify(counting, (VIP_PVOID)&counts, count));
}

static void queue_notifications(void)
{
    enum { MESSAGES = 50 };
    end_t *e = &counted;
    MUST(VIP_SUCCESS, VipOpenNic("nic1", &e->nic));
    MUST(VIP_SUCCESS, VipCreateCQ(e->nic, 1024, &counting));
    open_end(e, NULL, server ? counting : NULL);
    for (int i = 0; i < MESSAGES; i++) post_recv(e, i, 64);
    if (server) RETURNS(VIP_SUCCESS, VipCQNotify(counting, (VIP_PVOID)&counts, count));
    connect_end(e);
    if (server) {
        SOON(counts == MESSAGES);
        say(e, 60, "x", 1);
    } else {
        for (int n = 0; n < MESSAGES; n++) {
            unsigned char byte = (unsigned char)n;
            say(e, 60, &byte, 1);
        }
        take_recv(e);
    }
    RETURNS(VIP_SUCCESS, VipDisconnect(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(counting));
    RETURNS(VIP_SUCCESS, VipCloseNic(e->nic));
}

/* cLAN: the completion queue's event, given to poll. */
static void tagged(void)
{
    enum { MESSAGES = 300 };
    end_t e = {0};
    VIP_CQ_HANDLE cq;
    VIP_EVENT_HANDLE event = NULL;
    MUST(VIP_SUCCESS, VipOpenNic("/dev/clanvi0", &e.nic));
    MUST(VIP_SUCCESS, VipCreateCQ(e.nic, 1024, &cq));
    MUST(VIP_SUCCESS, VipAddTagCQ(cq, &event, 7, 0));
    open_end(&e, NULL, cq);
    for (int i = 0; i < 32; i++) post_recv(&e, i, 64);
    connect_end(&e);
    int got = 0;
    while (got < MESSAGES) {
        if (!server) say(&e, 60, &got, sizeof got);
        struct pollfd p = {(int)(intptr_t)event, POLLIN, 0};
        HOLDS(poll(&p, 1, 20000) == 1);
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN recv;
        VIP_DESCRIPTOR *d;
        int before = got;
        while (got < MESSAGES && VipCQDone(cq, &vi, &recv) == VIP_SUCCESS) {
            HOLDS(vi == e.vi && recv);
            MUST(VIP_SUCCESS, VipRecvDone(vi, &d));
            HOLDS(*(int *)d->DS[0].Local.Data.Address == got);
            MUST(VIP_SUCCESS, VipPostRecv(vi, prepare(&e, got % 32, 64), e.mem));
            got++;
        }
        if (server && got > before) say(&e, 60, &before, sizeof before);
        if (failures) exit(1);
    }
    if (!server) pause_ms(50);
    RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e.vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipCloseNic(e.nic));
}

/* Half of the messages are told by the event, and half by callbacks of the same queue. */
static end_t mixed;
static VIP_CQ_HANDLE mixing;
static volatile int by_callback;
static void take_one(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *d;
    MUST(VIP_SUCCESS, VipRecvDone(vi, &d));
    MUST(VIP_SUCCESS, VipPostRecv(vi, d, mixed.mem));
}
static void takes_one(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    HOLDS(context == &mixed && nic == mixed.nic && vi == mixed.vi && recv);
    take_one(vi);
    by_callback++;
}

static void tagged_notifications(void)
{
    enum { ROUNDS = 200 };
    end_t *e = &mixed;
    VIP_EVENT_HANDLE event = NULL;
    MUST(VIP_SUCCESS, VipOpenNic("/dev/clanvi0", &e->nic));
    MUST(VIP_SUCCESS, VipCreateCQ(e->nic, 1024, &mixing));
    MUST(VIP_SUCCESS, VipAddTagCQ(mixing, &event, 7, 0));
    open_end(e, NULL, server ? mixing : NULL);
    for (int i = 0; i < 8; i++) post_recv(e, i, 64);
    connect_end(e);
    for (int round = 0; round < ROUNDS; round++) {
        if (!server) {
            say(e, 60, "1", 1);
            say(e, 60, "2", 1);
            MUST(VIP_SUCCESS, VipPostRecv(e->vi, take_recv(e), e->mem));
            continue;
        }
        struct pollfd p = {(int)(intptr_t)event, POLLIN, 0};
        VIP_VI_HANDLE vi;
        RETURNS(VIP_SUCCESS, VipCQNotify(mixing, e, takes_one));
        /* The event may have told of the entry that the callback takes. */
        VIP_RETURN got = VIP_NOT_DONE;
        while (got == VIP_NOT_DONE && poll(&p, 1, 20000) == 1) got = VipCQDone(mixing, &vi, NULL);
        MUST(VIP_SUCCESS, got);
        HOLDS(vi == e->vi);
        SOON(by_callback == round + 1);
        take_one(vi);
        RETURNS(VIP_NOT_DONE, VipCQDone(mixing, &vi, NULL));
        HOLDS(poll(&p, 1, 0) == 0);
        say(e, 60, "done", 4);
        if (failures) exit(1);
    }
    if (server) pause_ms(50);
    RETURNS(VIP_SUCCESS, VipDisconnect(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(mixing));
    RETURNS(VIP_SUCCESS, VipCloseNic(e->nic));
}

/* What an RDMA needs to know of the far side. */
typedef struct {
    VIP_UINT64 address;
    VIP_MEM_HANDLE handle;
} far_t;

static VIP_DESCRIPTOR *rdma(end_t *e, int i, VIP_UINT16 control, far_t far, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = at(e, i);
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 2;
    d->CS.Control = control;
    d->CS.Length = length;
    d->DS[0].Remote.Data.AddressBits = far.address;
    d->DS[0].Remote.Handle = far.handle;
    d->DS[1].Local.Data.Address = data(e, i);
    d->DS[1].Local.Handle = e->mem;
    d->DS[1].Local.Length = length;
    return d;
}

static void rdma_writes(void)
{
    end_t e = {0};
    e.attributes.EnableRdmaWrite = VIP_TRUE;
    open_end(&e, NULL, NULL);
    for (int i = 0; i < 4; i++) post_recv(&e, i, 64);
    connect_end(&e);
    if (server) {
        far_t own = {(VIP_UINT64)(uintptr_t)data(&e, 20), e.mem};
        say(&e, 60, &own, sizeof own);
        /* With immediate data it takes a receive and tells in it; the one before it has arrived. */
        VIP_DESCRIPTOR *d;
        MUST(VIP_SUCCESS, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS((d->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE);
        HOLDS((d->CS.Status & VIP_STATUS_IMMEDIATE) && d->CS.ImmediateData == 0xbeef);
        for (int i = 0; i < 8000; i++) HOLDS(data(&e, 20)[i] == (i < 4000 ? 'a' : 'b'));
        say(&e, 61, "seen", 4);
        /* A handle that is none: told by the error handler. */
        SOON(kinds & 1u << VIP_ERROR_RDMAW_PROT);
        HOLDS(told.ViHandle == e.vi);
    } else {
        far_t far;
        VIP_DESCRIPTOR *got;
        memcpy(&far, (void *)take_recv(&e)->DS[0].Local.Data.Address, sizeof far);
        memset(data(&e, 10), 'a', 4000);
        memset(data(&e, 11), 'b', 4000);
        send_now(&e, rdma(&e, 10, VIP_CONTROL_OP_RDMAWRITE, far, 4000));
        HOLDS((at(&e, 10)->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RDMA_WRITE);
        far.address += 4000;
        VIP_DESCRIPTOR *d =
            rdma(&e, 11, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, far, 4000);
        d->CS.ImmediateData = 0xbeef;
        send_now(&e, d);
        take_recv(&e);
        far.handle ^= 0x40000000;
        MUST(VIP_SUCCESS, VipPostSend(e.vi, rdma(&e, 12, VIP_CONTROL_OP_RDMAWRITE, far, 64), e.mem));
        VIP_RETURN end = VipSendWait(e.vi, SECONDS(20), &got);
        HOLDS(end == VIP_SUCCESS || end == VIP_DESCRIPTOR_ERROR);
        VIP_VI_STATE state;
        SOON(VipQueryVi(e.vi, &state, NULL, NULL, NULL) == VIP_SUCCESS && state == VIP_STATE_ERROR);
    }
    close_end(&e);
}

static void rdma_reads(void)
{
    end_t e = {0};
    VIP_NIC_ATTRIBUTES nic;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &e.nic));
    MUST(VIP_SUCCESS, VipQueryNic(e.nic, &nic));
    if (!(nic.RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY)) {
        e.attributes.EnableRdmaRead = VIP_TRUE;
        e.attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        e.attributes.MaxTransferSize = 64;
        RETURNS(VIP_INVALID_RDMAREAD, VipCreateVi(e.nic, &e.attributes, NULL, NULL, &e.vi));
        return;
    }
    e.attributes.EnableRdmaRead = VIP_TRUE;
    open_end(&e, NULL, NULL);
    for (int i = 0; i < 4; i++) post_recv(&e, i, 64);
    for (int i = 0; i < 8000; i++) data(&e, 20)[i] = pattern(server ? 1 : 2, (VIP_UINT32)i);
    connect_end(&e);
    if (server) {
        far_t own = {(VIP_UINT64)(uintptr_t)data(&e, 20), e.mem};
        say(&e, 60, &own, sizeof own);
        take_recv(&e);
    } else {
        far_t far;
        memcpy(&far, (void *)take_recv(&e)->DS[0].Local.Data.Address, sizeof far);
        send_now(&e, rdma(&e, 10, VIP_CONTROL_OP_RDMAREAD, far, 8000));
        HOLDS((at(&e, 10)->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RDMA_READ);
        for (int i = 0; i < 8000; i++) HOLDS(data(&e, 10)[i] == pattern(1, (VIP_UINT32)i));
        /* A send behind a fence waits for the read before it. */
        VIP_DESCRIPTOR *r = rdma(&e, 11, VIP_CONTROL_OP_RDMAREAD, far, 100), *got;
        VIP_DESCRIPTOR *s = prepare(&e, 12, 1);
        s->CS.Control |= VIP_CONTROL_QFENCE;
        MUST(VIP_SUCCESS, VipPostSend(e.vi, r, e.mem));
        MUST(VIP_SUCCESS, VipPostSend(e.vi, s, e.mem));
        MUST(VIP_SUCCESS, VipSendWait(e.vi, SECONDS(20), &got));
        HOLDS(got == r && data(&e, 11)[99] == pattern(1, 99));
        MUST(VIP_SUCCESS, VipSendWait(e.vi, SECONDS(20), &got));
        HOLDS(got == s);
    }
    if (!server) pause_ms(50);
    close_end(&e);
}

/* The far side disconnects: what is posted is flushed, the error handler is told, the VI is in
   state ERROR until it is disconnected, and then connects again. */
static void disconnecting(void)
{
    end_t e = {0};
    VIP_DESCRIPTOR *d;
    VIP_VI_STATE state;
    open_end(&e, NULL, NULL);
    post_recv(&e, 0, 64);
    post_recv(&e, 1, 64);
    connect_end(&e);
    if (server) {
        say(&e, 60, "last", 4);
        RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
        RETURNS(VIP_SUCCESS, VipQueryVi(e.vi, &state, NULL, NULL, NULL));
        HOLDS(state == VIP_STATE_IDLE);
        for (int i = 0; i < 2; i++) {
            RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(e.vi, &d));
            HOLDS(d == at(&e, i) && d->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR);
        }
        RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(e.vi, &d));
        HOLDS(d == NULL);
    } else {
        d = take_recv(&e);
        HOLDS(d == at(&e, 0) && memcmp(data(&e, 0), "last", 4) == 0);
        RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS(d == at(&e, 1) && d->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR);
        SOON(errors == 1);
        HOLDS(told.ErrorCode == VIP_ERROR_CONN_LOST && told.ViHandle == e.vi);
        HOLDS(told.NicHandle == e.nic && told.ResourceCode == VIP_RESOURCE_VI);
        RETURNS(VIP_SUCCESS, VipQueryVi(e.vi, &state, NULL, NULL, NULL));
        HOLDS(state == VIP_STATE_ERROR);
        RETURNS(VIP_INVALID_STATE, VipDestroyVi(e.vi));
        RETURNS(VIP_INVALID_STATE, VipSetViAttributes(e.vi, &e.attributes));
        RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
    }
    post_recv(&e, 2, 64);
    connect_end(&e);
    RETURNS(VIP_INVALID_STATE, VipConnectRequest(e.vi, &e.local.net, &e.remote.net, 10, NULL));
    if (server) say(&e, 60, "again", 5);
    else HOLDS(take_recv(&e) == at(&e, 2));
    if (server) pause_ms(50);
    close_end(&e);
}

static void too_long(void)
{
    end_t e = {0};
    VIP_DESCRIPTOR *d;
    VIP_VI_STATE state;
    open_end(&e, NULL, NULL);
    post_recv(&e, 0, server ? 10 : 64);
    connect_end(&e);
    if (server) {
        RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS(d == at(&e, 0) && d->CS.Status & VIP_STATUS_LENGTH_ERROR);
    } else {
        MUST(VIP_SUCCESS, VipPostSend(e.vi, prepare(&e, 60, 11), e.mem));
    }
    SOON(VipQueryVi(e.vi, &state, NULL, NULL, NULL) == VIP_SUCCESS && state == VIP_STATE_ERROR);
    close_end(&e);
}

static void rejecting(void)
{
    end_t e = {0};
    open_end(&e, NULL, NULL);
    if (server) {
        VIP_CONN_HANDLE c;
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), NULL, NULL, &c));
        RETURNS(VIP_ERROR_RESOURCE, VipCloseNic(e.nic));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectAccept(c, c));
        RETURNS(VIP_SUCCESS, VipConnectReject(c));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectReject(c));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectAccept(c, e.vi));
    } else {
        RETURNS(VIP_REJECT, try_connect(&e));
    }
    close_end(&e);
}

/* What does not match leaves the request to be rejected, whereupon both know what did not. */
static void mismatching(void)
{
    end_t e = {0};
    e.attributes.MaxTransferSize = server ? 4096 : 8192;
    open_end(&e, NULL, NULL);
    if (server) {
        VIP_CONN_HANDLE c;
        VIP_VI_ATTRIBUTES far;
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), NULL, &far, &c));
        HOLDS(far.MaxTransferSize == 8192);
        RETURNS(VIP_INVALID_MTU, VipConnectAccept(c, e.vi));
        RETURNS(VIP_INVALID_MTU, VipConnectAccept(c, e.vi));
        RETURNS(VIP_SUCCESS, VipConnectReject(c));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectReject(c));
    } else {
        RETURNS(VIP_INVALID_MTU, try_connect(&e));
    }
    e.attributes.MaxTransferSize = 4096;
    RETURNS(VIP_SUCCESS, VipSetViAttributes(e.vi, &e.attributes));
    connect_end(&e);
    close_end(&e);
}

/* A request is accepted at the third try: the first VI is connected already, the second is of
   another size. */
static void accepting_with_another(void)
{
    end_t e = {0};
    VIP_VI_HANDLE busy, other;
    VIP_DESCRIPTOR *d;
    VIP_VI_ATTRIBUTES far;
    open_end(&e, NULL, NULL);
    busy = e.vi;
    connect_end(&e);
    MUST(VIP_SUCCESS, VipCreateVi(e.nic, &e.attributes, NULL, NULL, &e.vi));
    if (server) {
        VIP_CONN_HANDLE c;
        VIP_VI_ATTRIBUTES larger = e.attributes;
        larger.MaxTransferSize *= 2;
        MUST(VIP_SUCCESS, VipCreateVi(e.nic, &larger, NULL, NULL, &other));
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), NULL, NULL, &c));
        RETURNS(VIP_INVALID_STATE, VipConnectAccept(c, busy));
        RETURNS(VIP_INVALID_MTU, VipConnectAccept(c, other));
        RETURNS(VIP_INVALID_STATE, VipConnectAccept(c, busy));
        RETURNS(VIP_ERROR_RESOURCE, VipCloseNic(e.nic));
        post_recv(&e, 0, 64);
        RETURNS(VIP_SUCCESS, VipConnectAccept(c, e.vi));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectAccept(c, e.vi));
        MUST(VIP_SUCCESS, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS(d == at(&e, 0));
        RETURNS(VIP_SUCCESS, VipDestroyVi(other));
    } else {
        MUST(VIP_SUCCESS, try_connect(&e));
        say(&e, 60, "here", 4);
        pause_ms(50);
        /* Nobody accepts this one in time. */
        VIP_RETURN got = VIP_NO_MATCH;
        MUST(VIP_SUCCESS, VipCreateVi(e.nic, &e.attributes, NULL, NULL, &other));
        for (int tries = 0; got == VIP_NO_MATCH && tries < 20000; tries++) {
            got = VipConnectRequest(other, &e.local.net, &e.remote.net, 30, &far);
            pause_ms(1);
        }
        HOLDS(got == VIP_TIMEOUT);
        RETURNS(VIP_SUCCESS, VipDestroyVi(other));
    }
    if (server) {
        /* The requester has given up: the handle goes, and nothing is left to be rejected. */
        VIP_CONN_HANDLE c;
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), NULL, NULL, &c));
        pause_ms(200);
        MUST(VIP_SUCCESS, VipCreateVi(e.nic, &e.attributes, NULL, NULL, &other));
        RETURNS(VIP_TIMEOUT, VipConnectAccept(c, other));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectReject(c));
        RETURNS(VIP_SUCCESS, VipDestroyVi(other));
    }
    RETURNS(VIP_SUCCESS, VipDisconnect(busy));
    RETURNS(VIP_SUCCESS, VipDestroyVi(busy));
    close_end(&e);
}

/* Neither waits for the other. */
static void peers(void)
{
    end_t e = {0};
    VIP_VI_ATTRIBUTES far;
    VIP_VI_STATE state;
    VIP_RETURN got;
    char mine[64], other[64];
    open_end(&e, NULL, NULL);
    post_recv(&e, 0, 64);
    snprintf(mine, sizeof mine, "%.20s%s", name, server ? "-a" : "-b");
    snprintf(other, sizeof other, "%.20s%s", name, server ? "-b" : "-a");
    address(&e.local, e.nic, mine);
    address(&e.remote, e.nic, other);
    RETURNS(VIP_SUCCESS, VipConnectPeerRequest(e.vi, &e.local.net, &e.remote.net, SECONDS(20)));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerRequest(e.vi, &e.local.net, &e.remote.net, SECONDS(20)));
    if (server) {
        MUST(VIP_SUCCESS, VipConnectPeerWait(e.vi, &far));
    } else {
        int tries = 0;
        while ((got = VipConnectPeerDone(e.vi, &far)) == VIP_NOT_DONE && tries++ < 20000) pause_ms(1);
        MUST(VIP_SUCCESS, got);
    }
    HOLDS(far.MaxTransferSize == 65536);
    RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(e.vi, &far));
    RETURNS(VIP_SUCCESS, VipQueryVi(e.vi, &state, NULL, NULL, NULL));
    HOLDS(state == VIP_STATE_CONNECTED);
    say(&e, 60, "hello", 5);
    HOLDS(take_recv(&e) == at(&e, 0));
    pause_ms(50);
    RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
    /* Nobody comes. */
    address(&e.remote, e.nic, "nobody");
    RETURNS(VIP_SUCCESS, VipConnectPeerRequest(e.vi, &e.local.net, &e.remote.net, 30));
    got = VipConnectPeerWait(e.vi, &far);
    HOLDS(got == VIP_TIMEOUT || got == VIP_NO_MATCH);
    close_end(&e);
}

/* The far side dies. */
static void dying(void)
{
    end_t e = {0};
    VIP_DESCRIPTOR *d;
    open_end(&e, NULL, NULL);
    post_recv(&e, 0, 64);
    connect_end(&e);
    if (!server) {
        say(&e, 60, "x", 1);
        _exit(0);
    }
    take_recv(&e);
    post_recv(&e, 1, 64);
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait(e.vi, SECONDS(20), &d));
    HOLDS(d == at(&e, 1));
    SOON(errors == 1);
    HOLDS(told.ErrorCode == VIP_ERROR_CONN_LOST && told.ViHandle == e.vi);
    close_end(&e);
}

/* What finds no receive, or too short a one, is dropped and told; the connection stays. */
static void unreliable(void)
{
    end_t e = {0};
    VIP_NIC_ATTRIBUTES nic;
    VIP_DESCRIPTOR *d;
    VIP_VI_STATE state;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &e.nic));
    MUST(VIP_SUCCESS, VipErrorCallback(e.nic, NULL, on_error));
    MUST(VIP_SUCCESS, VipQueryNic(e.nic, &nic));
    if (!(nic.ReliabilityLevelSupport & VIP_SERVICE_UNRELIABLE)) {
        e.attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
        e.attributes.MaxTransferSize = 64;
        RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipCreateVi(e.nic, &e.attributes, NULL, NULL, &e.vi));
        return;
    }
    e.attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
    open_end(&e, NULL, NULL);
    if (!server) post_recv(&e, 0, 64);
    connect_end(&e);
    if (server) {
        SOON(errors == 1); /* nothing is posted */
        HOLDS(told.ErrorCode == VIP_ERROR_RECVQ_EMPTY && told.ViHandle == e.vi);
        post_recv(&e, 1, 10);
        post_recv(&e, 2, 64);
        say(&e, 60, "go on", 5);
        MUST(VIP_DESCRIPTOR_ERROR, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS(d == at(&e, 1) && d->CS.Status & VIP_STATUS_LENGTH_ERROR);
        HOLDS(take_recv(&e) == at(&e, 2));
    } else {
        say(&e, 60, "lost", 4);
        take_recv(&e);
        say(&e, 60, "longer than ten", 15);
        say(&e, 60, "arrives", 7);
    }
    RETURNS(VIP_SUCCESS, VipQueryVi(e.vi, &state, NULL, NULL, NULL));
    HOLDS(state == VIP_STATE_CONNECTED || !server);
    if (!server) pause_ms(200);
    close_end(&e);
}

/* A send is done when it has arrived. */
static void reliable_reception(void)
{
    end_t e = {0};
    VIP_NIC_ATTRIBUTES nic;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &e.nic));
    MUST(VIP_SUCCESS, VipQueryNic(e.nic, &nic));
    if (!(nic.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_RECEPTION)) return;
    e.attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
    open_end(&e, NULL, NULL);
    for (int i = 0; i < 32; i++) post_recv(&e, i, 64);
    connect_end(&e);
    for (int i = 0; i < 32; i++) {
        if (!server) say(&e, 60, &i, sizeof i);
        HOLDS(take_recv(&e) == at(&e, i) && *(int *)data(&e, i) == i);
        if (server) say(&e, 60, &i, sizeof i);
    }
    pause_ms(100); /* the last one's arrival has to be told to its sender */
    close_end(&e);
}

/* More is done than the completion queue has room for: an error, which is told. */
static void overrun(void)
{
    end_t e = {0};
    VIP_CQ_HANDLE cq = NULL;
    VIP_VI_STATE state;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &e.nic));
    MUST(VIP_SUCCESS, VipErrorCallback(e.nic, NULL, on_error));
    if (server) MUST(VIP_SUCCESS, VipCreateCQ(e.nic, 4, &cq));
    open_end(&e, NULL, cq);
    for (int i = 0; i < 32; i++) post_recv(&e, i, 64);
    connect_end(&e);
    if (!server) {
        VIP_DESCRIPTOR *d;
        VIP_RETURN got = VIP_SUCCESS;
        for (int i = 0; i < 16 && got == VIP_SUCCESS; i++) {
            MUST(VIP_SUCCESS, VipPostSend(e.vi, prepare(&e, 40 + i, 4), e.mem));
            got = VipSendWait(e.vi, SECONDS(20), &d);
        }
    }
    SOON(VipQueryVi(e.vi, &state, NULL, NULL, NULL) == VIP_SUCCESS && state == VIP_STATE_ERROR);
    SOON(errors >= 1);
    RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e.vi));
    if (server) RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipCloseNic(e.nic));
}

/* Gather and scatter, by as many segments as a descriptor may have. */
static void segments(void)
{
    enum { MANY = 252 };
    end_t e = {0};
    open_end(&e, NULL, NULL);
    VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)e.memory, *got;
    d->CS.SegCount = MANY;
    d->CS.Length = MANY * 3;
    for (int i = 0; i < MANY; i++) {
        d->Data[i].Data.Address = e.memory + 65536 + (server ? 5 : 7) * i;
        d->Data[i].Handle = e.mem;
        d->Data[i].Length = 3;
        if (!server) memset(e.memory + 65536 + 7 * i, i, 3);
    }
    if (server) MUST(VIP_SUCCESS, VipPostRecv(e.vi, d, e.mem));
    connect_end(&e);
    if (server) {
        HOLDS(take_recv(&e) == d && d->Control.Length == MANY * 3);
        for (int i = 0; i < MANY; i++)
            for (int n = 0; n < 5; n++) HOLDS(e.memory[65536 + 5 * i + n] == (n < 3 ? i : 0));
    } else {
        MUST(VIP_SUCCESS, VipPostSend(e.vi, d, e.mem));
        MUST(VIP_SUCCESS, VipSendWait(e.vi, SECONDS(20), &got));
        HOLDS(got == d);
        pause_ms(100);
    }
    close_end(&e);
}

/* Four threads, one VI: each takes what comes first, and sends it back. */
static end_t crowd;
static void *echoes_some(void *own)
{
    VIP_DESCRIPTOR *d, *any;
    int number = (int)(intptr_t)own;
    for (int i = 0; i < 500; i++) {
        VIP_RETURN got = VipRecvWait(crowd.vi, SECONDS(20), &d);
        MUST(VIP_SUCCESS, got);
        VIP_DESCRIPTOR *s = prepare(&crowd, number, 4);
        memcpy(data(&crowd, number), (void *)d->DS[0].Local.Data.Address, 4);
        MUST(VIP_SUCCESS, VipPostRecv(crowd.vi, d, crowd.mem));
        MUST(VIP_SUCCESS, VipPostSend(crowd.vi, s, crowd.mem));
        MUST(VIP_SUCCESS, VipSendWait(crowd.vi, SECONDS(20), &any));
        SOON(s->CS.Status & VIP_STATUS_DONE); /* one of them has taken it */
    }
    return own;
}

static void threads(void)
{
    enum { ROUNDS = 250, EACH = 8 };
    pthread_t t[4];
    end_t *e = &crowd;
    open_end(e, NULL, NULL);
    for (int i = 0; i < 2 * EACH; i++) post_recv(e, i, 64);
    connect_end(e);
    if (server) {
        for (int i = 0; i < 4; i++)
            pthread_create(&t[i], NULL, echoes_some, (VIP_PVOID)(intptr_t)(40 + i));
        for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
        pause_ms(100);
    } else {
        for (int round = 0; round < ROUNDS; round++) {
            int seen = 0;
            for (int i = 0; i < EACH; i++) {
                int bit = 1 << i;
                say(e, 60, &bit, sizeof bit);
            }
            for (int i = 0; i < EACH; i++) {
                VIP_DESCRIPTOR *d = take_recv(e);
                seen |= *(int *)d->DS[0].Local.Data.Address;
                MUST(VIP_SUCCESS, VipPostRecv(e->vi, d, e->mem));
            }
            HOLDS(seen == (1 << EACH) - 1);
        }
    }
    close_end(e);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"polling", polling},
    {"waiting", waiting},
    {"completion_queue", completion_queue},
    {"notifications", notifications},
    {"queue_notifications", queue_notifications},
    {"tagged", tagged},
    {"tagged_notifications", tagged_notifications},
    {"rdma_writes", rdma_writes},
    {"rdma_reads", rdma_reads},
    {"disconnecting", disconnecting},
    {"too_long", too_long},
    {"rejecting", rejecting},
    {"mismatching", mismatching},
    {"accepting_with_another", accepting_with_another},
    {"peers", peers},
    {"dying", dying},
    {"unreliable", unreliable},
    {"reliable_reception", reliable_reception},
    {"overrun", overrun},
    {"segments", segments},
    {"threads", threads},
};

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    server = strcmp(argv[1], "server") == 0;
    name = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[2]) == 0) {
            cases[i].run();
            return result();
        }
    printf("no case %s\n", argv[2]);
    return 2;
}
