/* A program that may create no further threads. Callbacks run inside its own calls, in order, and
   hold no lock that a callback could need. */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

#define SIZE 65536

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE a, b;
static VIP_CQ_HANDLE cq;
static VIP_MEM_HANDLE mem;
static unsigned char *memory;

static volatile int told[64], tells;
static pthread_t home;
static void tell(int what)
{
    if (tells < 64) told[tells] = what;
    tells++;
}

static void *nothing(void *own) { return own; }

/* Forbids new threads until `threads_again`. */
static void no_more_threads(void)
{
    pthread_t t;
    struct rlimit limit;
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_NPROC, &limit);
    if (pthread_create(&t, NULL, nothing, NULL) == 0) exit(77);
}

static void threads_again(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = limit.rlim_max;
    MUST(0, setrlimit(RLIMIT_NPROC, &limit));
}

static VIP_DESCRIPTOR *descriptor(int i)
{
    VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(memory + 64 * i);
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Length = 8;
    d->DS[0].Local.Data.Address = memory + 32768 + 64 * i;
    d->DS[0].Local.Handle = mem;
    d->DS[0].Local.Length = 8;
    return d;
}

static void send(void)
{
    VIP_DESCRIPTOR *d;
    MUST(VIP_SUCCESS, VipPostSend(a, descriptor(0), mem));
    MUST(VIP_SUCCESS, VipSendWait(a, SECONDS(20), &d));
}

/* Makes calls that would wait for ever if the caller held a lock of this VI. */
static void on_recv(VIP_PVOID context, VIP_NIC_HANDLE n, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
    VIP_DESCRIPTOR *other;
    VIP_VI_STATE state;
    HOLDS(n == nic && vi == b && pthread_equal(pthread_self(), home));
    HOLDS((d->CS.Status & VIP_STATUS_DONE) != 0);
    VIP_RETURN got = VipRecvDone(vi, &other);
    HOLDS(got == VIP_NOT_DONE || (got == VIP_DESCRIPTOR_ERROR && !other));
    RETURNS(VIP_SUCCESS, VipQueryVi(vi, &state, NULL, NULL, NULL));
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, d, mem));
    tell((int)(intptr_t)context);
}

static void on_entry(VIP_PVOID context, VIP_NIC_HANDLE n, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    VIP_DESCRIPTOR *d;
    VIP_VI_HANDLE other;
    HOLDS(n == nic && vi == b && recv && pthread_equal(pthread_self(), home));
    RETURNS(VIP_NOT_DONE, VipCQDone(cq, &other, NULL));
    RETURNS(VIP_SUCCESS, VipRecvDone(vi, &d));
    tell((int)(intptr_t)context);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e)
{
    VIP_DESCRIPTOR *d;
    (void)context;
    if (e->ErrorCode == VIP_ERROR_CONN_LOST) return; /* when one disconnects before the other */
    HOLDS(e->ErrorCode == VIP_ERROR_POST_DESC);
    RETURNS(VIP_DESCRIPTOR_ERROR, VipSendDone(e->ViHandle, &d));
    tell(100);
}

/* Destroys the VI of the callback. */
static void ends(VIP_PVOID context, VIP_NIC_HANDLE n, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
    (void)context, (void)n, (void)d;
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(vi));
    tell(200);
}

static void late(VIP_PVOID context, VIP_NIC_HANDLE n, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
    (void)context, (void)n, (void)vi, (void)d;
    HOLDS(!pthread_equal(pthread_self(), home));
    tell(300);
}

/* Connects two VIs of this process, the second one on a completion queue if it is given. */
static void connect_both(VIP_CQ_HANDLE on)
{
    address_t one, two;
    address(&one, nic, "threadless-a");
    address(&two, nic, "threadless-b");
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &a));
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, on, &b));
    MUST(VIP_SUCCESS, VipConnectPeerRequest(a, &one.net, &two.net, SECONDS(20)));
    MUST(VIP_SUCCESS, VipConnectPeerRequest(b, &two.net, &one.net, SECONDS(20)));
    MUST(VIP_SUCCESS, VipConnectPeerWait(a, NULL));
    MUST(VIP_SUCCESS, VipConnectPeerWait(b, NULL));
}

static void disconnect_both(void)
{
    RETURNS(VIP_SUCCESS, VipDisconnect(a));
    RETURNS(VIP_SUCCESS, VipDisconnect(b));
    RETURNS(VIP_SUCCESS, VipDestroyVi(a));
    RETURNS(VIP_SUCCESS, VipDestroyVi(b));
}

