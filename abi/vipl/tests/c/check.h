/* Shared by the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <vipl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Defined once in a program of several files. */
__attribute__((weak)) int failures;

/* Checks that the call returns this code. */
#define RETURNS(code, call)                                                                      \
    do {                                                                                         \
        VIP_RETURN got_ = (call);                                                                \
        if (got_ != (code)) {                                                                    \
            printf("%s:%d: %s returns %d, not %s\n", __FILE__, __LINE__, #call, (int)got_, #code); \
            failures++;                                                                          \
        }                                                                                        \
    } while (0)

#define HOLDS(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                       \
            failures++;                                                                          \
        }                                                                                        \
    } while (0)

/* Like RETURNS, but ends the program on failure. */
#define MUST(code, call)                                                                         \
    do {                                                                                         \
        VIP_RETURN got_ = (call);                                                                \
        if (got_ != (code)) {                                                                    \
            printf("%s:%d: %s returns %d, not %s\n", __FILE__, __LINE__, #call, (int)got_, #code); \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

#define SECONDS(n) ((VIP_ULONG)(n)*1000)

/* An address with room for any discriminator. */
typedef union {
    VIP_NET_ADDRESS net;
    unsigned char room[sizeof(VIP_NET_ADDRESS) + 256];
} address_t;

/* Fills in this NIC's address with a discriminator. */
static VIP_NET_ADDRESS *address(address_t *a, VIP_NIC_HANDLE nic, const char *discriminator)
{
    VIP_NIC_ATTRIBUTES attributes;
    MUST(VIP_SUCCESS, VipQueryNic(nic, &attributes));
    memset(a, 0, sizeof *a);
    a->net.HostAddressLen = attributes.NicAddressLen;
    a->net.DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
    memcpy(a->net.HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
    memcpy(a->net.HostAddress + attributes.NicAddressLen, discriminator, strlen(discriminator));
    return &a->net;
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Waits at most ten seconds until a condition holds. */
#define SOON(condition)                                                                          \
    do {                                                                                         \
        int tries_ = 0;                                                                          \
        while (!(condition) && tries_++ < 10000) pause_ms(1);                                    \
        HOLDS(condition);                                                                        \
    } while (0)

static int result(void)
{
    if (failures == 0) printf("ok\n");
    return failures != 0;
}

#endif
