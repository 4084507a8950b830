/* RDMA. */
#include "end.h"

/* Address and handle of the peer's memory, as an RDMA needs them. */
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
        /* An RDMA write with immediate data uses up a receive, which reports it. The write before
         * it has arrived then. */
        VIP_DESCRIPTOR *d;
        MUST(VIP_SUCCESS, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS((d->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE);
        HOLDS((d->CS.Status & VIP_STATUS_IMMEDIATE) && d->CS.ImmediateData == 0xbeef);
        for (int i = 0; i < 8000; i++) HOLDS(data(&e, 20)[i] == (i < 4000 ? 'a' : 'b'));
        say(&e, 61, "seen", 4);
        /* An invalid handle; the error handler reports it. */
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
        /* A send with a fence waits for the read before it. */
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

const case_t rdmas[] = {
    {"rdma_writes", rdma_writes},
    {"rdma_reads", rdma_reads},
    {NULL, NULL},
};