int main(void)
{
    VIP_VI_HANDLE a1, b1, vi, idle;
    VIP_DESCRIPTOR *d;
    VIP_EVENT_HANDLE event = NULL;
    home = pthread_self();
    /* Root has no limits. Wait for one thread: glibc waits for threads that are just ending. */
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 77;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &nic));
    MUST(VIP_SUCCESS, VipErrorCallback(nic, NULL, on_error));
    MUST(VIP_SUCCESS, VipCreateCQ(nic, 1024, &cq));
    memory = aligned_alloc(64, SIZE);
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, SIZE, NULL, &mem));
    connect_both(NULL);
    a1 = a, b1 = b;
    connect_both(cq);
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &idle));
    no_more_threads();

    /* Entries of a completion queue: while the program polls, while it waits, and in order. */
    for (int i = 1; i <= 4; i++) {
        RETURNS(VIP_SUCCESS, VipPostRecv(b, descriptor(i), mem));
        RETURNS(VIP_SUCCESS, VipCQNotify(cq, (VIP_PVOID)(intptr_t)i, on_entry));
    }
    for (int i = 1; i <= 4; i++) send();
    SOON(VipCQDone(cq, &vi, NULL) == VIP_NOT_DONE && tells == 4);
    for (int i = 1; i <= 4; i++) HOLDS(told[i - 1] == i);
    RETURNS(VIP_SUCCESS, VipPostRecv(b, descriptor(1), mem));
    RETURNS(VIP_SUCCESS, VipCQNotify(cq, (VIP_PVOID)(intptr_t)5, on_entry));
    send();
    RETURNS(VIP_TIMEOUT, VipCQWait(cq, 1200, &vi, NULL));
    HOLDS(tells == 5 && told[4] == 5);
    /* The queue's event needs no thread. */
    MUST(VIP_SUCCESS, VipAddTagCQ(cq, &event, 1, 0));
    RETURNS(VIP_SUCCESS, VipPostRecv(b, descriptor(1), mem));
    send();
    struct pollfd ready = {(int)(intptr_t)event, POLLIN, 0};
    HOLDS(poll(&ready, 1, 10000) == 1);
    RETURNS(VIP_SUCCESS, VipCQDone(cq, &vi, NULL));
    RETURNS(VIP_SUCCESS, VipRecvDone(b, &d));
    disconnect_both();

    /* Entries of a receive queue: found by the engine, by the program, or present before. */
    a = a1, b = b1;
    tells = 0;
    for (int i = 1; i <= 8; i++) RETURNS(VIP_SUCCESS, VipPostRecv(b, descriptor(i), mem));
    for (int i = 0; i < 20; i++) {
        int before = i % 2;
        if (before) RETURNS(VIP_SUCCESS, VipRecvNotify(b, (VIP_PVOID)(intptr_t)i, on_recv));
        send();
        if (i % 4 > 1) pause_ms(30);
        if (!before) RETURNS(VIP_SUCCESS, VipRecvNotify(b, (VIP_PVOID)(intptr_t)i, on_recv));
        SOON(VipSendDone(a, &d) == VIP_DESCRIPTOR_ERROR && tells == i + 1);
        HOLDS(told[i] == i);
    }
    /* An error. */
    tells = 0;
    RETURNS(VIP_SUCCESS, VipPostRecv(a, (VIP_DESCRIPTOR *)(memory + 1), mem));
    SOON(VipSendDone(a, &d) == VIP_DESCRIPTOR_ERROR && tells == 1);
    HOLDS(told[0] == 100);
    /* A callback destroys its VI during the call that flushes the callback's descriptor. */
    tells = 0;
    RETURNS(VIP_SUCCESS, VipPostRecv(idle, descriptor(20), mem));
    RETURNS(VIP_SUCCESS, VipRecvNotify(idle, NULL, ends));
    RETURNS(VIP_SUCCESS, VipDisconnect(idle));
    HOLDS(tells == 1 && told[0] == 200);
    RETURNS(VIP_INVALID_PARAMETER, VipDisconnect(idle));

    /* Once threads are possible again, a thread runs callbacks, and the program need not call. */
    tells = 0;
    RETURNS(VIP_SUCCESS, VipRecvNotify(b, NULL, late));
    MUST(VIP_SUCCESS, VipPostSend(a, descriptor(0), mem));
    pause_ms(100);
    HOLDS(tells == 0);
    threads_again();
    SOON(tells == 1);
    HOLDS(told[0] == 300);
    disconnect_both();
    RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipCloseNic(nic));
    return result();
}
