/* How connections are established, or fail. */
#include "end.h"

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

/* A request whose attributes do not match can only be rejected, and both ends learn which attribute
 * differed. */
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

/* A request is accepted at the third try: the first VI is connected already, and the second has
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
        VIP_NIC_HANDLE strange;
        VIP_VI_HANDLE stranger;
        larger.MaxTransferSize *= 2;
        MUST(VIP_SUCCESS, VipCreateVi(e.nic, &larger, NULL, NULL, &other));
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), NULL, NULL, &c));
        RETURNS(VIP_INVALID_STATE, VipConnectAccept(c, busy));
        RETURNS(VIP_INVALID_MTU, VipConnectAccept(c, other));
        RETURNS(VIP_INVALID_STATE, VipSetViAttributes(busy, &larger));
        RETURNS(VIP_INVALID_STATE, VipDestroyVi(busy));
        MUST(VIP_SUCCESS, VipOpenNic("nic1", &strange));
        MUST(VIP_SUCCESS, VipCreateVi(strange, NULL, NULL, NULL, &stranger));
        RETURNS(VIP_INVALID_PARAMETER, VipConnectAccept(c, stranger));
        RETURNS(VIP_SUCCESS, VipDestroyVi(stranger));
        RETURNS(VIP_SUCCESS, VipCloseNic(strange));
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
        /* The server does not accept this request in time. */
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
        /* The requester has given up. The handle becomes invalid, and there is nothing to reject. */
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

/* There is no quality of service. QoS values that programs leave in the field do not keep two VIs
   apart, and are never reported. */
static void quality_of_service(void)
{
    end_t e = {0};
    VIP_VI_ATTRIBUTES far;
    e.attributes.QoS = server ? (VIP_QOS)&e : (VIP_QOS)0x1234;
    open_end(&e, NULL, NULL);
    memset(&far, 0xff, sizeof far);
    RETURNS(VIP_SUCCESS, VipQueryVi(e.vi, NULL, &far, NULL, NULL));
    HOLDS(far.QoS == NULL);
    memset(&far, 0xff, sizeof far);
    if (server) {
        VIP_CONN_HANDLE c;
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), NULL, &far, &c));
        HOLDS(far.QoS == NULL);
        RETURNS(VIP_SUCCESS, VipConnectAccept(c, e.vi));
        pause_ms(50);
    } else {
        VIP_RETURN got = VIP_NO_MATCH;
        for (int tries = 0; got == VIP_NO_MATCH && tries < 20000; tries++) {
            got = VipConnectRequest(e.vi, &e.local.net, &e.remote.net, SECONDS(20), &far);
            if (got == VIP_NO_MATCH) pause_ms(1);
        }
        MUST(VIP_SUCCESS, got);
        HOLDS(far.QoS == NULL);
    }
    RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
    e.attributes.QoS = (VIP_QOS)-1;
    RETURNS(VIP_SUCCESS, VipSetViAttributes(e.vi, &e.attributes));
    close_end(&e);
}

/* Neither side waits for the other. */
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
    address_there(&e, other);
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
    /* No peer comes. */
    address_there(&e, "nobody");
    RETURNS(VIP_SUCCESS, VipConnectPeerRequest(e.vi, &e.local.net, &e.remote.net, 30));
    got = VipConnectPeerWait(e.vi, &far);
    HOLDS(got == VIP_TIMEOUT || got == VIP_NO_MATCH);
    close_end(&e);
}

/* An address in a plain variable has room for the longest possible discriminator. */
static void plain_address(void)
{
    end_t e = {0};
    VIP_NIC_ATTRIBUTES nic;
    struct {
        unsigned char before[32];
        VIP_NET_ADDRESS net;
        unsigned char behind[32];
    } far;
    char longest[17] = "sixteen bytes ..";
    open_end(&e, NULL, NULL);
    RETURNS(VIP_SUCCESS, VipQueryNic(e.nic, &nic));
    HOLDS(nic.MaxDiscriminatorLen == 16);
    memset(&far, 0xa5, sizeof far);
    if (server) {
        VIP_CONN_HANDLE c;
        MUST(VIP_SUCCESS, VipConnectWait(e.nic, &e.local.net, SECONDS(20), &far.net, NULL, &c));
        HOLDS(far.net.HostAddressLen == nic.NicAddressLen && far.net.DiscriminatorLen == 16);
        HOLDS(memcmp(far.net.HostAddress + nic.NicAddressLen, longest, 16) == 0);
        RETURNS(VIP_SUCCESS, VipConnectReject(c));
    } else {
        VIP_AUTODISCOVERY_LIST list;
        address(&e.local, e.nic, longest);
        RETURNS(VIP_REJECT, try_connect(&e));
        e.local.net.DiscriminatorLen = 17;
        RETURNS(VIP_INVALID_PARAMETER, try_connect(&e));
        e.local.net.DiscriminatorLen = 0;
        RETURNS(VIP_SUCCESS, VipQuerySystemManagementInfo(e.nic, VIP_SMI_AUTODISCOVERY, &list));
        far.net = list.ADAddrArray[0];
        HOLDS(memcmp(far.net.HostAddress, nic.LocalNicAddress, nic.NicAddressLen) == 0);
    }
    for (size_t i = 0; i < 32; i++) HOLDS(far.before[i] == 0xa5 && far.behind[i] == 0xa5);
    close_end(&e);
}

const case_t connecting[] = {
    {"plain_address", plain_address},
    {"rejecting", rejecting},
    {"mismatching", mismatching},
    {"accepting_with_another", accepting_with_another},
    {"quality_of_service", quality_of_service},
    {"peers", peers},
    {NULL, NULL},
};
