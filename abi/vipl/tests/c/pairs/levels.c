/* Reliability levels. */
#include "end.h"

/* Without a receive, or with one that is too short, a message is dropped and reported. The
 * connection stays. */
static void unreliable(void)
{
    end_t e = {0};
    VIP_NIC_ATTRIBUTES nic;
    VIP_DESCRIPTOR *d;
    VIP_VI_STATE state;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &e.nic));
    MUST(VIP_SUCCESS, VipErrorCallback(e.nic, NULL, on_error));
    MUST(VIP_SUCCESS, VipQueryNic(e.nic, &nic));
    if (!(nic.ReliabilityLevelSupport & VIP_SERVICE_UNRELIABLE)) {
        e.attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
        e.attributes.MaxTransferSize = 64;
        RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipCreateVi(e.nic, &e.attributes, NULL, NULL, &e.vi));
        return;
    }
    e.attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
    open_end(&e, NULL, NULL);
    if (!server) post_recv(&e, 0, 64);
    connect_end(&e);
    if (server) {
        SOON(errors == 1); /* nothing is posted */
        HOLDS(told.ErrorCode == VIP_ERROR_RECVQ_EMPTY && told.ViHandle == e.vi);
        post_recv(&e, 1, 10);
        post_recv(&e, 2, 64);
        say(&e, 60, "go on", 5);
        MUST(VIP_DESCRIPTOR_ERROR, VipRecvWait(e.vi, SECONDS(20), &d));
        HOLDS(d == at(&e, 1) && d->CS.Status & VIP_STATUS_LENGTH_ERROR);
        HOLDS(take_recv(&e) == at(&e, 2));
    } else {
        say(&e, 60, "lost", 4);
        take_recv(&e);
        say(&e, 60, "longer than ten", 15);
        say(&e, 60, "arrives", 7);
    }
    RETURNS(VIP_SUCCESS, VipQueryVi(e.vi, &state, NULL, NULL, NULL));
    HOLDS(state == VIP_STATE_CONNECTED || !server);
    if (!server) pause_ms(200);
    close_end(&e);
}

/* A send completes when its message has arrived. */
static void reliable_reception(void)
{
    end_t e = {0};
    VIP_NIC_ATTRIBUTES nic;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &e.nic));
    MUST(VIP_SUCCESS, VipQueryNic(e.nic, &nic));
    if (!(nic.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_RECEPTION)) return;
    e.attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
    open_end(&e, NULL, NULL);
    for (int i = 0; i < 32; i++) post_recv(&e, i, 64);
    connect_end(&e);
    for (int i = 0; i < 32; i++) {
        if (!server) say(&e, 60, &i, sizeof i);
        HOLDS(take_recv(&e) == at(&e, i) && *(int *)data(&e, i) == i);
        if (server) say(&e, 60, &i, sizeof i);
    }
    pause_ms(100); /* the last one's arrival has to be told to its sender */
    close_end(&e);
}

const case_t levels[] = {
    {"unreliable", unreliable},
    {"reliable_reception", reliable_reception},
    {NULL, NULL},
};
