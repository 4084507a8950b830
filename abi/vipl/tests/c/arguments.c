/* Every function, with every kind of argument that it must refuse. No peer is needed. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

static VIP_NIC_HANDLE nic, other;
static VIP_VI_HANDLE vi;
static VIP_CQ_HANDLE cq;
static VIP_MEM_HANDLE mem;
static unsigned char *memory;
#define LENGTH 65536UL

/* Whatever is not a handle of the kind that is asked for. */
static void strangers(VIP_PVOID *all, int count, VIP_PVOID valid)
{
    static char nowhere;
    VIP_PVOID some[] = {NULL, (VIP_PVOID)1, (VIP_PVOID)-1, &nowhere, memory,
                        (char *)valid + 177, (VIP_PVOID)((uintptr_t)valid ^ (uintptr_t)1 << 35),
                        (VIP_PVOID)((uintptr_t)valid ^ (uintptr_t)1 << 60)};
    for (int i = 0; i < count; i++) all[i] = some[i % 8];
}

#define STRANGERS 8
#define WITH_STRANGERS(valid, call)                                                              \
    do {                                                                                         \
        VIP_PVOID all_[STRANGERS];                                                               \
        strangers(all_, STRANGERS, (valid));                                                     \
        for (int i_ = 0; i_ < STRANGERS; i_++) {                                                 \
            VIP_PVOID it = all_[i_];                                                             \
            RETURNS(VIP_INVALID_PARAMETER, call);                                                \
        }                                                                                        \
    } while (0)

static void on_vi(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_DESCRIPTOR *d)
{
    (void)n; (void)v;
    *(VIP_DESCRIPTOR *volatile *)c = d;
}
static void on_cq(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_BOOLEAN recv)
{
    (void)n; (void)recv;
    *(VIP_VI_HANDLE volatile *)c = v;
}
static volatile VIP_ERROR_DESCRIPTOR told;
static volatile int errors;
static void on_error(VIP_PVOID c, VIP_ERROR_DESCRIPTOR *e)
{
    HOLDS(c == (VIP_PVOID)&told);
    memcpy((void *)&told, e, sizeof told);
    errors++;
}

static VIP_DESCRIPTOR *descriptor(int i)
{
    VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(memory + 64 * i);
    memset((void *)d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->DS[0].Local.Data.Address = memory + 32768;
    d->DS[0].Local.Handle = mem;
    d->DS[0].Local.Length = 64;
    d->CS.Length = 64;
    return d;
}

static void nics(void)
{
    VIP_NIC_HANDLE n;
    VIP_NIC_ATTRIBUTES a;
    char name[66];
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic(NULL, &n));
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("VINIC", NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("", &n));
    memset(name, 'n', sizeof name);
    name[64] = 0;
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic(name, &n));
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("\xff\xfe", &n)); /* no text */
    name[63] = 0;
    static const char *const names[] = {"/dev/via_lo", "/dev/via_eth0", "/dev/clanvi0", "VINIC",
                                        "VINIC0", "nic0", "whatever"};
    unsigned char first[64];
    for (int i = 0; i < 8; i++) {
        const char *this = i < 7 ? names[i] : name;
        MUST(VIP_SUCCESS, VipOpenNic(this, &n));
        RETURNS(VIP_SUCCESS, VipQueryNic(n, &a));
        HOLDS(strcmp(a.Name, this) == 0);
        HOLDS(a.NicAddressLen >= 1 && a.NicAddressLen < 64);
        /* All of them are one. */
        if (i == 0) memcpy(first, a.LocalNicAddress, a.NicAddressLen);
        HOLDS(memcmp(first, a.LocalNicAddress, a.NicAddressLen) == 0);
        RETURNS(VIP_SUCCESS, VipCloseNic(n));
        RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(n));
        RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(n, &a));
    }
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &nic));
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &other));
    HOLDS(nic != other);
    RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(nic, NULL));
    RETURNS(VIP_SUCCESS, VipQueryNic(nic, &a));
    HOLDS(a.ThreadSafe);
    HOLDS(a.MaxDiscriminatorLen >= 16 && a.MaxTransferSize >= 32768 && a.MaxSegmentsPerDesc >= 252);
    HOLDS(a.MaxDescriptorsPerQueue >= 256 && a.MaxCQ >= 1 && a.MaxCQEntries >= 1024 && a.MaxVI >= 1);
    HOLDS(a.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY);
    WITH_STRANGERS(nic, VipQueryNic(it, &a));
    WITH_STRANGERS(nic, VipCloseNic(it));
    WITH_STRANGERS(nic, VipErrorCallback(it, NULL, on_error));
}

