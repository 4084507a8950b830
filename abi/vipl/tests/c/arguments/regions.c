/* Protection tags and registered memory. */
#include "arguments.h"

void regions(void)
{
    VIP_PROTECTION_HANDLE first, p, q;
    VIP_MEM_HANDLE h = 0;
    VIP_MEM_ATTRIBUTES a = {NULL, 0, 0};
    WITH_STRANGERS(nic, VipCreatePtag(it, &p));
    RETURNS(VIP_INVALID_PARAMETER, VipCreatePtag(nic, NULL));
    MUST(VIP_SUCCESS, VipCreatePtag(nic, &first));
    MUST(VIP_SUCCESS, VipCreatePtag(nic, &p));
    MUST(VIP_SUCCESS, VipCreatePtag(other, &q));
    HOLDS(p != NULL && p != q && first != NULL && first != p);
    WITH_STRANGERS(nic, VipDestroyPtag(it, p));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, q));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, NULL));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, (VIP_PVOID)-1));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, nic));

    memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WITH_STRANGERS(nic, VipRegisterMem(it, memory, LENGTH, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, LENGTH, &a, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, NULL, LENGTH, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, 0, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, (VIP_ULONG)-1, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, memory, 1UL << 62, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, (VIP_PVOID)64, 64, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, (VIP_PVOID)-64, 64, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, (VIP_PVOID)-64, 128, &a, &h));
    /* Memory that ends within the region. */
    unsigned char *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole + 4096, 4096);
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, hole, 4097, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, hole + 4096, 1, &a, &h));
    RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(nic, hole, 3 * 4096, &a, &h));
    munmap(hole, 3 * 4096);
    a.Ptag = q;
    RETURNS(VIP_INVALID_PTAG, VipRegisterMem(nic, memory, LENGTH, &a, &h));
    a.Ptag = &a;
    RETURNS(VIP_INVALID_PTAG, VipRegisterMem(nic, memory, LENGTH, &a, &h));
    HOLDS(h == 0);

    a.Ptag = p;
    a.EnableRdmaWrite = VIP_TRUE;
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, 3, &a, &h));
    HOLDS(h != 0);
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, p));
    memset(&a, 0, sizeof a);
    RETURNS(VIP_SUCCESS, VipQueryMem(nic, memory, h, &a));
    HOLDS(a.Ptag == p && a.EnableRdmaWrite == VIP_TRUE && a.EnableRdmaRead == VIP_FALSE);
    WITH_STRANGERS(nic, VipQueryMem(it, memory, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, h, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory + 1, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, NULL, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, h + 1, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, 0, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(other, memory, h, &a));
    WITH_STRANGERS(nic, VipSetMemAttributes(it, memory, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, h, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory + 1, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, ~h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, 0, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, NULL, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(other, memory, h, &a));
    a.Ptag = (VIP_PVOID)-1;
    RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory, h, &a));
    a.Ptag = q;
    RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory, h, &a));
    a.Ptag = NULL;
    a.EnableRdmaWrite = 0;
    RETURNS(VIP_SUCCESS, VipSetMemAttributes(nic, memory, h, &a));
    RETURNS(VIP_SUCCESS, VipQueryMem(nic, memory, h, &a));
    /* NULL as a tag means the first tag that was created. */
    HOLDS(a.Ptag == first && !a.EnableRdmaWrite);
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, first));
    a.Ptag = p;
    RETURNS(VIP_SUCCESS, VipSetMemAttributes(nic, memory, h, &a));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(nic, first));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, first));
    a.Ptag = first;
    RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory, h, &a));
    /* Then NULL stands for another tag, which the program cannot destroy. */
    a.Ptag = NULL;
    RETURNS(VIP_SUCCESS, VipSetMemAttributes(nic, memory, h, &a));
    RETURNS(VIP_SUCCESS, VipQueryMem(nic, memory, h, &a));
    HOLDS(a.Ptag != NULL && a.Ptag != first && a.Ptag != p);
    RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, a.Ptag));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(nic, p));
    RETURNS(VIP_INVALID_PTAG, VipDestroyPtag(nic, p));
    RETURNS(VIP_SUCCESS, VipDestroyPtag(other, q));
    WITH_STRANGERS(nic, VipDeregisterMem(it, memory, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory + 1, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, h + 1));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, ~h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, NULL, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(other, memory, h));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, memory, h));
    RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, memory, h));
    RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory, h, &a));
    RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory, h, &a));
    /* Register the same memory twice; the tests below use the second region. */
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, LENGTH, NULL, &h));
    MUST(VIP_SUCCESS, VipRegisterMem(nic, memory, LENGTH, NULL, &mem));
    HOLDS(h != mem);
    RETURNS(VIP_SUCCESS, VipDeregisterMem(nic, memory, h));
}
