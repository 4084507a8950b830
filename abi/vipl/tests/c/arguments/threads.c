/* Functions that several threads call at the same time. */
#include "arguments.h"

/* Waits for a receive that never completes, and returns the result of the wait. */
static void *waits(void *it)
{
    VIP_DESCRIPTOR *got;
    return (void *)(long)VipRecvWait((VIP_VI_HANDLE)it, VIP_INFINITE, &got);
}

/* A VI cannot be destroyed while a thread waits for its receive. If the thread comes too late, it finds no VI. Then
   the test repeats with a longer pause. */
static void waited_for(void)
{
    pthread_t thread;
    VIP_DESCRIPTOR *got;
    VIP_VI_HANDLE v;
    VIP_RETURN destroyed = VIP_SUCCESS;
    void *waited;
    for (int ms = 100; destroyed == VIP_SUCCESS && ms < 60000; ms *= 2) {
        MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &v));
        RETURNS(VIP_SUCCESS, VipPostRecv(v, descriptor(0), mem));
        pthread_create(&thread, NULL, waits, v);
        pause_ms(ms);
        RETURNS(VIP_NOT_DONE, VipRecvDone(v, &got)); /* not behind the other's wait */
        destroyed = VipDestroyVi(v);
        if (destroyed == VIP_SUCCESS) {
            pthread_join(thread, &waited);
            HOLDS((long)waited == VIP_INVALID_PARAMETER);
        }
    }
    MUST(VIP_ERROR_RESOURCE, destroyed);
    RETURNS(VIP_SUCCESS, VipDisconnect(v));
    pthread_join(thread, &waited);
    HOLDS((long)waited == VIP_DESCRIPTOR_ERROR);
    RETURNS(VIP_SUCCESS, VipDestroyVi(v));
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
    waited_for();

    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, (VIP_VI_HANDLE *)&shared));
    pthread_create(&t[0], NULL, uses, NULL);
    pthread_create(&t[1], NULL, uses, NULL);
    for (int i = 0; i < 2000; i++) {
        VIP_VI_HANDLE v;
        VIP_RETURN ended;
        /* A thread may be in a wait. Then the call returns VIP_ERROR_RESOURCE. */
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
