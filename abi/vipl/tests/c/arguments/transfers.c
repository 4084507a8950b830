/* Posting, completing and waiting. */
#include "arguments.h"

void transfers(void)
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
    /* The error handler reports memory that holds no valid descriptor. */
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

    /* Receives that are posted before the connection, and then flushed. */
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

/* Posts as many receives as the NIC takes, and one more. */
void full_queue(void)
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

/* A callback may destroy its own VI. */
static VIP_VI_HANDLE volatile ended;
static void ends_vi(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_DESCRIPTOR *d)
{
    (void)c; (void)d;
    HOLDS(n == nic);
    RETURNS(ended ? VIP_INVALID_PARAMETER : VIP_SUCCESS, VipDestroyVi(v));
    RETURNS(VIP_INVALID_PARAMETER, VipDestroyVi(v));
    ended = v;
}

void callbacks(void)
{
    VIP_VI_HANDLE v;
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
    for (int i = 0; i < 3; i++) RETURNS(VIP_SUCCESS, VipPostRecv(v, descriptor(i), mem));
    for (int i = 0; i < 3; i++) RETURNS(VIP_SUCCESS, VipRecvNotify(v, NULL, ends_vi));
    RETURNS(VIP_SUCCESS, VipDisconnect(v));
    SOON(ended == v);
    /* The other two callbacks find no VI, or do not run. */
    pause_ms(20);
}