static void regions(void)
{
    VIP_PROTECTION_HANDLE first, p, q;
    VIP_MEM_HANDLE h = 0;
    VIP_MEM_ATTRIBUTES a = {NULL, 0, 0};
    WITH_STRANGERS(nic, VipCreatePtag(it, &p));
    RETURNS(VIP_INVALID_PARAMETER, VipCreatePtag(nic, NULL));
    MUST(VIP_SUCCESS, VipCreatePtag(nic, &first));
    MUST(VIP_SUCCESS, VipCreatePtag(nic, &p));
    MUST(VIP_SUCCESS, VipCreatePtag(other, &q));
    HOLDS(p != NULL && p != q && first != NULL && first != p);
    WITH_STRANGERS(nic, VipDestroyPtag(it, p));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, q));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, NULL));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, (VIP_PVOID)-1));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, nic));

    memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WITH_STRANGERS(nic, VipRegisterMem(it, memory, LENGTH, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, LENGTH, &a, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, NULL, LENGTH, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, 0, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, (VIP_ULONG)-1, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, 1UL << 62, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, (VIP_PVOID)64, 64, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, (VIP_PVOID)-64, 64, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, (VIP_PVOID)-64, 128, &a, &h));
    /* Memory that ends within what is to be registered. */
    unsigned char *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole + 4096, 4096);
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, hole, 4097, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, hole + 4096, 1, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, hole, 3 * 4096, &a, &h));
    munmap(hole, 3 * 4096);
    a.Ptag = q;
    RETURNS(VIP_INVALID_PTAG, VipRegisterMem(nic, memory, LENGTH, &a, &h));
    a.Ptag = &a;
    RETURNS(VIP_INVALID_PTAG, VipRegisterMem(nic, memory, LENGTH, &a, &h));
    HOLDS(h == 0);

    a.Ptag = p;
    a.EnableRdmaWrite = VIP_TRUE;
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, 3, &a, &h));
    HOLDS(h != 0);
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, p));
    memset(&a, 0, sizeof a);
    RETURNS(VIP_SUCCESS, VipQueryMem(nic, memory, h, &a));
    HOLDS(a.Ptag == p && a.EnableRdmaWrite == VIP_TRUE && a.EnableRdmaRead == VIP_FALSE);
    WITH_STRANGERS(nic, VipQueryMem(it, memory, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, h, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory + 1, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, NULL, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, h + 1, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, 0, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(other, memory, h, &a));
    WITH_STRANGERS(nic, VipSetMemAttributes(it, memory, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, h, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory + 1, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, ~h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, 0, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, NULL, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(other, memory, h, &a));
    a.Ptag = (VIP_PVOID)-1;
    RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory, h, &a));
    a.Ptag = q;
    RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory, h, &a));
    a.Ptag = NULL;
    a.EnableRdmaWrite = 0;
    RETURNS(VIP_SUCCESS, VipSetMemAttributes(nic, memory, h, &a));
    RETURNS(VIP_SUCCESS, VipQueryMem(nic, memory, h, &a));
    /* No tag is the first that was created. */
    HOLDS(a.Ptag == first && !a.EnableRdmaWrite);
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, first));
    a.Ptag = p;
    RETURNS(VIP_SUCCESS, VipSetMemAttributes(nic, memory, h, &a));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(nic, first));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, first));
    a.Ptag = first;
    RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory, h, &a));
    /* Nor is it gone with that one, and it is not the program's to destroy. */
    a.Ptag = NULL;
    RETURNS(VIP_SUCCESS, VipSetMemAttributes(nic, memory, h, &a));
    RETURNS(VIP_SUCCESS, VipQueryMem(nic, memory, h, &a));
    HOLDS(a.Ptag != NULL && a.Ptag != first && a.Ptag != p);
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, a.Ptag));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(nic, p));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, p));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(other, q));
    WITH_STRANGERS(nic, VipDeregisterMem(it, memory, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory + 1, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, h + 1));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, ~h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, NULL, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(other, memory, h));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, memory, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, h));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, h, &a));
    /* Twice the same memory, the second time for what follows. */
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, LENGTH, NULL, &h));
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, LENGTH, NULL, &mem));
    HOLDS(h != mem);
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, memory, h));
}

static void queues(void)
{
    VIP_CQ_HANDLE c = NULL;
    VIP_VI_HANDLE v;
    VIP_BOOLEAN recv;
    VIP_NIC_ATTRIBUTES a;
    WITH_STRANGERS(nic, VipCreateCQ(it, 1024, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 1024, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 0, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 1UL << 40, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(nic, (VIP_ULONG)-1, &c));
    MUST(VIP_SUCCESS, VipQueryNic(nic, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(nic, a.MaxCQEntries + 1, &c));
    HOLDS(c == NULL);
    MUST(VIP_SUCCESS, VipCreateCQ(nic, 1024, &cq));
    MUST(VIP_SUCCESS, VipCreateCQ(nic, 1, &c));
    HOLDS(c != cq);
    RETURNS(VIP_ERROR_RESOURCE, VipCloseNic(nic));
    WITH_STRANGERS(cq, VipResizeCQ(it, 64));
    RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(cq, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(cq, (VIP_ULONG)-1));
    RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(cq, a.MaxCQEntries + 1));
    RETURNS(VIP_SUCCESS, VipResizeCQ(cq, 512));
    WITH_STRANGERS(cq, VipCQDone(it, &v, &recv));
    RETURNS(VIP_INVALID_PARAMETER, VipCQDone(cq, NULL, &recv));
    RETURNS(VIP_NOT_DONE, VipCQDone(cq, &v, &recv));
    WITH_STRANGERS(cq, VipCQWait(it, 0, &v, &recv));
    RETURNS(VIP_INVALID_PARAMETER, VipCQWait(cq, 0, NULL, &recv));
    RETURNS(VIP_TIMEOUT, VipCQWait(cq, 0, &v, &recv));
    RETURNS(VIP_TIMEOUT, VipCQWait(cq, 20, &v, &recv));
    WITH_STRANGERS(cq, VipCQNotify(it, NULL, on_cq));
    RETURNS(VIP_INVALID_PARAMETER, VipCQNotify(cq, NULL, NULL));
    WITH_STRANGERS(cq, VipDestroyCQ(it));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(c));
    /* Nothing works on one that is gone. */
    VIP_EVENT_HANDLE event = NULL;
    RETURNS(VIP_INVALID_PARAMETER, VipDestroyCQ(c));
    RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(c, 64));
    RETURNS(VIP_INVALID_PARAMETER, VipCQDone(c, &v, &recv));
    RETURNS(VIP_INVALID_PARAMETER, VipCQWait(c, VIP_INFINITE, &v, &recv));
    RETURNS(VIP_INVALID_PARAMETER, VipCQNotify(c, NULL, on_cq));
    RETURNS(VIP_INVALID_PARAMETER, VipAddTagCQ(c, &event, 1, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, NULL, c, NULL, &v));
    HOLDS(event == NULL);
}

