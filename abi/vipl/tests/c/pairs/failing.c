/* How a connection ends. */
#include "end.h"

/* The peer disconnects. Posted descriptors are flushed, and the error handler is called. The VI
   stays in state ERROR until it is disconnected, and can connect again afterwards. */
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

/* The peer dies. */
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

const case_t failing[] = {
    {"disconnecting", disconnecting},
    {"too_long", too_long},
    {"dying", dying},
    {NULL, NULL},
};
