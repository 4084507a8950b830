/* Functions that several threads are in at the same time. */
#include "arguments.h"

/* One thread waits for a receive that never comes; the VI cannot be destroyed then. */
static void *waits(void *it)
{
    VIP_DESCRIPTOR *got;
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait((VIP_VI_HANDLE)it, VIP_INFINITE, &got));
    return NULL;
}

static volatile int stop;
static VIP_VI_HANDLE volatile shared;

static void *uses(void *none)
{
    VIP_DESCRIPTOR *got;
    VIP_VI_STATE state;
    unsigned long seen[18] = {0};
    while (!stop) {
        VIP_VI_HANDLE v = shared;
        seen[VipRecvDone(v, &got)]++;
        seen[VipPostRecv(v, NULL, mem)]++;
        seen[VipQueryVi(v, &state, NULL, NULL, NULL)]++;
        seen[VipSendWait(v, 0, &got)]++;
    }
    for (int i = 0; i < 18; i++) {
        int allowed = i == VIP_SUCCESS || i == VIP_INVALID_PARAMETER || i == VIP_DESCRIPTOR_ERROR;
        HOLDS(allowed || seen[i] == 0);
    }
    return none;
}

void threads(void)
{
    pthread_t t[2];
    VIP_DESCRIPTOR *got;
    RETURNS(VIP_SUCCESS, VipPostRecv(vi, descriptor(0), mem));
    pthread_create(&t[0], NULL, waits, vi);
    pause_ms(100);
    RETURNS(VIP_NOT_DONE, VipRecvDone(vi, &got)); /* not behind the other's wait */
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyVi(vi));
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    pthread_join(t[0], NULL);

    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, (VIP_VI_HANDLE *)&shared));
    pthread_create(&t[0], NULL, uses, NULL);
    pthread_create(&t[1], NULL, uses, NULL);
    for (int i = 0; i < 2000; i++) {
        VIP_VI_HANDLE v;
        VIP_RETURN ended;
        /* A thread may just be in a wait: then the call returns VIP_ERROR_RESOURCE. */
        while ((ended = VipDestroyVi(shared)) == VIP_ERROR_RESOURCE) {}
        HOLDS(ended == VIP_SUCCESS);
        MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
        shared = v;
    }
    stop = 1;
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    RETURNS(VIP_SUCCESS, VipDestroyVi(shared));
}