static void vis(void)
{
    VIP_VI_ATTRIBUTES a = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, 0, 0}, b;
    VIP_VI_HANDLE v = NULL;
    VIP_VI_STATE state;
    VIP_BOOLEAN s, r;
    VIP_PROTECTION_HANDLE p, first;
    VIP_CQ_HANDLE c;
    VIP_NIC_ATTRIBUTES n;
    int data;
    WITH_STRANGERS(nic, VipCreateVi(it, &a, NULL, NULL, &v));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, &a, NULL, NULL, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, &a, nic, NULL, &v));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, &a, NULL, (VIP_PVOID)8, &v));
    MUST(VIP_SUCCESS, VipCreateCQ(other, 8, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, &a, c, NULL, &v)); /* another NIC's */
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, &a, NULL, c, &v));
    RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(nic, &a, cq, c, &v));
    a.ReliabilityLevel = 0;
    RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipCreateVi(nic, &a, NULL, NULL, &v));
    a.ReliabilityLevel = 3;
    RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipCreateVi(nic, &a, NULL, NULL, &v));
    a.ReliabilityLevel = 0x1000;
    RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipCreateVi(nic, &a, NULL, NULL, &v));
    a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    a.MaxTransferSize = 0;
    RETURNS(VIP_INVALID_MTU, VipCreateVi(nic, &a, NULL, NULL, &v));
    a.MaxTransferSize = (1UL << 32) + 4096;
    RETURNS(VIP_INVALID_MTU, VipCreateVi(nic, &a, NULL, NULL, &v));
    MUST(VIP_SUCCESS, VipQueryNic(nic, &n));
    a.MaxTransferSize = n.MaxTransferSize + 1;
    RETURNS(VIP_INVALID_MTU, VipCreateVi(nic, &a, NULL, NULL, &v));
    a.MaxTransferSize = 4096;
    /* Reads do not go with every level. */
    for (int level = 1; level <= 4; level *= 2) {
        if (!(n.ReliabilityLevelSupport & level) || n.RDMAReadSupport & level) continue;
        a.ReliabilityLevel = (VIP_RELIABILITY_LEVEL)level;
        a.EnableRdmaRead = VIP_TRUE;
        RETURNS(VIP_INVALID_RDMAREAD, VipCreateVi(nic, &a, NULL, NULL, &v));
    }
    a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    a.EnableRdmaRead = VIP_FALSE;
    MUST(VIP_SUCCESS, VipCreatePtag(other, &p));
    a.Ptag = p;
    RETURNS(VIP_INVALID_PTAG, VipCreateVi(nic, &a, NULL, NULL, &v));
    a.Ptag = nic;
    RETURNS(VIP_INVALID_PTAG, VipCreateVi(nic, &a, NULL, NULL, &v));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(other, p));
    MUST(VIP_SUCCESS, VipCreatePtag(nic, &first));
    MUST(VIP_SUCCESS, VipCreatePtag(nic, &p));
    HOLDS(v == NULL);

    a.Ptag = p;
    MUST(VIP_SUCCESS, VipCreateVi(nic, &a, NULL, NULL, &v));
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, p));
    memset(&b, 0xff, sizeof b);
    RETURNS(VIP_SUCCESS, VipQueryVi(v, &state, &b, &s, &r));
    HOLDS(state == VIP_STATE_IDLE && s == VIP_TRUE && r == VIP_TRUE && b.Ptag == p);
    HOLDS(b.ReliabilityLevel == VIP_SERVICE_RELIABLE_DELIVERY && b.MaxTransferSize == 4096);
    HOLDS(!b.EnableRdmaRead && !b.EnableRdmaWrite);
    RETURNS(VIP_SUCCESS, VipQueryVi(v, NULL, NULL, NULL, NULL));
    WITH_STRANGERS(v, VipQueryVi(it, &state, &b, &s, &r));
    WITH_STRANGERS(v, VipSetViAttributes(it, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetViAttributes(v, NULL));
    a.Ptag = other;
    RETURNS(VIP_INVALID_PTAG, VipSetViAttributes(v, &a));
    a.Ptag = NULL;
    a.ReliabilityLevel = 0;
    RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipSetViAttributes(v, &a));
    a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    a.MaxTransferSize = 0;
    RETURNS(VIP_INVALID_MTU, VipSetViAttributes(v, &a));
    a.MaxTransferSize = n.MaxTransferSize + 1;
    RETURNS(VIP_INVALID_MTU, VipSetViAttributes(v, &a));
    RETURNS(VIP_SUCCESS, VipQueryVi(v, NULL, &b, NULL, NULL));
    HOLDS(b.MaxTransferSize == 4096 && b.Ptag == p);
    a.MaxTransferSize = 32768;
    RETURNS(VIP_SUCCESS, VipSetViAttributes(v, &a));
    RETURNS(VIP_SUCCESS, VipQueryVi(v, NULL, &b, NULL, NULL));
    HOLDS(b.MaxTransferSize == 32768 && b.Ptag == first);
    RETURNS(VIP_SUCCESS, VipDestroyPtag(nic, p));
    HOLDS(VipGetUserData(v) == NULL);
    VipSetUserData(v, &data);
    HOLDS(VipGetUserData(v) == &data);
    VipSetUserData(NULL, &data);
    HOLDS(VipGetUserData(NULL) == NULL && VipGetUserData(nic) == NULL);
    WITH_STRANGERS(v, VipPostDeferredSends(it, VIP_FALSE, &s));
    RETURNS(VIP_SUCCESS, VipPostDeferredSends(v, VIP_TRUE, &s));
    HOLDS(s == VIP_FALSE);
    RETURNS(VIP_SUCCESS, VipPostDeferredSends(v, VIP_FALSE, NULL));
    RETURNS(VIP_SUCCESS, VipDestroyVi(v));
    RETURNS(VIP_INVALID_PARAMETER, VipDestroyVi(v));
    HOLDS(VipGetUserData(v) == NULL);
    WITH_STRANGERS(v, VipDestroyVi(it));
    /* Nothing works on one that is gone. */
    VIP_DESCRIPTOR *none;
    RETURNS(VIP_INVALID_PARAMETER, VipQueryVi(v, &state, NULL, NULL, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipSetViAttributes(v, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipDisconnect(v));
    RETURNS(VIP_INVALID_PARAMETER, VipPostSend(v, descriptor(0), mem));
    RETURNS(VIP_INVALID_PARAMETER, VipPostRecv(v, descriptor(0), mem));
    RETURNS(VIP_INVALID_PARAMETER, VipSendWait(v, VIP_INFINITE, &none));
    RETURNS(VIP_INVALID_PARAMETER, VipRecvWait(v, VIP_INFINITE, &none));
    RETURNS(VIP_INVALID_PARAMETER, VipRecvNotify(v, NULL, on_vi));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerDone(v, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipPostDeferredSends(v, VIP_FALSE, &s));

    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, cq, cq, &vi));
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyCQ(cq));
    RETURNS(VIP_ERROR_RESOURCE, VipCloseNic(nic));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(c));
}

