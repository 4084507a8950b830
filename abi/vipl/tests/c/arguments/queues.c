/* Completion queues, their tags, and full ones. */
#include "arguments.h"

void queues(void)
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
    /* All calls on a destroyed queue fail. */
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

/* A completion queue cannot become smaller than the number of its entries. */
void full_completion_queue(void)
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

static void notes_vi(VIP_PVOID context, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_BOOLEAN recv)
{
    HOLDS(n == nic && recv);
    *(VIP_VI_HANDLE volatile *)context = v;
}

void tags(void)
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
    /* A callback takes its entry, and the event reports the next one. */
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
