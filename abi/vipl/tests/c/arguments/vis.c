/* VIs: creating, querying, destroying. */
#include "arguments.h"

void vis(void)
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
    /* Not every reliability level supports reads. */
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
    /* All calls on a destroyed VI fail. */
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