static void transfers(void)
{
    VIP_DESCRIPTOR *d = descriptor(0), *got;
    VIP_DESCRIPTOR *volatile called = NULL;
    VIP_VI_HANDLE v;
    VIP_VI_HANDLE volatile from = NULL;
    VIP_BOOLEAN recv, s, r;
    MUST(VIP_SUCCESS, VipErrorCallback(nic, (VIP_PVOID)&told, on_error));

    WITH_STRANGERS(vi, VipPostSend(it, d, mem));
    WITH_STRANGERS(vi, VipPostRecv(it, d, mem));
    RETURNS(VIP_INVALID_PARAMETER, VipPostSend(vi, NULL, mem));
    RETURNS(VIP_INVALID_PARAMETER, VipPostRecv(vi, NULL, mem));
    RETURNS(VIP_INVALID_STATE, VipPostSend(vi, d, mem));
    /* What is no descriptor is told to the error handler. */
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, d, 0));
    SOON(errors == 1);
    HOLDS(told.NicHandle == nic && told.ViHandle == vi && told.CQHandle == NULL);
    HOLDS(told.DescriptorPtr == d && told.ErrorCode == VIP_ERROR_POST_DESC);
    HOLDS(told.ResourceCode == VIP_RESOURCE_DESCRIPTOR);
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, d, mem + 1));
    SOON(errors == 2);
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, (VIP_DESCRIPTOR *)((char *)d + 8), mem));
    SOON(errors == 3);
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, (VIP_DESCRIPTOR *)(memory + LENGTH), mem));
    SOON(errors == 4);
    RETURNS(VIP_SUCCESS, VipErrorCallback(nic, NULL, NULL));
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, d, 0)); /* a line on standard error */

    WITH_STRANGERS(vi, VipSendDone(it, &got));
    WITH_STRANGERS(vi, VipRecvDone(it, &got));
    WITH_STRANGERS(vi, VipSendWait(it, 0, &got));
    WITH_STRANGERS(vi, VipRecvWait(it, 0, &got));
    WITH_STRANGERS(vi, VipSendNotify(it, NULL, on_vi));
    WITH_STRANGERS(vi, VipRecvNotify(it, NULL, on_vi));
    RETURNS(VIP_INVALID_PARAMETER, VipSendDone(vi, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipRecvDone(vi, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipSendWait(vi, VIP_INFINITE, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipRecvWait(vi, VIP_INFINITE, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipSendNotify(vi, NULL, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipRecvNotify(vi, NULL, NULL));
#define EMPTY(call) got = d; RETURNS(VIP_DESCRIPTOR_ERROR, call); HOLDS(got == NULL)
    EMPTY(VipSendDone(vi, &got));
    EMPTY(VipRecvDone(vi, &got));
    EMPTY(VipSendWait(vi, VIP_INFINITE, &got));
    EMPTY(VipRecvWait(vi, VIP_INFINITE, &got));

    /* Receives that are posted before connecting, and flushed. */
    d->CS.Status = VIP_STATUS_DONE;
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, d, mem));
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, descriptor(1), mem));
    HOLDS(d->CS.Status == 0);
    RETURNS(VIP_SUCCESS, VipQueryVi(vi, NULL, NULL, &s, &r));
    HOLDS(s == VIP_TRUE && r == VIP_FALSE);
    got = d;
    RETURNS(VIP_NOT_DONE, VipRecvDone(vi, &got));
    HOLDS(got == NULL);
    got = d;
    RETURNS(VIP_TIMEOUT, VipRecvWait(vi, 0, &got));
    HOLDS(got == NULL);
    RETURNS(VIP_TIMEOUT, VipRecvWait(vi, 10, &got));
    WITH_STRANGERS(vi, VipDisconnect(it));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    HOLDS(d->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR);
    RETURNS(VIP_SUCCESS, VipCQDone(cq, &v, &recv));
    HOLDS(v == vi && recv == VIP_TRUE);
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    HOLDS(got == d);
    RETURNS(VIP_SUCCESS, VipCQWait(cq, 0, &v, NULL));
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait(vi, VIP_INFINITE, &got));
    HOLDS(got == (VIP_DESCRIPTOR *)(memory + 64));

    /* Notifications: of the completion queue, then of the work queue. */
    RETURNS(VIP_SUCCESS, VipCQNotify(cq, (VIP_PVOID)&from, on_cq));
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, descriptor(0), mem));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    SOON(from == vi);
    RETURNS(VIP_NOT_DONE, VipCQDone(cq, &v, &recv));
    RETURNS(VIP_SUCCESS, VipRecvNotify(vi, (VIP_PVOID)&called, on_vi));
    SOON(called == d);
    EMPTY(VipRecvDone(vi, &got));
}

