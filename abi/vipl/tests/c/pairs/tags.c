/* Tags of cLAN: completion queues that notify an event. */
#include "end.h"

#include <poll.h>

/* The completion queue's event on cLAN, as a descriptor for poll. */
static void tagged(void)
{
    enum { MESSAGES = 300 };
    end_t e = {0};
    VIP_CQ_HANDLE cq;
    VIP_EVENT_HANDLE event = NULL;
    MUST(VIP_SUCCESS, VipOpenNic("/dev/clanvi0", &e.nic));
    MUST(VIP_SUCCESS, VipCreateCQ(e.nic, 1024, &cq));
    MUST(VIP_SUCCESS, VipAddTagCQ(cq, &event, 7, 0));
    open_end(&e, NULL, cq);
    for (int i = 0; i < 32; i++) post_recv(&e, i, 64);
    connect_end(&e);
    int got = 0;
    while (got < MESSAGES) {
        if (!server) say(&e, 60, &got, sizeof got);
        struct pollfd p = {(int)(intptr_t)event, POLLIN, 0};
        HOLDS(poll(&p, 1, 20000) == 1);
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN recv;
        VIP_DESCRIPTOR *d;
        int before = got;
        while (got < MESSAGES && VipCQDone(cq, &vi, &recv) == VIP_SUCCESS) {
            HOLDS(vi == e.vi && recv);
            MUST(VIP_SUCCESS, VipRecvDone(vi, &d));
            HOLDS(*(int *)d->DS[0].Local.Data.Address == got);
            MUST(VIP_SUCCESS, VipPostRecv(vi, prepare(&e, got % 32, 64), e.mem));
            got++;
        }
        if (server && got > before) say(&e, 60, &before, sizeof before);
        if (failures) exit(1);
    }
    if (!server) pause_ms(50);
    RETURNS(VIP_SUCCESS, VipDisconnect(e.vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e.vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipCloseNic(e.nic));
}

/* Half of the messages are reported by the event, and half by callbacks of the same queue. */
static end_t mixed;
static VIP_CQ_HANDLE mixing;
static volatile int by_callback;
static void take_one(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *d;
    MUST(VIP_SUCCESS, VipRecvDone(vi, &d));
    MUST(VIP_SUCCESS, VipPostRecv(vi, d, mixed.mem));
}
static void takes_one(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    HOLDS(context == &mixed && nic == mixed.nic && vi == mixed.vi && recv);
    take_one(vi);
    by_callback++;
}

static void tagged_notifications(void)
{
    enum { ROUNDS = 200 };
    end_t *e = &mixed;
    VIP_EVENT_HANDLE event = NULL;
    MUST(VIP_SUCCESS, VipOpenNic("/dev/clanvi0", &e->nic));
    MUST(VIP_SUCCESS, VipCreateCQ(e->nic, 1024, &mixing));
    MUST(VIP_SUCCESS, VipAddTagCQ(mixing, &event, 7, 0));
    open_end(e, NULL, server ? mixing : NULL);
    for (int i = 0; i < 8; i++) post_recv(e, i, 64);
    connect_end(e);
    for (int round = 0; round < ROUNDS; round++) {
        if (!server) {
            say(e, 60, "1", 1);
            say(e, 60, "2", 1);
            MUST(VIP_SUCCESS, VipPostRecv(e->vi, take_recv(e), e->mem));
            continue;
        }
        struct pollfd p = {(int)(intptr_t)event, POLLIN, 0};
        VIP_VI_HANDLE vi;
        RETURNS(VIP_SUCCESS, VipCQNotify(mixing, e, takes_one));
        /* The event may be for the entry that the callback takes. */
        VIP_RETURN got = VIP_NOT_DONE;
        while (got == VIP_NOT_DONE && poll(&p, 1, 20000) == 1) got = VipCQDone(mixing, &vi, NULL);
        MUST(VIP_SUCCESS, got);
        HOLDS(vi == e->vi);
        SOON(by_callback == round + 1);
        take_one(vi);
        RETURNS(VIP_NOT_DONE, VipCQDone(mixing, &vi, NULL));
        HOLDS(poll(&p, 1, 0) == 0);
        say(e, 60, "done", 4);
        if (failures) exit(1);
    }
    if (server) pause_ms(50);
    RETURNS(VIP_SUCCESS, VipDisconnect(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(mixing));
    RETURNS(VIP_SUCCESS, VipCloseNic(e->nic));
}

const case_t tags[] = {
    {"tagged", tagged},
    {"tagged_notifications", tagged_notifications},
    {NULL, NULL},
};
