/* A process with a NIC forks. The child opens its own NIC and connects to its parent. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/wait.h>

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "forked";
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *d;
    address_t here, there;
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &nic));
    MUST(VIP_SUCCESS, VipCreateVi(nic, NULL, NULL, NULL, &vi));
    pid_t child = fork();
    if (child == 0) {
        VIP_NIC_HANDLE own;
        VIP_VI_HANDLE mine;
        VIP_RETURN got;
        int tries = 0;
        MUST(VIP_SUCCESS, VipOpenNic("nic0", &own));
        MUST(VIP_SUCCESS, VipCreateVi(own, NULL, NULL, NULL, &mine));
        HOLDS(own != nic && mine != vi);
        do {
            got = VipConnectRequest(mine, address(&here, own, "child"),
                                    address(&there, own, name), SECONDS(20), NULL);
        } while (got == VIP_NO_MATCH && tries++ < 10000 && (pause_ms(1), 1));
        RETURNS(VIP_SUCCESS, got);
        RETURNS(VIP_SUCCESS, VipDisconnect(mine));
        RETURNS(VIP_SUCCESS, VipDestroyVi(mine));
        RETURNS(VIP_SUCCESS, VipCloseNic(own));
        exit(failures != 0);
    }
    int status = -1;
    MUST(VIP_SUCCESS, VipConnectWait(nic, address(&here, nic, name), SECONDS(20), NULL, NULL, &request));
    RETURNS(VIP_SUCCESS, VipConnectAccept(request, vi));
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
    RETURNS(VIP_SUCCESS, VipDisconnect(vi));
    RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &d));
    RETURNS(VIP_SUCCESS, VipDestroyVi(vi));
    RETURNS(VIP_SUCCESS, VipCloseNic(nic));
    return result();
}