/* A callback may end what it is called for. */
static VIP_VI_HANDLE volatile ended;
static void ends_vi(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_DESCRIPTOR *d)
{
    (void)c; (void)d;
    HOLDS(n == nic);
    RETURNS(ended ? VIP_INVALID_PARAMETER : VIP_SUCCESS, VipDestroyVi(v));
    RETURNS(VIP_INVALID_PARAMETER, VipDestroyVi(v));
    ended = v;
}

static void callbacks(void)
{
    VIP_VI_HANDLE v;
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
    for (int i = 0; i < 3; i++) RETURNS(VIP_SUCCESS, VipPostRecv(v, descriptor(i), mem));
    for (int i = 0; i < 3; i++) RETURNS(VIP_SUCCESS, VipRecvNotify(v, NULL, ends_vi));
    RETURNS(VIP_SUCCESS, VipDisconnect(v));
    SOON(ended == v);
    /* The other two calls find that it is gone, or do not come. */
    pause_ms(20);
}

static void notes_vi(VIP_PVOID context, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_BOOLEAN recv)
{
    HOLDS(n == nic && recv);
    *(VIP_VI_HANDLE volatile *)context = v;
}

static void tags(void)
{
    VIP_EVENT_HANDLE e = NULL, f = NULL;
    VIP_VI_HANDLE v;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *got;
    WITH_STRANGERS(cq, VipAddTagCQ(it, &e, 1, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipAddTagCQ(cq, NULL, 1, 0));
    f = (VIP_EVENT_HANDLE)(intptr_t)STDOUT_FILENO;
    RETURNS(VIP_INVALID_PARAMETER, VipAddTagCQ(cq, &f, 1, 0)); /* no event */
    f = (VIP_EVENT_HANDLE)-1;
    RETURNS(VIP_INVALID_PARAMETER, VipAddTagCQ(cq, &f, 1, 0));
    MUST(VIP_SUCCESS, VipAddTagCQ(cq, &e, 1, 0));
    HOLDS(e != NULL);
    f = e;
    RETURNS(VIP_INVALID_PARAMETER, VipAddTagCQ(cq, &f, 1, 0)); /* is there already */
    RETURNS(VIP_SUCCESS, VipAddTagCQ(cq, &f, 2, 0));
    HOLDS(f == e);
    struct pollfd poll_event = {(int)(intptr_t)e, POLLIN, 0};
    HOLDS(poll(&poll_event, 1, 0) == 0);
    for (int i = 0; i < 100; i++) {
        int entries = 1 + i % 3;
        for (int n = 0; n < entries; n++) MUST(VIP_SUCCESS, VipPostRecv(vi, descriptor(n), mem));
        RETURNS(VIP_SUCCESS, VipDisconnect(vi));
        HOLDS(poll(&poll_event, 1, 10000) == 1);
        for (int n = 0; n < entries; n++) {
            RETURNS(VIP_SUCCESS, i % 2 ? VipCQDone(cq, &v, &recv) : VipCQWait(cq, 5000, &v, &recv));
            HOLDS(v == vi && recv);
            RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
        }
        RETURNS(VIP_NOT_DONE, VipCQDone(cq, &v, &recv));
        HOLDS(poll(&poll_event, 1, 0) == 0);
    }
    RETURNS(VIP_TIMEOUT, VipCQWait(cq, 20, &v, &recv));
    /* A callback takes its entry, and leaves the next to the event. */
    VIP_VI_HANDLE noted = NULL;
    RETURNS(VIP_SUCCESS, VipCQNotify(cq, &noted, notes_vi));
    MUST(VIP_SUCCESS, VipPostRecv(vi, descriptor(0), mem));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    SOON(*(VIP_VI_HANDLE volatile *)&noted == vi);
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    HOLDS(poll(&poll_event, 1, 20) == 0);
    RETURNS(VIP_NOT_DONE, VipCQDone(cq, &v, &recv));
    MUST(VIP_SUCCESS, VipPostRecv(vi, descriptor(0), mem));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    HOLDS(poll(&poll_event, 1, 10000) == 1);
    RETURNS(VIP_SUCCESS, VipCQNotify(cq, &noted, notes_vi)); /* is there already */
    SOON(VipCQDone(cq, &v, &recv) == VIP_NOT_DONE && poll(&poll_event, 1, 0) == 0);
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    WITH_STRANGERS(cq, VipRemoveTagCQ(it, e, 1));
    RETURNS(VIP_INVALID_PARAMETER, VipRemoveTagCQ(cq, NULL, 1));
    RETURNS(VIP_INVALID_PARAMETER, VipRemoveTagCQ(cq, e, 3));
    RETURNS(VIP_SUCCESS, VipRemoveTagCQ(cq, e, 1));
    RETURNS(VIP_INVALID_PARAMETER, VipRemoveTagCQ(cq, e, 1));
    RETURNS(VIP_SUCCESS, VipRemoveTagCQ(cq, e, 2));
    RETURNS(VIP_INVALID_PARAMETER, VipRemoveTagCQ(cq, e, 2));
    HOLDS(poll(&poll_event, 1, 0) == 1 && poll_event.revents == POLLNVAL);
}

static void connections(void)
{
    address_t here, there;
    VIP_NET_ADDRESS *local = address(&here, nic, "me");
    VIP_NET_ADDRESS *remote = address(&there, nic, "nobody waits here");
    VIP_VI_ATTRIBUTES a;
    VIP_CONN_HANDLE c = NULL;
    WITH_STRANGERS(nic, VipConnectWait(it, local, 0, remote, &a, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectWait(nic, NULL, 0, remote, &a, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectWait(nic, local, 0, remote, &a, NULL));
    RETURNS(VIP_TIMEOUT, VipConnectWait(nic, local, 0, remote, &a, &c));
    RETURNS(VIP_TIMEOUT, VipConnectWait(nic, local, 20, NULL, NULL, &c));
    /* The NIC knows its own address; cLAN's programs do not fill it in. */
    memset(local->HostAddress, 0xa5, local->HostAddressLen);
    RETURNS(VIP_TIMEOUT, VipConnectWait(nic, local, 0, remote, &a, &c));
    HOLDS(c == NULL);
    local->HostAddressLen = 0xffff; /* as memory is that nobody has filled in */
    RETURNS(VIP_INVALID_PARAMETER, VipConnectWait(nic, local, 0, remote, &a, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, remote, 10));
    local = address(&here, nic, "me");
    WITH_STRANGERS(nic, VipConnectReject(it));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectReject(vi));
    WITH_STRANGERS(vi, VipConnectAccept(c, it));
    WITH_STRANGERS(nic, VipConnectAccept(it, vi));

    remote = address(&there, nic, "nobody waits here");
    WITH_STRANGERS(vi, VipConnectRequest(it, local, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, NULL, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, NULL, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, remote, 0, &a));
    RETURNS(VIP_NO_MATCH, VipConnectRequest(vi, local, remote, VIP_INFINITE, &a));
    RETURNS(VIP_NO_MATCH, VipConnectRequest(vi, local, remote, 1000, NULL));
    remote->DiscriminatorLen = 200;
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, remote, 10, &a));
    remote = address(&there, nic, "nobody waits here");

    WITH_STRANGERS(vi, VipConnectPeerRequest(it, local, remote, 10));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, NULL, remote, 10));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, NULL, 10));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, remote, 0));
    WITH_STRANGERS(vi, VipConnectPeerDone(it, &a));
    WITH_STRANGERS(vi, VipConnectPeerWait(it, &a));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(vi, &a));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerWait(vi, NULL));

    /* Lengths that are not this NIC's, and a host that is nobody's. */
    address_t odd;
    address(&odd, nic, "nobody waits here");
    odd.net.HostAddressLen--;
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, &odd.net, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, &odd.net, 10));
    address(&odd, nic, "nobody waits here");
    odd.net.DiscriminatorLen = 200;
    RETURNS(VIP_INVALID_PARAMETER, VipConnectWait(nic, &odd.net, 0, remote, &a, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, &odd.net, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, &odd.net, remote, 10));
    address(&odd, nic, "nobody waits here");
    odd.net.HostAddress[0] ^= 0x40;
    RETURNS(VIP_NO_MATCH, VipConnectRequest(vi, local, &odd.net, 1000, &a));

    /* While a request is on its way. */
    VIP_VI_STATE state;
    VIP_VI_HANDLE v;
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
    RETURNS(VIP_SUCCESS, VipQueryVi(v, NULL, &a, NULL, NULL));
    RETURNS(VIP_SUCCESS, VipConnectPeerRequest(v, local, remote, SECONDS(60)));
    RETURNS(VIP_SUCCESS, VipQueryVi(v, &state, NULL, NULL, NULL));
    HOLDS(state == VIP_STATE_CONNECT_PENDING);
    RETURNS(VIP_NOT_DONE, VipConnectPeerDone(v, NULL));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerRequest(v, local, remote, 1000));
    RETURNS(VIP_INVALID_STATE, VipConnectRequest(v, local, remote, 1000, NULL));
    RETURNS(VIP_INVALID_STATE, VipSetViAttributes(v, &a));
    RETURNS(VIP_INVALID_STATE, VipDestroyVi(v));
    RETURNS(VIP_SUCCESS, VipDisconnect(v));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(v, NULL));
    RETURNS(VIP_SUCCESS, VipDestroyVi(v));
}

