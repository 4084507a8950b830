/* Sends and receives. */
#include "end.h"

#include <pthread.h>

static void ping_pong(int polling)
{
    static const VIP_UINT32 sizes[] = {0, 1, 4, 48, 112, 113, 1000, 4096, 8191, 8192};
    end_t e = {0};
    VIP_DESCRIPTOR *d;
    open_end(&e, NULL, NULL);
    post_recv(&e, 1, DATA);
    post_recv(&e, 2, DATA);
    connect_end(&e);
    for (int round = 0; round < 1000; round++) {
        VIP_UINT32 length = sizes[round % 10];
        if (!server) {
            VIP_DESCRIPTOR *s = prepare(&e, 0, length);
            for (VIP_UINT32 i = 0; i < length; i++) data(&e, 0)[i] = pattern(round, i);
            if (round % 2) s->CS.Control |= VIP_CONTROL_IMMEDIATE;
            s->CS.ImmediateData = (VIP_UINT32)round;
            send_now(&e, s);
        }
        int i = 1 + round % 2;
        if (polling) {
            /* Some programs poll the status field themselves. */
            VIP_RETURN got = VIP_NOT_DONE;
            for (long looks = 1; !(at(&e, i)->CS.Status & VIP_STATUS_DONE); looks++) {
                got = VipRecvDone(e.vi, &d);
                if (got != VIP_NOT_DONE) break;
                if (looks % 100 == 0) pause_ms(1);
            }
            if (got == VIP_NOT_DONE) got = VipRecvDone(e.vi, &d);
            MUST(VIP_SUCCESS, got);
            HOLDS(d == at(&e, i));
        } else {
            MUST(VIP_SUCCESS, VipRecvWait(e.vi, SECONDS(20), &d));
            HOLDS(d == at(&e, i));
        }
        d = at(&e, i);
        HOLDS(d->CS.Length == length);
        HOLDS((d->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RECEIVE);
        int wrong = 0;
        for (VIP_UINT32 n = 0; n < length; n++) wrong += data(&e, i)[n] != pattern(round, n);
        HOLDS(wrong == 0);
        HOLDS(!(d->CS.Status & VIP_STATUS_IMMEDIATE) == !(round % 2));
        if (round % 2) HOLDS(d->CS.ImmediateData == (VIP_UINT32)round);
        if (server) {
            VIP_DESCRIPTOR *s = prepare(&e, 0, length);
            memcpy(data(&e, 0), data(&e, i), length);
            if (round % 2) s->CS.Control |= VIP_CONTROL_IMMEDIATE;
            s->CS.ImmediateData = (VIP_UINT32)round;
            post_recv(&e, i, DATA);
            send_now(&e, s);
        } else {
            post_recv(&e, i, DATA);
        }
        if (failures) exit(1);
    }
    close_end(&e);
}
static void polling(void) { ping_pong(1); }
static void waiting(void) { ping_pong(0); }

/* Gathers and scatters with as many segments as a descriptor may have. */
static void segments(void)
{
    enum { MANY = 252 };
    end_t e = {0};
    open_end(&e, NULL, NULL);
    VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)e.memory, *got;
    d->CS.SegCount = MANY;
    d->CS.Length = MANY * 3;
    for (int i = 0; i < MANY; i++) {
        d->Data[i].Data.Address = e.memory + 65536 + (server ? 5 : 7) * i;
        d->Data[i].Handle = e.mem;
        d->Data[i].Length = 3;
        if (!server) memset(e.memory + 65536 + 7 * i, i, 3);
    }
    if (server) MUST(VIP_SUCCESS, VipPostRecv(e.vi, d, e.mem));
    connect_end(&e);
    if (server) {
        HOLDS(take_recv(&e) == d && d->Control.Length == MANY * 3);
        for (int i = 0; i < MANY; i++)
            for (int n = 0; n < 5; n++) HOLDS(e.memory[65536 + 5 * i + n] == (n < 3 ? i : 0));
    } else {
        MUST(VIP_SUCCESS, VipPostSend(e.vi, d, e.mem));
        MUST(VIP_SUCCESS, VipSendWait(e.vi, SECONDS(20), &got));
        HOLDS(got == d);
        pause_ms(100);
    }
    close_end(&e);
}

/* Four threads share one VI. Each takes the next message, and sends it back. */
static end_t crowd;
static void *echoes_some(void *own)
{
    VIP_DESCRIPTOR *d, *any;
    int number = (int)(intptr_t)own;
    for (int i = 0; i < 500; i++) {
        VIP_RETURN got = VipRecvWait(crowd.vi, SECONDS(20), &d);
        MUST(VIP_SUCCESS, got);
        VIP_DESCRIPTOR *s = prepare(&crowd, number, 4);
        memcpy(data(&crowd, number), (void *)d->DS[0].Local.Data.Address, 4);
        MUST(VIP_SUCCESS, VipPostRecv(crowd.vi, d, crowd.mem));
        MUST(VIP_SUCCESS, VipPostSend(crowd.vi, s, crowd.mem));
        MUST(VIP_SUCCESS, VipSendWait(crowd.vi, SECONDS(20), &any));
        SOON(s->CS.Status & VIP_STATUS_DONE); /* one of them has taken it */
    }
    return own;
}

static void threads(void)
{
    enum { ROUNDS = 250, EACH = 8 };
    pthread_t t[4];
    end_t *e = &crowd;
    open_end(e, NULL, NULL);
    for (int i = 0; i < 2 * EACH; i++) post_recv(e, i, 64);
    connect_end(e);
    if (server) {
        for (int i = 0; i < 4; i++)
            pthread_create(&t[i], NULL, echoes_some, (VIP_PVOID)(intptr_t)(40 + i));
        for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
        pause_ms(100);
    } else {
        for (int round = 0; round < ROUNDS; round++) {
            int seen = 0;
            for (int i = 0; i < EACH; i++) {
                int bit = 1 << i;
                say(e, 60, &bit, sizeof bit);
            }
            for (int i = 0; i < EACH; i++) {
                VIP_DESCRIPTOR *d = take_recv(e);
                seen |= *(int *)d->DS[0].Local.Data.Address;
                MUST(VIP_SUCCESS, VipPostRecv(e->vi, d, e->mem));
            }
            HOLDS(seen == (1 << EACH) - 1);
        }
    }
    close_end(e);
}

const case_t transfers[] = {
    {"polling", polling},
    {"waiting", waiting},
    {"segments", segments},
    {"threads", threads},
    {NULL, NULL},
};
