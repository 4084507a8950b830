/* NICs, the name service, and management functions. */
#include "arguments.h"

void nics(void)
{
    VIP_NIC_HANDLE n;
    VIP_NIC_ATTRIBUTES a;
    char name[66];
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic(NULL, &n));
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("VINIC", NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("", &n));
    memset(name, 'n', sizeof name);
    name[64] = 0;
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic(name, &n));
    RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("\xff\xfe", &n)); /* no text */
    name[63] = 0;
    static const char *const names[] = {"/dev/via_lo", "/dev/via_eth0", "/dev/clanvi0", "VINIC",
                                        "VINIC0", "nic0", "whatever"};
    unsigned char first[64];
    for (int i = 0; i < 8; i++) {
        const char *this = i < 7 ? names[i] : name;
        MUST(VIP_SUCCESS, VipOpenNic(this, &n));
        RETURNS(VIP_SUCCESS, VipQueryNic(n, &a));
        HOLDS(strcmp(a.Name, this) == 0);
        HOLDS(a.NicAddressLen >= 1 && a.NicAddressLen < 64);
        /* All names mean the same NIC. */
        if (i == 0) memcpy(first, a.LocalNicAddress, a.NicAddressLen);
        HOLDS(memcmp(first, a.LocalNicAddress, a.NicAddressLen) == 0);
        RETURNS(VIP_SUCCESS, VipCloseNic(n));
        RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(n));
        RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(n, &a));
    }
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &nic));
    MUST(VIP_SUCCESS, VipOpenNic("VINIC", &other));
    HOLDS(nic != other);
    RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(nic, NULL));
    RETURNS(VIP_SUCCESS, VipQueryNic(nic, &a));
    HOLDS(a.ThreadSafe);
    HOLDS(a.MaxDiscriminatorLen >= 16 && a.MaxTransferSize >= 32768 && a.MaxSegmentsPerDesc >= 252);
    HOLDS(a.MaxDescriptorsPerQueue >= 256 && a.MaxCQ >= 1 && a.MaxCQEntries >= 1024 && a.MaxVI >= 1);
    HOLDS(a.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY);
    WITH_STRANGERS(nic, VipQueryNic(it, &a));
    WITH_STRANGERS(nic, VipCloseNic(it));
    WITH_STRANGERS(nic, VipErrorCallback(it, NULL, on_error));
}

void names(void)
{
    address_t a, own;
    char name[256], host[256], path[] = "/tmp/vipl-hosts-XXXXXX";
    VIP_ULONG len = sizeof name;
    char localhost[] = "localhost", alpha[] = "alpha", nobody[] = "nobody.invalid", empty[] = "";
    address(&own, nic, "");
    WITH_STRANGERS(nic, VipNSInit(it, NULL));
    WITH_STRANGERS(nic, VipNSShutdown(it));
    WITH_STRANGERS(nic, VipNSGetHostByName(it, localhost, &a.net, 0));
    WITH_STRANGERS(nic, VipNSGetHostByAddr(it, &own.net, name, &len));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, localhost, &a.net, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(nic, &own.net, name, &len));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSShutdown(nic));
    MUST(VIP_SUCCESS, VipNSInit(nic, NULL));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, NULL, &a.net, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, localhost, NULL, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, nobody, &a.net, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, empty, &a.net, 0));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(other, localhost, &a.net, 0)); /* not there */
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, localhost, &a.net, 1));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, localhost, &a.net, (VIP_ULONG)-1));
    memset(&a, 0, sizeof a);
    a.net.DiscriminatorLen = 7;
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, localhost, &a.net, 0));
    HOLDS(a.net.HostAddressLen == own.net.HostAddressLen && a.net.DiscriminatorLen == 7);
    HOLDS(memcmp(a.net.HostAddress, own.net.HostAddress, own.net.HostAddressLen) == 0);
    gethostname(host, sizeof host);
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, host, &a.net, 0));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, NULL, name, &len));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, &own.net, NULL, &len));
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, &own.net, name, NULL));
    RETURNS(VIP_SUCCESS, VipNSGetHostByAddr(nic, &own.net, name, &len));
    HOLDS(len == strlen(name) + 1 && strcmp(name, host) == 0);
    for (VIP_ULONG short_by = 1; short_by <= strlen(host) + 1; short_by += strlen(host)) {
        len = strlen(host) + 1 - short_by; /* by the zero alone, and by everything */
        RETURNS(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(nic, &own.net, name, &len));
        HOLDS(len == strlen(name) + 1);
    }
    own.net.HostAddress[0] ^= 1;
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(nic, &own.net, name, &len));
    own.net.HostAddressLen = 0xffff;
    RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, &own.net, name, &len));
    RETURNS(VIP_SUCCESS, VipNSShutdown(nic));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSShutdown(nic));

    char nowhere[] = "/nonexistent/hosts";
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSInit(nic, nowhere));
    RETURNS(VIP_INVALID_PARAMETER, VipNSInit(nic, empty));
    int fd = mkstemp(path);
    HOLDS(dprintf(fd, "# here\n02:5b:10:00:00:01 alpha beta\nself gamma alpha\n") > 0);
    close(fd);
    RETURNS(VIP_SUCCESS, VipNSInit(nic, path));
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, alpha, &a.net, 0));
    HOLDS(a.net.HostAddressLen == 6 && a.net.HostAddress[1] == 0x5b);
    len = sizeof name;
    a.net.DiscriminatorLen = 0;
    RETURNS(VIP_SUCCESS, VipNSGetHostByAddr(nic, &a.net, name, &len));
    HOLDS(strcmp(name, alpha) == 0);
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, alpha, &a.net, 1));
    RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, alpha, &a.net, 2));
    RETURNS(VIP_SUCCESS, VipNSGetHostByName(nic, localhost, &a.net, 0));
    unlink(path);
}

void management(void)
{
    VIP_AUTODISCOVERY_LIST list = {99, NULL, 0};
    address_t own;
    address(&own, nic, "");
    WITH_STRANGERS(nic, VipQuerySystemManagementInfo(it, VIP_SMI_AUTODISCOVERY, &list));
    RETURNS(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, NULL));
    RETURNS(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, 0, &list));
    RETURNS(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, 77, NULL));
    RETURNS(VIP_SUCCESS, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    HOLDS(list.NumAdAddrs == 1 && list.ADAddrArray != NULL && list.NumberOfHops == 0);
    HOLDS(memcmp(list.ADAddrArray, &own, 4u + own.net.HostAddressLen) == 0);
}