/* As many receives as the NIC takes, and one more. */
static void full_queue(void)
{
    VIP_NIC_ATTRIBUTES a;
    VIP_MEM_HANDLE h;
    VIP_VI_HANDLE v;
    VIP_DESCRIPTOR *got;
    MUST(VIP_SUCCESS, VipQueryNic(nic, &a));
    VIP_ULONG most = a.MaxDescriptorsPerQueue;
    unsigned char *all = aligned_alloc(64, 64 * (most + 1));
    memset(all, 0, 64 * (most + 1));
    MUST(VIP_SUCCESS, VipRegisterMem(nic, all, 64 * (most + 1), NULL, &h));
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
    for (VIP_ULONG i = 0; i < most; i++)
        MUST(VIP_SUCCESS, VipPostRecv(v, (VIP_DESCRIPTOR *)(all + 64 * i), h));
    RETURNS(VIP_ERROR_RESOURCE, VipPostRecv(v, (VIP_DESCRIPTOR *)(all + 64 * most), h));
    RETURNS(VIP_SUCCESS, VipDisconnect(v));
    for (VIP_ULONG i = 0; i < most; i++) {
        MUST(VIP_DESCRIPTOR_ERROR, VipRecvDone(v, &got));
        HOLDS(got == (VIP_DESCRIPTOR *)(all + 64 * i));
    }
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(v, &got));
    HOLDS(got == NULL);
    RETURNS(VIP_SUCCESS, VipDestroyVi(v));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, all, h));
    free(all);
}

