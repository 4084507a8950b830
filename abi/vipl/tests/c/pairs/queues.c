/* Completion queues. */
#include "end.h"

/* Several VIs share one completion queue for all work of the server. */
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
        /* These end when the server disconnects. */
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

/* More descriptors complete than the completion queue has room for. The error handler reports the
 * overrun. */
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

const case_t queues[] = {
    {"completion_queue", completion_queue},
    {"overrun", overrun},
    {NULL, NULL},
};
