/* Callbacks. */
#include "end.h"

/* Each receive's callback sends the message back and registers for the next one. */
static end_t echoed;
static volatile int echoes;
static void echo(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
    VIP_DESCRIPTOR *got;
    HOLDS(context == (VIP_PVOID)&echoed && nic == echoed.nic && vi == echoed.vi);
    if (d->CS.Status & VIP_STATUS_ERROR_MASK) return;
    VIP_DESCRIPTOR *s = prepare(&echoed, 60, d->CS.Length);
    s->DS[0].Local.Data.Address = d->DS[0].Local.Data.Address;
    MUST(VIP_SUCCESS, VipPostSend(vi, s, echoed.mem));
    MUST(VIP_SUCCESS, VipSendWait(vi, SECONDS(20), &got));
    post_recv(&echoed, (int)(((unsigned char *)d - echoed.memory) / 64), 64);
    RETURNS(VIP_SUCCESS, VipRecvNotify(vi, &echoed, echo));
    echoes++;
}

static void notifications(void)
{
    enum { MESSAGES = 200 };
    end_t *e = &echoed;
    open_end(e, NULL, NULL);
    for (int i = 0; i < 2; i++) post_recv(e, i, 64);
    if (server) RETURNS(VIP_SUCCESS, VipRecvNotify(e->vi, e, echo));
    connect_end(e);
    if (server) {
        SOON(echoes == MESSAGES);
    } else {
        for (int n = 0; n < MESSAGES; n++) {
            unsigned char byte = (unsigned char)n;
            say(e, 60, &byte, 1);
            VIP_DESCRIPTOR *d = take_recv(e);
            HOLDS(*(unsigned char *)d->DS[0].Local.Data.Address == byte);
            post_recv(e, n % 2, 64);
        }
    }
    close_end(e);
}

static end_t counted;
static VIP_CQ_HANDLE counting;
static volatile int counts;
static void count(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    VIP_DESCRIPTOR *d;
    HOLDS(context == (VIP_PVOID)&counts && nic == counted.nic && vi == counted.vi && recv);
    if (VipRecvDone(vi, &d) != VIP_SUCCESS) return;
    HOLDS(data(&counted, counts)[0] == counts);
    counts++;
    RETURNS(VIP_SUCCESS, VipCQNotify(counting, (VIP_PVOID)&counts, count));
}

static void queue_notifications(void)
{
    enum { MESSAGES = 50 };
    end_t *e = &counted;
    MUST(VIP_SUCCESS, VipOpenNic("nic1", &e->nic));
    MUST(VIP_SUCCESS, VipCreateCQ(e->nic, 1024, &counting));
    open_end(e, NULL, server ? counting : NULL);
    for (int i = 0; i < MESSAGES; i++) post_recv(e, i, 64);
    if (server) RETURNS(VIP_SUCCESS, VipCQNotify(counting, (VIP_PVOID)&counts, count));
    connect_end(e);
    if (server) {
        SOON(counts == MESSAGES);
        say(e, 60, "x", 1);
    } else {
        for (int n = 0; n < MESSAGES; n++) {
            unsigned char byte = (unsigned char)n;
            say(e, 60, &byte, 1);
        }
        take_recv(e);
    }
    RETURNS(VIP_SUCCESS, VipDisconnect(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(counting));
    RETURNS(VIP_SUCCESS, VipCloseNic(e->nic));
}

const case_t notices[] = {
    {"notifications", notifications},
    {"queue_notifications", queue_notifications},
    {NULL, NULL},
};
