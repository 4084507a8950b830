/* Connecting. */
#include "arguments.h"

void connections(void)
{
    address_t here, there;
    /* This program may run twice at the same time. */
    char me[24];
    snprintf(me, sizeof me, "me, %d", (int)getpid());
    VIP_NET_ADDRESS *local = address(&here, nic, me);
    VIP_NET_ADDRESS *remote = address(&there, nic, "nobody is there");
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
    local->HostAddressLen = 0xffff; /* as memory is that has not been filled in */
    RETURNS(VIP_INVALID_PARAMETER, VipConnectWait(nic, local, 0, remote, &a, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, remote, 10));
    local = address(&here, nic, me);
    WITH_STRANGERS(nic, VipConnectReject(it));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectReject(vi));
    WITH_STRANGERS(vi, VipConnectAccept(c, it));
    WITH_STRANGERS(nic, VipConnectAccept(it, vi));

    remote = address(&there, nic, "nobody is there");
    WITH_STRANGERS(vi, VipConnectRequest(it, local, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, NULL, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, NULL, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, remote, 0, &a));
    RETURNS(VIP_NO_MATCH, VipConnectRequest(vi, local, remote, VIP_INFINITE, &a));
    RETURNS(VIP_NO_MATCH, VipConnectRequest(vi, local, remote, 1000, NULL));
    remote->DiscriminatorLen = 200;
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, remote, 10, &a));
    remote = address(&there, nic, "nobody is there");

    WITH_STRANGERS(vi, VipConnectPeerRequest(it, local, remote, 10));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, NULL, remote, 10));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, NULL, 10));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, remote, 0));
    WITH_STRANGERS(vi, VipConnectPeerDone(it, &a));
    WITH_STRANGERS(vi, VipConnectPeerWait(it, &a));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(vi, &a));
    RETURNS(VIP_INVALID_STATE, VipConnectPeerWait(vi, NULL));

    /* Wrong lengths of addresses, and a host that has no NIC. */
    address_t odd;
    address(&odd, nic, "nobody is there");
    odd.net.HostAddressLen--;
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, &odd.net, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, local, &odd.net, 10));
    address(&odd, nic, "nobody is there");
    odd.net.DiscriminatorLen = 200;
    RETURNS(VIP_INVALID_PARAMETER, VipConnectWait(nic, &odd.net, 0, remote, &a, &c));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(vi, &odd.net, remote, 10, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, &odd.net, remote, 10));
    address(&odd, nic, "nobody is there");
    odd.net.HostAddress[0] ^= 0x40;
    RETURNS(VIP_NO_MATCH, VipConnectRequest(vi, local, &odd.net, 1000, &a));

    /* A request is under way. */
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