/* A completion queue is not made smaller than what is in it. */
static void full_completion_queue(void)
{
    VIP_VI_HANDLE v;
    VIP_DESCRIPTOR *got;
    for (int i = 0; i < 3; i++) MUST(VIP_SUCCESS, VipPostRecv(vi, descriptor(i), mem));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(cq, 2));
    RETURNS(VIP_SUCCESS, VipResizeCQ(cq, 3));
    for (int i = 0; i < 3; i++) {
        RETURNS(VIP_SUCCESS, VipCQDone(cq, &v, NULL));
        RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
        HOLDS(v == vi && got == (VIP_DESCRIPTOR *)(memory + 64 * i));
    }
    RETURNS(VIP_SUCCESS, VipResizeCQ(cq, 512));
}

static void names(void)
{
    address_t a, own;
    char name[256], host[256], path[] = "/tmp/vipl-hosts-XXXXXX";
    VIP_ULONG len = sizeof name;
    char localhost[] = "localhost", alpha[] = "alpha", nobody[] = "nobody.invalid", empty[] = "";
    address(&own, nic, "");
    WITH_STRANGERS(nic, VipNSInit(it, NULL));
    WITH_STRANGERS(nic, VipNSShutdown(it));
    WITH_STRANGERS(nic, VipNSGetHostByName(it, localhost, &a.net, 0));
    WITH_STRANGERS(nic, VipNSGetHostByAddr(it, &own.net, name, &len));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, localhost, &a.net, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(nic, &own.net, name, &len));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSShutdown(nic));
    MUST(VIP_SUCCESS, VipNSInit(nic, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, NULL, &a.net, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, localhost, NULL, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, nobody, &a.net, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, empty, &a.net, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(other, localhost, &a.net, 0)); /* not there */
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, localhost, &a.net, 1));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, localhost, &a.net, (VIP_ULONG)-1));
    memset(&a, 0, sizeof a);
    a.net.DiscriminatorLen = 7;
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, localhost, &a.net, 0));
    HOLDS(a.net.HostAddressLen == own.net.HostAddressLen && a.net.DiscriminatorLen == 7);
    HOLDS(memcmp(a.net.HostAddress, own.net.HostAddress, own.net.HostAddressLen) == 0);
    gethostname(host, sizeof host);
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, host, &a.net, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, NULL, name, &len));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, &own.net, NULL, &len));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, &own.net, name, NULL));
    RETURNS(VIP_SUCCESS, VipNSGetHostByAddr(nic, &own.net, name, &len));
    HOLDS(len == strlen(name) + 1 && strcmp(name, host) == 0);
    for (VIP_ULONG short_by = 1; short_by <= strlen(host) + 1; short_by += strlen(host)) {
        len = strlen(host) + 1 - short_by; /* by the zero alone, and by everything */
        RETURNS(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(nic, &own.net, name, &len));
        HOLDS(len == strlen(name) + 1);
    }
    own.net.HostAddress[0] ^= 1;
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(nic, &own.net, name, &len));
    own.net.HostAddressLen = 0xffff;
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, &own.net, name, &len));
    RETURNS(VIP_SUCCESS, VipNSShutdown(nic));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSShutdown(nic));

    char nowhere[] = "/nonexistent/hosts";
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSInit(nic, nowhere));
    RETURNS(VIP_INVALID_PARAMETER, VipNSInit(nic, empty));
    int fd = mkstemp(path);
    HOLDS(dprintf(fd, "# here\n02:5b:10:00:00:01 alpha beta\nself gamma alpha\n") > 0);
    close(fd);
    RETURNS(VIP_SUCCESS, VipNSInit(nic, path));
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, alpha, &a.net, 0));
    HOLDS(a.net.HostAddressLen == 6 && a.net.HostAddress[1] == 0x5b);
    len = sizeof name;
    a.net.DiscriminatorLen = 0;
    RETURNS(VIP_SUCCESS, VipNSGetHostByAddr(nic, &a.net, name, &len));
    HOLDS(strcmp(name, alpha) == 0);
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, alpha, &a.net, 1));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, alpha, &a.net, 2));
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, localhost, &a.net, 0));
    unlink(path);
}

