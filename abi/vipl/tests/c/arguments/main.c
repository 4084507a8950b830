/* Calls every function with every kind of argument that it must refuse. No peer is needed. */
#include "arguments.h"

VIP_NIC_HANDLE nic, other;
VIP_VI_HANDLE vi;
VIP_CQ_HANDLE cq;
VIP_MEM_HANDLE mem;
unsigned char *memory;

void strangers(VIP_PVOID *all, int count, VIP_PVOID valid)
{
    static char nowhere;
    VIP_PVOID some[] = {NULL, (VIP_PVOID)1, (VIP_PVOID)-1, &nowhere, memory,
                        (char *)valid + 177, (VIP_PVOID)((uintptr_t)valid ^ (uintptr_t)1 << 35),
                        (VIP_PVOID)((uintptr_t)valid ^ (uintptr_t)1 << 60)};
    for (int i = 0; i < count; i++) all[i] = some[i % 8];
}

void on_vi(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_DESCRIPTOR *d)
{
    (void)n; (void)v;
    *(VIP_DESCRIPTOR *volatile *)c = d;
}
void on_cq(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_BOOLEAN recv)
{
    (void)n; (void)recv;
    *(VIP_VI_HANDLE volatile *)c = v;
}
volatile VIP_ERROR_DESCRIPTOR told;
volatile int errors;
void on_error(VIP_PVOID c, VIP_ERROR_DESCRIPTOR *e)
{
    HOLDS(c == (VIP_PVOID)&told);
    memcpy((void *)&told, e, sizeof told);
    errors++;
}

VIP_DESCRIPTOR *descriptor(int i)
{
    VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(memory + 64 * i);
    memset((void *)d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->DS[0].Local.Data.Address = memory + 32768;
    d->DS[0].Local.Handle = mem;
    d->DS[0].Local.Length = 64;
    d->CS.Length = 64;
    return d;
}

int main(void)
{
    nics();
    regions();
    queues();
    vis();
    transfers();
    full_queue();
    full_completion_queue();
    callbacks();
    tags();
    connections();
    names();
    management();
    threads();
    RETURNS(VIP_SUCCESS, VipDestroyVi(vi));
    RETURNS(VIP_SUCCESS, VipDestroyCQ(cq));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, memory, mem));
    RETURNS(VIP_SUCCESS, VipCloseNic(nic));
    RETURNS(VIP_SUCCESS, VipCloseNic(other));
    return result();
}