static void management(void)
{
    VIP_AUTODISCOVERY_LIST list = {99, NULL, 0};
    address_t own;
    address(&own, nic, "");
    WITH_STRANGERS(nic, VipQuerySystemManagementInfo(it, VIP_SMI_AUTODISCOVERY, &list));
    RETURNS(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, NULL));
    RETURNS(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, 0, &list));
    RETURNS(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, 77, NULL));
    RETURNS(VIP_SUCCESS, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    HOLDS(list.NumAdAddrs == 1 && list.ADAddrArray != NULL && list.NumberOfHops == 0);
    HOLDS(memcmp(list.ADAddrArray, &own, 4u + own.net.HostAddressLen) == 0);
}

/* One thread waits for a receive that never comes; the VI cannot be destroyed then. */
static void *waits(void *it)
{
    VIP_DESCRIPTOR *got;
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait((VIP_VI_HANDLE)it, VIP_INFINITE, &got));
    return NULL;
}

static volatile int stop;
static VIP_VI_HANDLE volatile shared;

static void *uses(void *none)
{
    VIP_DESCRIPTOR *got;
    VIP_VI_STATE state;
    unsigned long seen[18] = {0};
    while (!stop) {
        VIP_VI_HANDLE v = shared;
        seen[VipRecvDone(v, &got)]++;
        seen[VipPostRecv(v, NULL, mem)]++;
        seen[VipQueryVi(v, &state, NULL, NULL, NULL)]++;
        seen[VipSendWait(v, 0, &got)]++;
    }
    for (int i = 0; i < 18; i++) {
        int allowed = i == VIP_SUCCESS || i == VIP_INVALID_PARAMETER || i == VIP_DESCRIPTOR_ERROR;
        HOLDS(allowed || seen[i] == 0);
    }
    return none;
}

static void threads(void)
{
    pthread_t t[2];
    VIP_DESCRIPTOR *got;
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, descriptor(0), mem));
    pthread_create(&t[0], NULL, waits, vi);
    pause_ms(100);
    RETURNS(VIP_NOT_DONE, VipRecvDone(vi, &got)); /* not behind the other's wait */
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyVi(vi));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    pthread_join(t[0], NULL);

    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, (VIP_VI_HANDLE *)&shared));
    pthread_create(&t[0], NULL, uses, NULL);
    pthread_create(&t[1], NULL, uses, NULL);
    for (int i = 0; i < 2000; i++) {
        VIP_VI_HANDLE v;
        VIP_RETURN ended;
        /* Somebody may just be in a wait, which is told. */
        while ((ended = VipDestroyVi(shared)) == VIP_ERROR_RESOURCE) {}
        HOLDS(ended == VIP_SUCCESS);
        MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
        shared = v;
    }
    stop = 1;
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    RETURNS(VIP_SUCCESS, VipDestroyVi(shared));
}

int main(void)
{
    nics();
    regions();
    queues();
    vis();
    transfers();
    full_queue();
    full_completion_queue();
    callbacks();
    tags();
    connections();
    names();
    management();
    threads();
    RETURNS(VIP_SUCCESS, VipDestroyVi(vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, memory, mem));
    RETURNS(VIP_SUCCESS, VipCloseNic(nic));
    RETURNS(VIP_SUCCESS, VipCloseNic(other));
    return result();
}
